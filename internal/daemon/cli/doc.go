// Package cli is the command line of the croft program: its root, completion, and the
// commands that run something. The packages below it have the others, by noun, and
// package console has what all of them need.
//
// A command uses Croft's HTTP API through package client. With --server the API is
// that of a daemon; without, it is served inside the process, on the data
// directory. So a command has one code path for both.
//
// Standard output has the answer, standard error notes and errors. With --json the
// answer is one JSON value, and so is an error. The exit status follows from the
// code of the error; every help text ends with the table.
package cli
