// Package template keeps what workspaces start from, under names.
//
// A template is a whole snapshot in the store, so it is immutable, shares what it
// has in common with other templates and snapshots, and is verified when it is
// read. It is made of a directory, a snapshot, a commit of a git repository, or an
// image: a layout or tarball on disk, or one that a registry has. Any number of
// workspaces start from it; where a provider has overlays they share its files
// until they write to them.
//
// Nothing of a source is run: of a git repository only its objects are read, and of
// an image only its files, below a directory that none of its names and links
// leave.
//
// The layers of an image are applied one by one, the lowest first, as an engine
// does it. mutate.Extract of go-containerregistry flattens them from the top down
// and loses files without an error: those below a directory that is a symlink in
// the layer or in a lower one (/lib to usr/lib), hard links to a file of a lower
// layer that is replaced, relative symlinks that lead out of the image, and entries
// whose names do.
package template

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Labels of the snapshots that are templates.
const (
	Label       = snapshot.TemplateLabel
	sourceLabel = "croft.template.source"
)

// A Catalog is the templates of a store.
type Catalog struct {
	Store *snapshot.Store
	Temp  string // a directory, made where it does not exist, for images that are taken apart

	// Roots are the directories of the host that sources may lie in; nil is any,
	// and an empty list is none. Forbidden may never be one, nor hold one.
	Roots     []string
	Forbidden []string
}

// A Source is what a template is made of: exactly one of Dir, Snapshot, Git and
// Image is set.
type Source struct {
	Dir      string   `json:"dir,omitempty"`      // a directory of this host
	Snapshot string   `json:"snapshot,omitempty"` // id of a snapshot
	Git      string   `json:"git,omitempty"`      // a git repository of this host
	Revision string   `json:"revision,omitempty"` // of the repository; "" is HEAD
	Image    string   `json:"image,omitempty"`    // an OCI layout or a tarball of this host, as a path from its root, or the name of an image in a registry
	Ignore   []string `json:"ignore,omitempty"`   // patterns in the manner of .gitignore, to leave out
}

// A Template is one that is there.
type Template struct {
	Name     string    `json:"name"`
	Snapshot string    `json:"snapshot"` // its id
	Source   string    `json:"source"`
	Created  time.Time `json:"created"`
	Files    int64     `json:"files"`
	Bytes    int64     `json:"bytes"`
	Digest   string    `json:"digest"`
}

// Create makes a template. One of that name that is there is fault.AlreadyExists.
func (c *Catalog) Create(ctx context.Context, name string, s Source) (Template, error) {
	if !driver.ValidWorkspaceName(name) {
		return Template{}, fmt.Errorf("template: name %q: %w: a name is [a-z0-9][a-z0-9-]{0,62}, and not the form of an id", name, fault.InvalidArgument)
	}
	if _, err := c.Get(ctx, name); fault.Of(err) != fault.NotFound {
		if err == nil {
			err = fmt.Errorf("template: create %s: %w", name, fault.AlreadyExists)
		}
		return Template{}, err
	}
	tree, what, done, err := c.openSource(ctx, s)
	if err != nil {
		return Template{}, err
	}
	m, err := c.Store.Take(ctx, tree, &snapshot.TakeOptions{Ignore: s.Ignore, Info: driver.SnapshotInfo{
		Name: name, Labels: map[string]string{Label: name, sourceLabel: what}, Frozen: s.Dir == "",
	}})
	if err = errors.Join(err, done()); err != nil {
		return Template{}, err
	}
	return templateFromManifest(m), nil
}

func templateFromManifest(m *snapshot.Manifest) Template {
	return Template{
		Name: m.Labels[Label], Snapshot: m.ID, Source: m.Labels[sourceLabel], Created: m.Created, Files: m.Files, Bytes: m.Bytes, Digest: m.Digest,
	}
}

// List lists the templates, by name. Where two were made at once, the older counts.
func (c *Catalog) List(ctx context.Context) ([]Template, error) {
	all, err := c.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	list := []Template{}
	for _, m := range slices.Backward(all) { // the oldest first
		t := templateFromManifest(m)
		if t.Name != "" && m.Workspace == "" && !slices.ContainsFunc(list, func(x Template) bool { return x.Name == t.Name }) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b Template) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Get returns a template by its name.
func (c *Catalog) Get(ctx context.Context, name string) (Template, error) {
	list, err := c.List(ctx)
	if err != nil {
		return Template{}, err
	}
	at := slices.IndexFunc(list, func(t Template) bool { return t.Name == name })
	if at < 0 {
		return Template{}, fmt.Errorf("template: template %q: %w", name, fault.NotFound)
	}
	return list[at], nil
}

// Delete forgets a template. Workspaces that started from it stay as they are;
// where needed says that there are some, its snapshot stays, too, without the
// name, for them to be compared with. A nil needed is never.
func (c *Catalog) Delete(ctx context.Context, name string, needed func(snapshot string) bool) error {
	t, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	if needed != nil && needed(t.Snapshot) {
		return c.Store.Unlabel(ctx, t.Snapshot, Label)
	}
	return c.Store.Delete(ctx, t.Snapshot)
}

// Tree returns what a template holds.
func (c *Catalog) Tree(ctx context.Context, name string) (snapshot.Tree, error) {
	t, err := c.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	tree, _, err := c.Store.Whole(ctx, t.Snapshot)
	return tree, err
}

// Dir returns a directory of this host as a tree, where one may be a source.
func (c *Catalog) Dir(dir string) (snapshot.Tree, error) {
	if err := c.checkSourcePath(dir); err != nil {
		return nil, err
	}
	return snapshot.HostDir(dir, nil), nil
}

// openSource returns the tree of a source and what it is; done lets go of it.
func (c *Catalog) openSource(ctx context.Context, s Source) (_ snapshot.Tree, what string, done func() error, err error) {
	given := 0
	for _, x := range []string{s.Dir, s.Snapshot, s.Git, s.Image} {
		if x != "" {
			given++
		}
	}
	done = func() error { return nil }
	if given != 1 || s.Revision != "" && s.Git == "" {
		return nil, "", done, fmt.Errorf("template: source: %w: name a directory, a snapshot, a git repository with or without a revision, or an image", fault.InvalidArgument)
	}
	var tree snapshot.Tree
	switch {
	case s.Dir != "":
		what = "dir:" + s.Dir
		if err = c.checkSourcePath(s.Dir); err == nil {
			tree = snapshot.HostDir(s.Dir, nil)
		}
	case s.Snapshot != "":
		what = "snapshot:" + s.Snapshot
		tree, _, err = c.Store.Whole(ctx, s.Snapshot)
	case s.Git != "":
		tree, what, err = c.openCommit(ctx, s)
	default:
		what = "image:" + s.Image
		tree, done, err = c.openImage(ctx, s.Image)
	}
	return tree, what, done, err
}

// openCommit returns the files of a commit, read by git's plumbing alone.
func (c *Catalog) openCommit(ctx context.Context, s Source) (snapshot.Tree, string, error) {
	if isURL(s.Git) {
		return nil, "", fmt.Errorf("template: source %q: %w: it must be a repository on disk; clone it first", s.Git, fault.InvalidArgument)
	}
	if err := c.checkSourcePath(s.Git); err != nil {
		return nil, "", err
	}
	repo, err := snapshot.OpenRepository(ctx, s.Git)
	if err != nil {
		return nil, "", err
	}
	if s.Revision == "" {
		s.Revision = "HEAD"
	}
	id, err := repo.Commit(ctx, s.Revision)
	if err != nil {
		return nil, "", err
	}
	tree, err := repo.Tree(ctx, id)
	return tree, "git:" + s.Git + "@" + id, err
}

// checkSourcePath refuses paths of the host that may not be a source.
func (c *Catalog) checkSourcePath(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("template: source %q: %w: it must be an absolute path", dir, fault.InvalidArgument)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("template: source %q: %w: %w", dir, fault.Of(err), err)
	}
	for _, f := range c.Forbidden {
		if f, err := filepath.EvalSymlinks(f); err == nil && (contains(f, real) || contains(real, f)) {
			return fmt.Errorf("template: source %q: %w: Croft keeps its data there", dir, fault.PermissionDenied)
		}
	}
	if c.Roots == nil || slices.ContainsFunc(c.Roots, func(root string) bool {
		at, err := filepath.EvalSymlinks(root)
		return err == nil && contains(at, real)
	}) {
		return nil
	}
	return fmt.Errorf("template: source %q: %w: it lies in none of the directories of the host that may be used", dir, fault.PermissionDenied)
}

// contains reports whether a path is a directory or lies in it.
func contains(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// isURL reports whether s is the address of a repository elsewhere: a URL, or
// HOST:PATH.
func isURL(s string) bool {
	host, _, ok := strings.Cut(s, ":")
	return ok && host != "" && !strings.Contains(host, "/")
}
