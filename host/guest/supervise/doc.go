// Package supervise finds, starts and ends the one guest of a workspace that has a
// directory of its own on this host: across processes, of which any may die at
// any instant. What a guest is, and which fence it stands in, is its provider's.
//
// Which process the guest is, or which container it runs in, stands in a section of the
// state of the workspace, see package plot. A flock, guest.lock, is held while the guest
// is found, started or ended. An Attachment is the connection of one handle to the guest:
// it connects when the guest is first needed, and tells once that it has ended.
package supervise
