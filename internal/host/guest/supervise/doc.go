// Package supervise finds, starts, adopts and ends the one guest of a workspace that has
// a workspace directory on this host (package wsdir), across Croft processes that may die
// at any instant. What a guest is, and how it is isolated, is up to the provider.
//
// The process id of the guest, or its container, is a section of the workspace's state
// file. A flock, guest.lock, is held while the guest is found, started or ended. An
// Attachment is the connection of one handle to the guest: it connects when the guest is
// first needed, and reports once that the guest has ended. A FreezeWatch thaws a workspace
// that another process left frozen when it died.
//
// It is a package of its own because package guest needs no workspace directory: a guest
// may be reached over any stream.
package supervise
