// Package toolchain finds toolchains and package caches below a user's home, so that
// commands in a sandbox can use them and see nothing else of the home.
//
// A profile knows one manager of toolchains, such as nvm: which directories have its
// programs, which of the installed versions a project uses, and which variables go with
// them. A profile lists single directories, never the home of a tool that also keeps
// credentials: ~/.cargo/bin is shown, ~/.cargo/credentials.toml is not there. Files in
// those directories that tools read credentials from, such as the settings.xml of a Maven
// installation, are masked: see [CredentialFiles].
//
// # Caches
//
// A cache is the lower layer of an overlayfs whose upper layer is private to the
// workspace: what the host has built or downloaded is there at once, without a copy, and
// what commands write stays in the layer.
//
// The host goes on using its cache meanwhile. For that, the documentation of overlayfs
// promises only that nothing crashes or deadlocks: whether a change of the lower directory
// is seen is undefined. A copy would be defined, but a cache has gigabytes, few file systems
// share blocks (reflink), and a hard link is the host's own inode, whose times and content a
// program inside could change. A helper per tool (GOCACHEPROG, GRADLE_RO_DEP_CACHE) exists
// for few tools and versions. So the overlayfs is used for caches only whose tools accept
// any mixture of old and new entries, because they must: several processes of the host use
// such a cache at once, without a lock around all of it. Their entries are files that are
// written once under the digest of their content or of their input (Go, npm, uv, ccache,
// pip), or directories with a mark that is written last (Go modules, cargo). An entry that
// the host adds may be missing inside, and one that it removes may still be there; each is
// a cache miss or a hit, not a wrong result. Gradle is the exception: it keeps indexes that
// are changed in place under locks, which do not reach from the sandbox to the host. Gradle
// discards an index that it can't read, and then reads its dependencies again.
//
// The layers use none of the features of overlayfs (redirect_dir, metacopy, index, xino)
// that record identities of lower files, so that changes of the host between two mounts of
// a layer are allowed.
package toolchain
