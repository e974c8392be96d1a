// Package snapshot stores trees of files as deduplicated snapshots, and restores,
// compares and merges them.
//
// # The store
//
// A [Store] holds snapshots. Each snapshot is a small manifest that names a tree.
// Trees and file contents are objects, named by the BLAKE3 digest of their content,
// so that data which two snapshots share is stored once, down to a chunk of one
// megabyte of a large file. Objects are collected into blocks, compressed with
// zstd, and blocks into packs: ten thousand small files are a handful of files in
// the store.
//
//	version           of the layout
//	packs/<id>        blocks, and at the end where each object is
//	snapshots/<id>    manifests
//	condemned/<id>    packs that gc is about to remove (in buckets)
//	cache/<key>       stat data of files when they were last read
//	cache/order       the sequence number of the newest snapshot
//
// A store is in a directory ([Dir]) or, through package bucket, in any bucket. Any
// number of processes may write to it at once, without coordination: packs are
// immutable, and a manifest is published atomically, after all its objects are on
// stable storage. A killed process leaves complete snapshots and perhaps
// unreferenced packs, which [Store.GC] removes. In a directory, gc takes an
// exclusive flock and waits for writers. A bucket has no locks: gc first condemns a
// pack, which no writer uses afterwards, and deletes it after a grace period.
//
// Every read is verified: an object whose content does not match its name is an
// error with the cause fault.CauseCorrupt, and is never returned. [Store.Check]
// verifies everything.
//
// # Trees
//
// A [Tree] is anything with files: a snapshot, a directory of this host
// ([HostDir]), the files of a workspace ([Files]), or an upper layer over a lower
// one ([Layer]). [Store.Take] stores a tree, [Diff] compares two, [Restore] makes a
// directory equal to one, and [Merge] is a three-way merge.
//
// A tree keeps names, types, permission bits, modification times, symlink targets
// and user extended attributes. It does not keep owners, since a workspace has one;
// nor hard links; nor sockets, pipes and devices, which it counts instead.
//
// # Changes to a directory
//
// [Restore] and [Apply] change a directory in place by a write-ahead journal: they
// write all new content to a stage beside the directory, then write the journal,
// then carry out its steps, each of which is idempotent. A process killed before
// the journal is written leaves the old tree; after that, [Recover] completes the
// new one.
package snapshot
