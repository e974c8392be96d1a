package snapshot

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/workspace/driver"
)

// A before describes what is at the path of a step before the change, so that Recover can
// tell whether it was changed since. The zero value is nothing.
type before struct {
	Mode  uint32 `json:"mode,omitempty"` // with the type
	Ino   uint64 `json:"ino,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"` // nanoseconds; 0 for a directory, whose times change with its entries
	Ctime int64  `json:"ctime,omitempty"` // likewise
	Below string `json:"below,omitempty"` // digest of what is in a directory that is replaced or removed
}

func (b *before) fileType() uint32 { return b.Mode & unix.S_IFMT }

// describe describes what is at the path of a step; nil if that is not known.
func (p *parentCache) describe(o *op) *before {
	dir, base, err := p.openParent(string(o.Path))
	if isMissing(err) {
		return nothing
	}
	if err != nil {
		return nil
	}
	b, err := describeAt(dir, base, o.Attr == nil)
	if err != nil {
		return nil
	}
	if b == *nothing {
		return nothing
	}
	return &b
}

// nothing is the description of a path with nothing at it: one for all new files.
var nothing = &before{}

// isMissing reports whether a path can't be there, as a parent of it is no directory.
func isMissing(err error) bool { return isNotExist(err) || errors.Is(err, unix.ELOOP) }

// describeAt describes an entry, with what is below it if it is a directory.
func describeAt(dir int, name string, below bool) (before, error) {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return before{}, nil
	}
	if err != nil {
		return before{}, err
	}
	b := before{Mode: uint32(st.Mode), Ino: st.Ino}
	if b.fileType() != unix.S_IFDIR {
		b.Size, b.Mtime, b.Ctime = st.Size, st.Mtim.Nano(), st.Ctim.Nano()
		return b, nil
	}
	if below {
		b.Below, err = digestBelow(dir, name)
	}
	return b, err
}

// digestBelow returns the digest of the descriptions of all entries of a directory.
func digestBelow(dir int, name string) (string, error) {
	fd, err := openRetry(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	h := driver.NewDigest()
	for _, sub := range names {
		b, err := describeAt(fd, sub, true)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %+v\n", sub, b)
	}
	return driver.SumDigest(h), nil
}

// skips reports whether Recover leaves the path of a step as it is: another program changed it since
// the process was killed, before or after the step was done.
func (p *parentCache) skips(o *op, number int) bool {
	if !p.recovers || o.Before == nil {
		return false
	}
	now := p.describe(o)
	if now == nil {
		return false // the step reports why
	}
	switch {
	case o.Attr != nil:
		o.left = !o.Attr.mayFollow(o.Before, now)
	case o.Remove:
		done := inodeAt(p.stage, asideName(number)) != 0
		o.skip = done && *now != before{}
		o.left = !done && *now != before{} && *now != *o.Before
	default:
		staged := inodeAt(p.stage, o.Temp)
		done := staged == 0 || staged != o.Ino && staged == o.Before.Ino // replaced, or swapped
		o.skip = done && now.Ino != o.Ino
		o.left = !done && (*now != *o.Before || !p.hasParent(o))
	}
	o.skip = o.skip || o.left
	return o.skip
}

func (p *parentCache) hasParent(o *op) bool {
	_, _, err := p.openParent(string(o.Path))
	return !isMissing(err)
}

// mayFollow reports whether an entry is as it was before its attributes were set, or has
// some of the new ones.
func (a *attr) mayFollow(was, now *before) bool {
	if now.Ino != was.Ino || now.fileType() != was.fileType() || now.Size != was.Size {
		return false
	}
	const permissions = 0o7777
	mode, isDir := now.Mode&permissions, now.fileType() == unix.S_IFDIR
	if mode != was.Mode&permissions && mode != a.Mode && (!isDir || mode != 0o700) { // applyMove sets 0o700
		return false
	}
	// Where times are set in microseconds, the rest is lost.
	sameTime := func(x, y int64) bool { return x/int64(time.Microsecond) == y/int64(time.Microsecond) }
	return isDir || now.Mtime == was.Mtime || sameTime(now.Mtime, time.Unix(a.Sec, int64(a.Nsec)).UnixNano())
}
