// Package datadir makes, checks, locks and removes data directories.
//
// A data directory has mode 0700 and contains
//
//	version        layout version; another one is refused
//	token          bearer token, mode 0600, created once
//	croft.yaml     configuration, if the operator put it here; see package config
//	croft.db       registry store (SQLite), with -wal and -shm, unless the configuration
//	               names another one
//	croft.db.lock  flock: a sweep takes it exclusively, the opening of a workspace shared
//	croft.db.turnstile
//	               flock that is taken before croft.db.lock, so that a sweep does not starve
//	croft.db.reserve
//	               disk reserve, freed when the disk is full so that workspaces can be removed
//	store-id       ids of the registry stores with workspaces here; other stores must not sweep
//	store-id.lock  flock: excludes sweeping while a workspace is opened
//	housekeeping   its time is that of the last removal of expired snapshots by a command
//	node-id        id of the data directory in a cluster, by which a node keeps its name
//	up.lock        flock of the daemon that serves the directory, with its process id
//	events.jsonl   audit stream, one event per line, rotated to events.jsonl.1 and so on;
//	               the configuration may name another path; events.jsonl.violations has
//	               the violations, which other events do not evict
//	ws/            workspace directories of the providers local, sandbox and docker;
//	               ws/.journals has the journals of directories that are used in place
//	filestore.db   database of the provider filestore (SQLite), with -wal and -shm
//	filestore/     bucket, writer locks and disk reserve of the provider filestore
//	store/         snapshot store; store/cache has stat caches of snapshotted trees
//	layers/        layers that workspaces of the sandbox share
//	sandbox/       guest program, and levels of isolation that passed their test on this host,
//	               for the provider sandbox
//	docker/        guest program and proofs of engines, for the provider docker
//	pool/          flock files of the pool, by kind; its workspaces are in ws/
//	prep/          staging metadata of workspaces
//	edits/         records of the edits of workspaces and directories, for undo
//	artifacts/     artifacts of workspaces
//	cache/         machine code of the script interpreter
//	e2b/           templates of E2B's API: their builds, logs and uploaded files
//	e2b.key        key of the access tokens of E2B's sandboxes, mode 0600
//	page.key       key of the cookies of the page, mode 0600
//	volumes/       volumes that sandboxes share
//	results/       long answers of tools, for the next process
//	tmp/           unpacked images, while a template is made
//	eval/          directories of running evaluations, each with a lock file
package datadir
