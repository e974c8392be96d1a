// Package files is the fence for files: a [Root] is a directory that no path
// leaves.
//
// Whatever an agent names is resolved by the kernel below the root in one step,
// with openat2(RESOLVE_BENEATH|RESOLVE_NO_MAGICLINKS) on Linux and with [os.Root]
// elsewhere. Nothing is looked at first and opened afterwards, so there is no
// moment in which another process could swap a directory for a symlink. What
// changes a directory opens that directory in the same way and then acts on the
// last element of the name alone, which is never followed. Where the
// kernel has no openat2, as gVisor's has not, the path is walked element by element
// through descriptors, to the same end; where it is forbidden, every call is refused.
//
// # What is prevented
//
// Names that are absolute or climb out with "..", symlinks that leave (also
// while they are being swapped), magic links of /proc, and FIFOs, sockets and
// devices, which are refused and never waited for. Everything that would leave
// is fault.SandboxViolation; everything else that is wrong has another code, and
// no bare errno comes out.
//
// An absolute symlink is a SandboxViolation even where it points back inside:
// what it means depends on where the root is mounted, and the kernel refuses it.
//
// # What is not prevented
//
// A hard link is the file itself: who can make one inside to a file outside
// already had that file. Write, Edit and Chmod unlink the file from its other
// names first; Write in place, which has to be asked for, does not. A mount below the root is part of it. And whoever may
// write to the directory by other means can change it between two calls.
//
// # Names
//
// A name is a slash path. "." is the root; "a/../b" is taken as written, "b",
// without asking whether a is a symlink; a slash at the end demands a directory.
// Names are bytes: two spellings of one Unicode letter, or of one word in two
// cases, are two files wherever the file system says so. An element has at most
// 255 bytes and a name at most 4095. Elements that are names
// of temporary files (see [IsTemp]) are reserved.
//
// # Writing
//
// Write puts the new content next to the old one, in a temporary file, gives it
// the mode, owner and extended attributes of the old one and renames it over it.
// A symlink is written through; where it dangles, its target is made, if that is
// inside and its directory exists. Writers of one file in one process take
// turns, so IfMatch and CreateOnly are exact among them, and CreateOnly is exact
// among all processes. So are IfMatch and Edit among all who write with these
// through this package: they lock the directory of the file, with flock(2), while
// they compare and rename. A Write that asks for no digest, and who writes by
// other means, does not wait for that lock, and another process may lose what is
// written so between its comparison and its rename; nor is there a lock where the
// directory may not be read or the file system has none.
//
// Temporary files have names that begin with [TempPrefix], are locked while they are written, and
// appear in no listing, search, watch or digest. Those that a crash leaves are
// unlocked, and removed by [Root.CleanTemps].
package files
