// Package config reads croft.yaml, the one file in which someone says how their
// Croft is to be: where it keeps its data, which providers it has, which
// policies there are by name, where secrets come from and what may be reached
// from a workspace.
//
// Every key has a default, and [Default] is the configuration of someone who
// has no file at all. Reading is strict: a key that is unknown, repeated or of
// the wrong type is an InvalidArgument error with the file, line and column, the
// key, and what is allowed there. YAML's anchors, aliases and tags are refused,
// because a file that decides what an agent may do must be readable as it
// stands; policies share what they have in common by extends.
//
// The file is never looked for in the current directory; [Find] says where it is,
// and why.
//
// A setting comes from, in this order: a flag, a variable CROFT_*, the file, the
// default. [Resolve] puts them together and remembers where each came from, which
// [Config.YAML] prints beside the values.
//
// There is never a secret in the file, only names of secrets, and what looks
// like the text of one is refused. Package secret finds the text.
package config
