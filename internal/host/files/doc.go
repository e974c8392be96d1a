// Package files confines file access to a directory: no path given to a [Root] leads
// outside it, also while other processes change the tree.
//
// The kernel resolves each name below the root in one step, with
// openat2(RESOLVE_BENEATH|RESOLVE_NO_MAGICLINKS) on Linux and with [os.Root] elsewhere. No
// path is checked first and opened afterwards, so there is no race from time of check to
// time of use (TOCTOU), in which another process could swap a directory for a symlink. A call that changes a directory opens that
// directory in the same way and then acts on the last element of the name alone, which is
// never followed. If the kernel lacks openat2, as gVisor's does, the path is walked element
// by element through descriptors, with the same result. If openat2 is forbidden, every call
// is refused.
//
// # What is prevented
//
// Names that are absolute or climb out with "..", symlinks that lead outside (also while
// they are being swapped), magic links of /proc, and FIFOs, sockets and devices, which are
// refused without blocking. A path that would leave the root is fault.SandboxViolation;
// every other error has another code, and no error is a bare errno.
//
// An absolute symlink is a SandboxViolation even if it points back inside: its meaning
// depends on where the root is mounted, and the kernel refuses it.
//
// # What is not prevented
//
// A hard link is the file itself: a process that can link a file from outside into the root
// already had access to that file. Write, Edit and Chmod break hard links first; Write with
// InPlace does not. A mount below the root is part of it. A process that may write to the
// directory by other means can change it between two calls.
//
// # Names
//
// A name is a slash path. "." is the root; "a/../b" is cleaned to "b", whether or not a is
// a symlink; a trailing slash requires a directory. Names are bytes: two spellings of one
// Unicode letter, or of one word in two cases, are two files if the file system says so. An
// element has at most 255 bytes and a name at most 4095. Names of temporary files (see
// [IsTemp]) are reserved.
//
// # Writing
//
// Write puts the new content into a temporary file beside the old file, gives it the mode,
// owner and extended attributes of the old file and renames it over that file. A symlink is
// followed; if it dangles, its target is created, provided that it is inside and its
// directory exists. Writers of one file in one process are serialised by a keyed mutex, so
// IfMatch and CreateOnly are exact among them. CreateOnly is exact among all processes.
// IfMatch and Edit are exact among all processes that use them through this package: they
// flock the directory of the file while they compare and rename. A Write without IfMatch,
// and a program that writes by other means, does not wait for that flock; another process
// may lose such a write between its comparison and its rename. There is no flock if the
// directory is not readable or the file system has no locks.
//
// Names of temporary files begin with [TempPrefix]. Temporary files are flocked while they
// are written, and appear in no listing, search, watch or digest. Those that a crash leaves
// are unlocked, and [Root.CleanTemps] removes them.
package files
