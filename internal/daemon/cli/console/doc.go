// Package console has what every command of the croft program needs: its streams and
// global flags, the system of the data directory or the client of a server, the flags
// that several commands have, and what is printed: answers, notes, progress and errors.
package console
