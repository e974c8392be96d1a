// Package filestore is the provider of workspaces whose files live in a
// database: kind "filestore". There is no directory on the host and nothing
// runs in it; it is for agents that need durable files and nothing else, and for
// hosts that have a bucket but no disk to speak of.
//
// # Where things are
//
// The tree (names, modes, symlinks, digests) and the content of small files are
// rows of one SQLite database in WAL mode. The content of a file larger than
// Config.InlineThreshold is an object in a bucket, by default a directory next
// to the database, and the row holds its key. Objects are never changed: a write
// makes a new one, so a reader that began before goes on reading the old.
//
// # Why nothing is lost or left over
//
// Every change is one transaction, so whoever reads sees the state before or the
// state after, from any process. A large body is uploaded first, under a fresh
// key that a row of the table pending has announced; the transaction that makes
// it the content of a file takes it off that list. A key that loses its last
// file goes to the table garbage by a trigger, in the same transaction, and is
// deleted after it. So after a crash at any instant each object is the content
// of a file, or is on a list that Sweep works off: pending keys whose writer is
// dead (it held a file lock), and garbage. Objects that no row knows, which only
// power loss can leave, are found by listing the bucket.
//
// # What survives what
//
// Whatever was acknowledged survives the death of every process. A workspace
// whose policy is durable commits with synchronous=FULL after its bodies have
// reached stable storage, so that it survives power loss, too; another one says
// in Traits.Damaged that it was there when the host went down.
//
// # Namespaces
//
// Each workspace has a namespace, which begins the keys of its objects, so that
// whoever runs the bucket can tell whose they are. It is a letter followed by
// letters, digits and underscores. Config of the spec may name one, {"namespace":
// "team_a"}, and is refused if that is not valid; otherwise it is the id of the
// session or, if that is not valid, its bytes in hexadecimal after "s_". Two
// workspaces with one namespace still share nothing.
package filestore
