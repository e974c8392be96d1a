// Package remote keeps workspaces whose files and guest are on another machine, for
// providers such as ssh.
//
// On this host a workspace has a directory, see package wsdir, with its state and no files.
// The provider adds a file to it that names the machine, and implements [Machine]. The
// package does what does not depend on how the machine is reached: it finds, starts and
// ends the guest there under guest.lock (see package supervise), serves files and commands
// through the guest, takes snapshots of the files and rolls them back, and removes what is
// on the machine when the workspace is destroyed or swept.
//
// The sections of the state are guest (package supervise) and made, which is set once the
// files exist on the machine. The file "rollback" is the journal of a rollback.
package remote
