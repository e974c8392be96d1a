// Package gitdir keeps the private copies of the Git directories in a directory of the user,
// which a workload uses in place of those of the host.
//
// A mount hides each .git of a directory in place by its private copy. The copy is made when
// a guest first meets the .git, and stays with the workspace. It contains HEAD, refs, index,
// logs, configuration and hooks of the host; objects are hard links in a directory of their
// own, which is mounted read-only and is an alternate of the copy. (A hard link shares its
// inode with the host, so the workload must never have it in a writable mount.) Nothing here
// runs git, and nothing in a copied directory is read through a symlink.
package gitdir

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	// Name is the directory of the private copies, in that of a workspace.
	Name = "git"
	// Inside is where Name is mounted, read-only.
	Inside = "/var/lib/croft/git"
	// Template is what git copies, inside, into a repository that it makes: see IsOwn.
	Template = Inside + "/" + templateDir

	templateDir = "template"        // below Name: what git init and git clone copy inside
	ownFile     = "croft-workspace" // file of the template
	emptyDir    = "empty"           // below Name: hides directories that can't be read
	newPrefix   = ".new-"           // prefix of the names of incomplete copies

	// maxCopied bounds the bytes, and maxEntries the files, of one copy, and maxTotal the
	// bytes of all copies of a workspace. Hard links and holes count no bytes.
	maxCopied  = 8 << 30
	maxTotal   = 32 << 30
	maxEntries = 2_000_000
)

// A Copy is the private copy that stands for one .git of the host. Its directory, ID
// below Name, contains git (the Git directory), objects/N (objects of repository N,
// read-only inside) and, for a .git that is a file, link (the file inside).
type Copy struct {
	Path     string `json:"path"` // of the .git on the host
	ID       string `json:"id"`
	Worktree string `json:"worktree,omitempty"` // name of the linked worktree that Path belongs to
	Link     bool   `json:"link,omitempty"`     // Path is a file
	Refs     string `json:"refs"`               // digest of the refs when the copy was made
	Bytes    int64  `json:"bytes,omitempty"`    // that were copied
	// Partial: there was no commit yet, or git wrote. The copy is made again when that has
	// ended, unless the workload has changed its refs.
	Partial bool   `json:"partial,omitempty"`
	Repos   []Repo `json:"repos"`
}

// A Repo is a repository in a private copy: the first is the copy itself, the others are
// repositories of submodules.
type Repo struct {
	Host string `json:"host"`          // Git directory on the host
	Sub  string `json:"sub,omitempty"` // path in the copy
}

// Copies are the private copies of a workspace.
type Copies struct {
	Dir  string // Name in the directory of the workspace
	List []Copy
}

// section is the section of the state with the private copies.
const section = wsdir.Section[[]Copy]("git")

// Read reads which private copies a workspace has.
func Read(d wsdir.Dir) (*Copies, error) {
	m, err := d.Read()
	if err != nil {
		return nil, err
	}
	return From(d, m)
}

// From is Read for a caller that has read the state.
func From(d wsdir.Dir, m *wsdir.State) (*Copies, error) {
	c := &Copies{Dir: filepath.Join(d.Path, Name)}
	list, err := section.Get(m)
	if err == nil && list != nil {
		c.List = *list
	}
	return c, err
}

// WriteTo sets the copies in a state that is being changed.
func (c *Copies) WriteTo(m *wsdir.State) error { return section.Set(m, &c.List) }

// Dirs returns the copies as driver.GitDirs.
func (c *Copies) Dirs() []driver.GitDir {
	var list []driver.GitDir
	for _, one := range c.List {
		for i, r := range one.Repos {
			at := filepath.Join(c.Dir, one.ID)
			g := driver.GitDir{Path: r.Host, Host: r.Host, Dir: filepath.Join(at, "git", r.Sub), Objects: filepath.Join(at, "objects", strconv.Itoa(i))}
			if i == 0 {
				g.Path, g.Worktree = one.Path, one.Worktree
			}
			list = append(list, g)
		}
	}
	return list
}

// Get returns the private copy that stands for a .git of the host, and makes it if there is
// none. A copy stays what it is when the host's repository changes.
func (c *Copies) Get(src Source) (Copy, error) {
	for i, one := range c.List {
		if !entry.Exists(filepath.Join(c.Dir, one.ID)) || one.Path != src.Path || one.Link != src.link {
			continue
		}
		if one.Partial && IsWhole(src.Host) && one.RefsDigest(c.Dir) == one.Refs {
			c.List = slices.Delete(slices.Clone(c.List), i, i+1)
			break
		}
		return one, nil
	}
	most := int64(maxTotal)
	for _, one := range c.List {
		most -= one.Bytes
	}
	fresh, err := makeCopy(c.Dir, src, min(most, maxCopied))
	if err == nil {
		c.List = append(c.List, fresh)
	}
	return fresh, err
}

// Mounts returns the mount of the directory of the copies, in which their objects are. It
// makes the template of git.
func (c *Copies) Mounts() ([]guestproto.Mount, error) {
	dir := filepath.Join(c.Dir, templateDir)
	for _, sub := range []string{"hooks", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ownFile), []byte("Git made this repository in a workspace of Croft.\n"), 0o644); err != nil {
		return nil, err
	}
	return []guestproto.Mount{{Kind: guestproto.MountBind, Source: c.Dir, Target: Inside, ReadOnly: true}}, nil
}

// Empty returns an empty directory, which hides one that can't be read.
func (c *Copies) Empty() (string, error) {
	dir := filepath.Join(c.Dir, emptyDir)
	return dir, os.MkdirAll(dir, 0o755)
}

// Sweep removes copies that are not listed: incomplete ones, and those of a process that died
// before it recorded them.
func (c *Copies) Sweep() error {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		known := slices.ContainsFunc(c.List, func(one Copy) bool { return one.ID == e.Name() })
		if err == nil && !known {
			err = files.RemoveTree(filepath.Join(c.Dir, e.Name()))
		}
	}
	return err
}

// RefsDigest returns a digest of the refs of a copy below dir, with those of its linked
// worktrees.
func (c *Copy) RefsDigest(dir string) string {
	fd, err := entry.OpenDir(unix.AT_FDCWD, filepath.Join(dir, c.ID, "git"))
	if err != nil {
		return ""
	}
	defer unix.Close(fd) //nolint:errcheck // it was only read
	names := []string{"HEAD", "packed-refs", "refs"}
	if c.Worktree != "" {
		names = append(names, path.Join("worktrees", c.Worktree, "HEAD"))
	}
	sum := entry.NewDigest()
	for _, name := range names {
		sum.Add(fd, name)
	}
	return sum.String()
}
