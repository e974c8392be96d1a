// Package config reads croft.yaml, the configuration of croft: data directory,
// providers, named policies, sources of secrets, and network rules.
//
// Every key has a default; [Default] is the configuration without a file. Reading is
// strict: a key that is unknown, repeated or of the wrong type is an InvalidArgument
// error with file, line and column, the key, and what is allowed. YAML anchors, aliases
// and tags are refused, because a file that decides what an agent may do must be
// readable as it stands; policies share settings by extends.
//
// The file is never searched in the current directory; see [Find].
//
// A setting comes from, in this order: a flag, a variable CROFT_*, the file, the
// default. [Resolve] merges them and records the origin of each, which [Config.YAML]
// prints beside the values.
//
// The file has names of secrets, never secrets: a value that looks like a secret is
// refused. Package secret has the values.
package config
