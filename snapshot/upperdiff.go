package snapshot

import (
	"context"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// diffUppers lists a superset of the paths at which two snapshots of one base
// differ, by comparing their upper layers. Equal subtrees, and what only the base
// has, cost nothing.
func (s *Store) diffUppers(ctx context.Context, a, b *Manifest) ([]string, error) {
	base, err := a.Base.Tree()
	if err != nil {
		return nil, err
	}
	u := &upperDiff{s: s, base: base}
	err = u.compareDirs(ctx, a.Root, b.Root, "")
	return u.paths, err
}

type upperDiff struct {
	s     *Store
	base  Tree
	paths []string
}

// compareDirs compares two directories; a zero id is a missing one.
func (u *upperDiff) compareDirs(ctx context.Context, a, b ID, at string) error {
	if a == b {
		return nil
	}
	old, err := u.readNodes(ctx, a)
	if err != nil {
		return err
	}
	now, err := u.readNodes(ctx, b)
	if err != nil {
		return err
	}
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && old[0].Name < now[0].Name:
			err, old = u.addOneSided(ctx, &old[0], at, true), old[1:]
		case len(old) == 0 || now[0].Name < old[0].Name:
			err, now = u.addOneSided(ctx, &now[0], at, false), now[1:]
		default:
			err = u.compareEntries(ctx, &old[0], &now[0], at)
			old, now = old[1:], now[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *upperDiff) readNodes(ctx context.Context, id ID) ([]Node, error) {
	if id.IsZero() {
		return nil, nil
	}
	return u.s.readTree(ctx, id)
}

// addOneSided handles an entry of only one layer. A directory that also is in the
// base with the same mode differs only in its entries.
func (u *upperDiff) addOneSided(ctx context.Context, n *Node, at string, old bool) error {
	if n.Type != driver.TypeDir || n.Opaque {
		u.paths = append(u.paths, at+n.Name)
		return nil
	}
	dir, below, err := Lookup(ctx, u.base, at+n.Name)
	if dir != nil {
		dir.Close()
	}
	if err != nil && fault.Of(err) != fault.NotFound {
		return err
	}
	if err != nil || below.Type != driver.TypeDir || below.Mode != n.Mode {
		u.paths = append(u.paths, at+n.Name)
		return nil
	}
	if old {
		return u.compareDirs(ctx, n.Content, ID{}, at+n.Name+"/")
	}
	return u.compareDirs(ctx, ID{}, n.Content, at+n.Name+"/")
}

func (u *upperDiff) compareEntries(ctx context.Context, o, n *Node, at string) error {
	if o.Type != n.Type || o.Opaque != n.Opaque || o.Mode != n.Mode || o.Target != n.Target || o.Type == driver.TypeFile && o.Content != n.Content {
		u.paths = append(u.paths, at+n.Name)
		return nil
	}
	if o.Type != driver.TypeDir {
		return nil
	}
	return u.compareDirs(ctx, o.Content, n.Content, at+n.Name+"/")
}
