// Package snapshot remembers trees of files, compares them and merges them.
//
// # The store
//
// A [Store] holds snapshots. Each is a small manifest that names a tree; trees
// and the contents of files are objects, named by the BLAKE3 digest of what they
// are. What two snapshots have in common, down to a megabyte of a large file, is
// there once, so that a second snapshot costs what changed. Objects are collected
// into blocks, compressed with zstd, and blocks into packs: ten thousand small
// files are a handful of files in the store.
//
//	version           of the layout
//	packs/<id>        blocks, and at the end where each object is
//	snapshots/<id>    manifests
//	condemned/<id>    packs that gc is about to remove (in buckets)
//	cache/<key>       what files looked like when they were last read
//	cache/order       the place of the newest snapshot, should the clock be set back
//
// A store is in a directory ([Dir]) or, through package bucket, in any bucket.
// Any number of processes may write to it at once. They need not agree on
// anything but names: packs are never changed, and a manifest appears at once and
// only after all that it needs is on stable storage. So whatever is killed when,
// a store holds whole snapshots, and perhaps packs that nothing refers to, which
// [Store.GC] removes. In a directory gc waits for those who write; in a bucket,
// which has no locks, it first condemns a pack, which nobody builds on any more,
// and removes it only after a grace period.
//
// Everything is verified when it is read: an object that is not what its name
// says is an error that names it, with the cause fault.CauseCorrupt, and is never
// handed out. [Store.Check] looks at everything.
//
// # Trees
//
// A [Tree] is anything with files: a snapshot, a directory of this host
// ([HostDir]), the files of a workspace ([Files]), or one over another ([Layer]).
// [Store.Take] remembers one, [Diff] compares two, [Restore] makes a directory
// equal to one, and [Merge] brings together three.
//
// A tree keeps names, types, permission bits, modification times, targets of
// symlinks and extended attributes of the user. It does not keep owners, since a
// workspace has one; nor that two names are one file; nor sockets, pipes and
// devices, which it counts instead.
//
// # Changes to a directory
//
// Whatever changes a directory in place, such as [Restore] and [Apply], first
// puts all new content next to where it belongs, then writes down what it is
// going to do, and then does it, by steps that can be repeated. Who is killed
// before that leaves the old tree; after it, [Recover] brings about the new one.
package snapshot
