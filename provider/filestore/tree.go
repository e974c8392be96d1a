package filestore

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A node is one entry of a tree, as in its row.
type node struct {
	id     int64
	name   string
	typ    driver.FileType
	mode   fs.FileMode
	size   int64
	mtime  int64
	target string
	digest string
	object string // key of the content; "" if the content is in the database
}

const nodeColumns = "id, name, type, mode, size, mtime, target, digest, object"

func (n *node) scan(scan func(...any) error) error {
	var name, target []byte
	var digest, object sql.NullString
	err := scan(&n.id, &name, &n.typ, &n.mode, &n.size, &n.mtime, &target, &digest, &object)
	n.name, n.target, n.digest, n.object = string(name), string(target), digest.String, object.String
	return err
}

func (n *node) info(path string) driver.Info {
	return driver.Info{
		Path: path, Type: n.typ, Size: n.size, Mode: n.mode, ModTime: time.Unix(0, n.mtime), Target: n.target,
	}
}

// child returns an entry of a directory, or nil.
func (t *tx) child(dir int64, name string) (*node, error) {
	n := new(node)
	row := t.QueryRowContext(t.ctx, "SELECT "+nodeColumns+" FROM node WHERE parent = ? AND name = ?", dir, []byte(name))
	if err := n.scan(row.Scan); errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return n, nil
}

// children lists a directory in byte order of the names.
func (t *tx) children(dir int64) ([]*node, error) {
	rows, err := t.QueryContext(t.ctx, "SELECT "+nodeColumns+" FROM node WHERE parent = ? ORDER BY name", dir)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*node
	for rows.Next() {
		n := new(node)
		if err := n.scan(rows.Scan); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

func (t *tx) isEmpty(dir int64) (bool, error) {
	var any bool
	err := t.QueryRowContext(t.ctx, "SELECT EXISTS (SELECT 1 FROM node WHERE parent = ?)", dir).Scan(&any)
	return !any, err
}

// A resolvedPath is a resolved path: the directories from the root to the parent, the name
// in the parent, and the entry, nil if it does not exist.
type resolvedPath struct {
	dirs []*node
	base string
	node *node
}

func (p *resolvedPath) parent() *node { return p.dirs[len(p.dirs)-1] }

// isWithin reports whether the path is at or below the directory with that id.
func (p *resolvedPath) isWithin(dir int64) bool {
	for _, d := range p.dirs {
		if d.id == dir {
			return true
		}
	}
	return false
}

const (
	maxLinks = 40  // symlinks followed in one path, as in Linux
	maxElem  = 255 // NAME_MAX
)

// walkOptions has the options of resolvePath.
type walkOptions struct {
	follow bool                                        // follow a symlink as the last element, too
	make   func(dir *node, name string) (*node, error) // creates a missing directory; nil refuses
}

// resolvePath resolves a path from the root of a workspace, symlinks included. A path that
// would leave the workspace is a SandboxViolation, whether or not it exists.
func (t *tx) resolvePath(root *node, name string, how walkOptions) (*resolvedPath, error) {
	p := &resolvedPath{dirs: []*node{root}, base: ".", node: root}
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		elem := rest[0]
		rest = rest[1:]
		switch {
		case elem == "" || elem == ".":
			continue
		case elem == "..":
			if len(p.dirs) == 1 {
				return nil, errLeaves
			}
			p.dirs = p.dirs[:len(p.dirs)-1]
			p.node, p.base = p.parent(), "."
			continue
		case len(elem) > maxElem:
			return nil, fmt.Errorf("%w: an element of the name has %d bytes; at most %d are allowed", fault.InvalidArgument, len(elem), maxElem)
		}
		n, err := t.child(p.parent().id, elem)
		if err != nil {
			return nil, err
		}
		last := !namesEntry(rest)
		switch {
		case n == nil && last:
			p.base, p.node = elem, nil
			return p, nil
		case n == nil && how.make == nil:
			return nil, errGone
		case n == nil:
			if n, err = how.make(p.parent(), elem); err != nil {
				return nil, err
			}
		case n.typ == driver.TypeSymlink && (!last || how.follow):
			if links++; links > maxLinks {
				return nil, errLoop
			}
			if strings.HasPrefix(n.target, "/") {
				return nil, errLeaves
			}
			rest = append(strings.Split(n.target, "/"), rest...)
			p.base, p.node = ".", p.parent()
			continue
		}
		if last {
			p.base, p.node = elem, n
			return p, nil
		}
		if n.typ != driver.TypeDir {
			return nil, errNotDir
		}
		p.dirs = append(p.dirs, n)
		p.base, p.node = ".", n
	}
	return p, nil
}

// namesEntry reports whether the rest of a path names an entry.
func namesEntry(rest []string) bool {
	for _, elem := range rest {
		if elem != "" && elem != "." {
			return true
		}
	}
	return false
}

// isRoot reports whether the path is a directory without a name of its own: the root,
// or the end of a "..".
func (p *resolvedPath) isRoot() bool { return p.base == "." && len(p.dirs) == 1 }

// insertNode creates an entry and sets its id.
func (t *tx) insertNode(ws string, dir int64, n *node) error {
	res, err := t.ExecContext(t.ctx,
		"INSERT INTO node (ws, parent, name, type, mode, size, mtime, target, digest, object) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		ws, dir, []byte(n.name), string(n.typ), int64(n.mode), n.size, n.mtime, blobOrNull(n.target), textOrNull(n.digest), textOrNull(n.object))
	if err != nil {
		return err
	}
	n.id, err = res.LastInsertId()
	return err
}

// touchDir sets the modification time of a directory.
func (t *tx) touchDir(dir int64) error {
	return t.exec("UPDATE node SET mtime = ? WHERE id = ?", time.Now().UnixNano(), dir)
}

// removeTree removes an entry with its tree.
func (t *tx) removeTree(id int64) error {
	return t.exec(`WITH RECURSIVE below (id) AS (VALUES (?) UNION ALL SELECT node.id FROM node JOIN below ON node.parent = below.id)
		DELETE FROM node WHERE id IN below`, id)
}

func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func blobOrNull(s string) any {
	if s == "" {
		return nil
	}
	return []byte(s)
}
