// Package template stores named templates, from which workspaces start, as
// snapshots.
//
// A template is a complete snapshot in the store, so it is immutable, shares data
// with other templates and snapshots, and is verified when it is read. Its source
// is a directory, a snapshot, a commit of a git repository, or an image: an OCI
// layout or tarball on disk, or an image of a registry. Any number of workspaces
// start from it; with a provider that uses overlayfs they share its files until
// they write to them.
//
// No program of a source is run: of a git repository only objects are read, and of
// an image only files, which are written below a directory that no name or link of
// the image leaves.
//
// The layers of an image are applied one by one, lowest first, as a container
// engine does. mutate.Extract of go-containerregistry flattens them from the top
// down and loses files without an error: files below a directory that is a symlink
// in the layer or in a lower one (/lib to usr/lib), hard links to a file of a lower
// layer that is replaced, relative symlinks to a target outside the image, and
// entries whose names lead outside.
package template

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Labels of the snapshots that are templates.
const (
	Label       = snapshot.TemplateLabel
	sourceLabel = "croft.template.source"
	layersLabel = "croft.template.layers" // JSON of []Layer
	logLabel    = "croft.template.log"    // JSON of []LogLine
)

// A Catalog is the templates of a store.
type Catalog struct {
	Store *snapshot.Store
	Temp  string // directory for unpacking images; created if missing

	// Roots are the directories of the host that sources may be in; nil allows any,
	// and an empty list none. Forbidden directories, their parents and
	// subdirectories are never allowed.
	Roots     []string
	Forbidden []string

	// Transport gets the images of registries for principals other than the operator, so
	// that they can't reach the server's own network; nil is the default transport.
	Transport http.RoundTripper
}

// A Source is the source of a template: exactly one of Dir, Snapshot, Git and Image
// is set.
type Source struct {
	Dir      string   `json:"dir,omitempty"`      // a directory of this host
	Snapshot string   `json:"snapshot,omitempty"` // id of a snapshot
	Git      string   `json:"git,omitempty"`      // a git repository of this host
	Revision string   `json:"revision,omitempty"` // of the repository; "" is HEAD
	Image    string   `json:"image,omitempty"`    // absolute path of an OCI layout or tarball of this host, or the name of an image in a registry
	Ignore   []string `json:"ignore,omitempty"`   // .gitignore patterns to leave out

	Credentials bool `json:"credentials,omitempty"` // credential files of a directory, too

	User     string `json:"-"` // of the image's registry; "" is anonymous
	Password string `json:"-"`
}

// A Template describes a template.
type Template struct {
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant,omitempty"` // absent is the server's own, which all tenants see
	Snapshot string    `json:"snapshot"`         // its id
	Source   string    `json:"source"`
	Created  time.Time `json:"created"`
	Files    int64     `json:"files"`
	Bytes    int64     `json:"bytes"`
	Digest   string    `json:"digest"`

	LeftOut []string `json:"leftOut,omitempty"` // credential files that were left out, up to a limit
	Layers  []Layer  `json:"layers,omitempty"`  // of an image, lowest first

	Log []LogLine `json:"log,omitempty"` // steps in which it was made; List leaves it out
}

// A Layer is a layer of an image.
type Layer struct {
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes"` // compressed
}

// Create creates a template of the tenant of the context's principal. An existing name of that
// tenant is fault.AlreadyExists. Sources on this host are for the operator only.
func (c *Catalog) Create(ctx context.Context, name string, s Source) (Template, error) {
	if !driver.ValidWorkspaceName(name) {
		err := fmt.Errorf("template: name %q: %w", name, fault.InvalidArgument)
		return Template{}, fault.Advise(err, "a name is [a-z0-9][a-z0-9-]{0,62}, and not the form of an id")
	}
	if t, err := c.Get(ctx, name); fault.Of(err) != fault.NotFound && (err != nil || t.Tenant == auth.Tenant(ctx)) {
		if err == nil {
			err = fmt.Errorf("template: create %s: %w", name, fault.AlreadyExists)
		}
		return Template{}, err
	}
	var log buildLog
	tree, what, layers, done, err := c.openSource(ctx, s, &log)
	if err != nil {
		return Template{}, err
	}
	log.add("read the files of %s", what)
	labels := map[string]string{Label: name, sourceLabel: what, logLabel: log.label()}
	if data, err := json.Marshal(layers); err == nil && len(layers) > 0 {
		labels[layersLabel] = string(data)
	}
	m, err := c.Store.Take(ctx, tree, &snapshot.TakeOptions{Ignore: s.Ignore, NoCredentials: s.Dir != "" && !s.Credentials, Info: driver.SnapshotInfo{
		Name: name, Labels: labels, Frozen: s.Dir == "",
	}})
	if err = errors.Join(err, done()); err != nil {
		return Template{}, err
	}
	return templateFromManifest(m), nil
}

func templateFromManifest(m *snapshot.Manifest) Template {
	t := Template{
		Name: m.Labels[Label], Tenant: m.Tenant, Snapshot: m.ID, Source: m.Labels[sourceLabel], Created: m.Created, Files: m.Files, Bytes: m.Bytes, Digest: m.Digest,
		LeftOut: m.LeftOut, Log: logOf(m),
	}
	if text := m.Labels[layersLabel]; text != "" && json.Unmarshal([]byte(text), &t.Layers) != nil {
		t.Layers = nil // of another version
	}
	return t
}

// List lists the templates that the context's principal sees, by name: those of its tenant and
// of the server. If two were created concurrently under one name, the older one is listed.
func (c *Catalog) List(ctx context.Context) ([]Template, error) {
	list, err := c.list(ctx)
	for i := range list {
		list[i].Log = nil
	}
	return list, err
}

// list is List, with the logs of the templates.
func (c *Catalog) list(ctx context.Context) ([]Template, error) {
	all, err := c.Store.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	list := []Template{}
	for _, m := range slices.Backward(all) { // the oldest first
		t := templateFromManifest(m)
		if t.Name != "" && m.Workspace == "" && !slices.ContainsFunc(list, func(x Template) bool { return x.Name == t.Name && x.Tenant == t.Tenant }) {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b Template) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Tenant, b.Tenant))
	})
	return list, nil
}

// Get returns a template by its name: that of the principal's tenant, else that of the server.
func (c *Catalog) Get(ctx context.Context, name string) (Template, error) {
	list, err := c.list(ctx)
	if err != nil {
		return Template{}, err
	}
	at := -1
	for i, t := range list { // the server's own comes first
		if t.Name == name && (t.Tenant == "" || t.Tenant == auth.Tenant(ctx)) {
			at = i
		}
	}
	if at < 0 {
		return Template{}, fault.WithHint(fmt.Errorf("template %q: %w", name, fault.NotFound), fault.HintList, "templates")
	}
	return list[at], nil
}

// Delete deletes a template. Workspaces that started from it are not changed; if
// needed reports that there are some, the snapshot is kept without the name, to
// compare them with. A nil needed is never.
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

// Tree returns the files of a template.
func (c *Catalog) Tree(ctx context.Context, name string) (snapshot.Tree, error) {
	t, err := c.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	tree, _, err := c.Store.Whole(ctx, t.Snapshot)
	return tree, err
}

// Dir returns a directory of this host as a tree, if it is allowed as a source.
func (c *Catalog) Dir(dir string) (snapshot.Tree, error) {
	if err := c.checkSourcePath(dir); err != nil {
		return nil, err
	}
	return snapshot.HostDir(dir, nil), nil
}

// openSource returns the tree, the description and, of an image, the layers of a source; done
// releases it.
func (c *Catalog) openSource(ctx context.Context, s Source, log *buildLog) (_ snapshot.Tree, what string, layers []Layer, done func() error, err error) {
	given := 0
	for _, x := range []string{s.Dir, s.Snapshot, s.Git, s.Image} {
		if x != "" {
			given++
		}
	}
	done = func() error { return nil }
	if s.Dir != "" || s.Git != "" || filepath.IsAbs(s.Image) {
		if err := auth.RequireOperator(ctx, "a template of a directory, repository or image on the server's host"); err != nil {
			return nil, "", nil, done, err
		}
	}
	if given != 1 || s.Revision != "" && s.Git == "" {
		return nil, "", nil, done, fault.Advise(fmt.Errorf("template: source: %w", fault.InvalidArgument),
			"name a directory, a snapshot, a git repository with or without a revision, or an image")
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
		tree, layers, done, err = c.openImage(ctx, s, log)
	}
	return tree, what, layers, done, err
}

// openCommit returns the files of a commit, read by git's plumbing commands.
func (c *Catalog) openCommit(ctx context.Context, s Source) (snapshot.Tree, string, error) {
	if isURL(s.Git) {
		return nil, "", fmt.Errorf("template: source %q: %w: a repository must be on disk; clone it first", s.Git, fault.InvalidArgument)
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

// checkSourcePath refuses paths of the host that are not allowed as a source.
func (c *Catalog) checkSourcePath(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("template: source %q: %w: the path must be absolute", dir, fault.InvalidArgument)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
			err = inner.Err // without the path
		}
		return fault.Advise(fmt.Errorf("template: source %q: %w: %w", dir, fault.Of(err), err), "check the path")
	}
	for _, f := range c.Forbidden {
		if f, err := filepath.EvalSymlinks(f); err == nil && (paths.Inside(f, real) || paths.Inside(real, f)) {
			return fmt.Errorf("template: source %q: %w: it overlaps Croft's data directory", dir, fault.PermissionDenied)
		}
	}
	if c.Roots == nil || slices.ContainsFunc(c.Roots, func(root string) bool {
		at, err := filepath.EvalSymlinks(root)
		return err == nil && paths.Inside(at, real)
	}) {
		return nil
	}
	err = fmt.Errorf("template: source %q: %w: it is in none of the allowed directories: %s", dir, fault.PermissionDenied, strings.Join(c.Roots, ", "))
	return fault.WithHint(err, fault.HintSetting, "host roots")
}

// isURL reports whether s is a remote repository: a URL, or HOST:PATH.
func isURL(s string) bool {
	host, _, ok := strings.Cut(s, ":")
	return ok && host != "" && !strings.Contains(host, "/")
}
