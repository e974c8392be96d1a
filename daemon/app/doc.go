// Package app puts a croft together: a data directory, a store, providers, a
// registry and the API over them, and takes it apart again in order.
//
// [Open] is enough for a program that works on the data directory directly;
// [System.Client] then speaks the HTTP API with it inside the process, so that a
// command has one code path whether it works on a directory or on a server.
// [System.Serve] adds what a daemon does: it sweeps leftovers, keeps leases and
// expiry going, and answers on a listener. Any number of programs may have one
// data directory open at once, of which one may serve it.
//
// # The data directory
//
// It has mode 0700 and holds
//
//	version      the version of this layout; a later one is refused
//	token        the bearer token, mode 0600, made once
//	croft.yaml   the configuration, if somebody put it here; see package config
//	croft.db     the registry's store, unless another one is named, with -wal and -shm beside it
//	croft.db.reserve
//	             room that is given back when the disk is full, so that workspaces can still be removed
//	store-id     the ids of the stores that have workspaces here: for any other nothing is swept
//	store-id.lock
//	             keeps opening and sweeping apart, also between stores
//	events.jsonl the audit stream, one event per line; rotated to events.jsonl.1 and on;
//	             the configuration may put it elsewhere
//	up.lock      held by the daemon that serves the directory, with its process id
//	ws/          what providers keep in directories, one per workspace
//	filestore*   what the filestore provider keeps
//
// # The order of shutting down
//
//  1. watches, waits and connections that carry a command end, and no new
//     connection is taken
//  2. requests under way end, within a bound
//  3. the registry's background work ends, and nothing more is announced
//  4. the registry lets go of every live workspace
//  5. the providers are closed, and then the store
//  6. the file of events is closed
//
// Each step has its own bound, so that a stuck one can't keep the rest from
// happening.
package app
