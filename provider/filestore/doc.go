// Package filestore is the provider "filestore": workspaces whose files are in a
// SQLite database and a bucket.
//
// A workspace has no directory on the host and no processes. The provider is for
// agents that need only durable files, and for hosts with a bucket and little disk.
//
// # Where things are
//
// The tree (names, modes, symlinks, digests) and the content of small files are rows
// of one SQLite database in WAL mode. The content of a file larger than
// Config.InlineThreshold is an object in a bucket, by default a directory next to the
// database, and the row holds its key. Objects are immutable: a write creates a new
// object, so a reader that began before continues with the old one.
//
// # Why nothing is lost or left over
//
// Every change is one transaction, so every reader in any process sees the state
// before or after it. A large body is uploaded first, under a new key that a row of
// the table pending has announced; the transaction that makes the object the content
// of a file removes that row. A trigger moves a key that loses its last file to the
// table garbage, in the same transaction, and the object is deleted afterwards. So
// after a crash at any time each object is the content of a file, or is in a table
// that Sweep processes: pending keys whose writer is dead (its flock is free), and
// garbage. Only power loss can leave objects without a row; Sweep finds them by
// listing the bucket.
//
// # What survives what
//
// Acknowledged writes survive the death of every process. A workspace with a durable
// policy commits with synchronous=FULL after its bodies are on stable storage, so
// that acknowledged writes survive power loss, too. Any other workspace reports in
// Traits.Damaged that the host crashed while it existed.
//
// # Namespaces
//
// Each workspace has a namespace, the prefix of the keys of its objects, so that the
// operator of the bucket can see the owner. A namespace is a letter followed by
// letters, digits and underscores. Config of the spec may set it, {"namespace":
// "team_a"}; an invalid value is refused. The default is the id of the session or, if
// that is not valid, its bytes in hexadecimal after "s_". Two workspaces with one
// namespace share nothing.
package filestore
