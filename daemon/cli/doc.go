// Package cli is the croft program: its commands, one file each, in the
// manner noun verb.
//
// A command speaks Croft's HTTP API through client, and nothing else.
// With --server that is a daemon; without, it is the same API served inside the
// process, on the data directory. So a command has one code path, and what works
// on one works on the other.
//
// Standard output is the answer and standard error the commentary. --json makes
// the answer one JSON value, and an error one, too. The exit status is a function
// of the code of the error; every help text ends with the table.
package cli
