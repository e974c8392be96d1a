// Package app assembles the parts of croft (data directory, store, providers, registry,
// HTTP API) and shuts them down in order.
//
// [Open] is enough for a program that uses the data directory directly;
// [System.Client] is a client of the HTTP API inside the process, so that a command
// has one code path for a directory and a server. [System.Serve] adds what a daemon
// does: it sweeps leftovers, renews leases, expires workspaces, and answers on a
// listener. Any number of programs may have one data directory open at the same time;
// one of them may serve it.
//
// # The order of shutting down
//
//  1. watches, waits and connections with a command end, and no new connection is
//     accepted
//  2. requests end, within a time-out
//  3. the registry's background work and the announcements end
//  4. the registry closes every live workspace
//  5. the providers are closed, and then the store
//  6. the events file is closed
//
// Each step has its own time-out, so that a stuck step does not prevent the others.
package app
