package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Manifest describes a snapshot; its objects are in packs.
type Manifest struct {
	driver.SnapshotInfo

	// Tenant is the tenant of the workspace or, of a template, of its creator. A template
	// without a tenant is visible to all.
	Tenant string `json:"tenant,omitempty"`

	// Root is the tree object of the top directory.
	Root ID `json:"root"`

	// Base is the lower layers of the tree; zero if the tree is complete.
	Base Base `json:"base,omitzero"`

	// Paths are the paths of a snapshot that is not of the whole tree, as bytes:
	// names need not be UTF-8.
	Paths [][]byte `json:"paths,omitempty"`

	// After are, of a snapshot for Undo, short digests of what the apply made of Paths.
	After []string `json:"after,omitempty"`

	// Dir is the directory of a workspace in place, without symlinks; see Adapter.
	Dir string `json:"dir,omitempty"`

	// Node is the node of a cluster whose host has the directories of Base, or Dir; "" without a
	// cluster.
	Node string `json:"node,omitempty"`

	// Added is the size of the content that the store did not have before.
	Added int64 `json:"added,omitempty"`

	Ignore  []string `json:"ignore,omitempty"`  // patterns that were left out
	LeftOut []string `json:"leftOut,omitempty"` // credential files that were left out, up to a limit
}

func (m *Manifest) pathStrings() []string {
	var paths []string
	for _, p := range m.Paths {
		paths = append(paths, string(p))
	}
	return paths
}

// manifestHead starts a manifest, followed by the digest of the body.
const manifestHead = "croft-snapshot 1 "

func encodeManifest(m *Manifest) ([]byte, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	return append([]byte(manifestHead+driver.DigestBytes(body)+"\n"), body...), nil
}

func decodeManifest(data []byte) (*Manifest, error) {
	head, body, ok := bytes.Cut(data, []byte("\n"))
	digest, isHead := strings.CutPrefix(string(head), manifestHead)
	if !ok || !isHead {
		return nil, errors.New("it does not start with the manifest header")
	}
	if got := driver.DigestBytes(body); got != digest {
		return nil, fmt.Errorf("its content has the digest %s, not %s", got, digest)
	}
	m := &Manifest{}
	if err := driver.DecodeStrict(body, m); err != nil {
		return nil, err
	}
	return m, nil
}

// publishManifest publishes a snapshot whose objects are on stable storage.
func (s *Store) publishManifest(ctx context.Context, m *Manifest) error {
	out, err := s.writePendingManifest(ctx, m)
	if err != nil {
		return err
	}
	defer out.Abort()
	return out.Commit(ctx)
}

// writePendingManifest writes a manifest without publishing it.
func (s *Store) writePendingManifest(ctx context.Context, m *Manifest) (Pending, error) {
	data, err := encodeManifest(m)
	if err != nil {
		return nil, fmt.Errorf("snapshot: write the manifest: %w: %w", fault.InvalidArgument, err)
	}
	out, err := s.be.Create(ctx, kindSnapshots+"/"+m.ID)
	if err != nil {
		return nil, err
	}
	if _, err := out.Write(data); err != nil {
		out.Abort()
		return nil, err
	}
	return out, nil
}

// Get reads the manifest of a snapshot.
func (s *Store) Get(ctx context.Context, id string) (*Manifest, error) {
	if !driver.ValidID(id) {
		return nil, fault.WithHint(fmt.Errorf("snapshot: snapshot %q: %w: an id is %d of [a-z0-9]", id, fault.NotFound, driver.IDLength),
			fault.HintList, "snapshots")
	}
	list, err := s.be.List(ctx, kindSnapshots)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(e Entry) bool { return e.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("snapshot: snapshot %s: %w", id, fault.NotFound)
	}
	m, err := s.readManifest(ctx, list[at])
	if err != nil && isTenant(ctx) || err == nil && !m.visible(ctx) {
		return nil, fmt.Errorf("snapshot: snapshot %s: %w", id, fault.NotFound)
	}
	return m, err
}

// isTenant reports whether the context's principal sees one tenant only.
func isTenant(ctx context.Context) bool {
	p, ok := auth.From(ctx)
	return ok && !p.Operator()
}

// visible reports whether the context's principal sees a snapshot.
func (m *Manifest) visible(ctx context.Context) bool {
	if p, _ := auth.From(ctx); p.Workspace != "" {
		return auth.SeesWorkspace(ctx, m.Tenant, m.Workspace)
	}
	return auth.Sees(ctx, m.Tenant) || m.Tenant == "" && m.Workspace == "" && m.Labels[TemplateLabel] != ""
}

// checkOwned refuses to change a snapshot that is visible to all.
func (m *Manifest) checkOwned(ctx context.Context) error {
	if m == nil || auth.Sees(ctx, m.Tenant) {
		return nil
	}
	return fmt.Errorf("snapshot: snapshot %s: %w: it is a template of the server, which the operator manages", m.ID, fault.PermissionDenied)
}

func (s *Store) readManifest(ctx context.Context, e Entry) (*Manifest, error) {
	const most = 16 << 20
	if e.Size > most {
		return nil, corruptError("snapshot %s: its manifest has %d bytes", e.ID, e.Size)
	}
	data, err := s.readManifestData(ctx, e)
	if fault.Of(err) == fault.NotFound {
		return nil, fmt.Errorf("snapshot: snapshot %s: %w", e.ID, fault.NotFound)
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeManifest(data)
	if err != nil {
		return nil, corruptError("snapshot %s: %v", e.ID, err)
	}
	if m.ID != e.ID {
		return nil, corruptError("snapshot %s: it holds the manifest of %s", e.ID, m.ID)
	}
	return m, nil
}

// A manifestKey names a manifest as it was listed. The manifest of an id changes when a label is
// removed, and then has another size.
type manifestKey struct {
	id   string
	size int64
	time int64
}

func (e Entry) manifestKey() manifestKey { return manifestKey{e.ID, e.Size, e.ModTime.UnixNano()} }

// readManifestData reads the object of a manifest. Those of a remote backend are kept in memory: a
// list of snapshots reads all of them.
func (s *Store) readManifestData(ctx context.Context, e Entry) ([]byte, error) {
	if data, ok := s.manifests.Load(e.manifestKey()); ok {
		return data.([]byte), nil
	}
	data, err := s.be.ReadRange(ctx, kindSnapshots+"/"+e.ID, 0, e.Size)
	if _, locks := s.be.(Locker); err == nil && !locks {
		s.manifests.Store(e.manifestKey(), data)
	}
	return data, err
}

// forgetManifests drops manifests from memory that are not listed any more.
func (s *Store) forgetManifests(listed []Entry) {
	present := make(map[manifestKey]bool, len(listed))
	for _, e := range listed {
		present[e.manifestKey()] = true
	}
	s.manifests.Range(func(key, _ any) bool {
		if !present[key.(manifestKey)] {
			s.manifests.Delete(key)
		}
		return true
	})
}

// List lists the snapshots that the context's principal sees, newest first. Damaged
// manifests, of which the tenant is not known, are reported by the error, which comes with the
// readable ones.
func (s *Store) List(ctx context.Context) ([]*Manifest, error) {
	all, err := s.listAll(ctx)
	if isTenant(ctx) && fault.CauseOf(err) == fault.CauseCorrupt {
		err = nil
	}
	return slices.DeleteFunc(all, func(m *Manifest) bool { return !m.visible(ctx) }), err
}

// listAll is List for the program itself.
func (s *Store) listAll(ctx context.Context) ([]*Manifest, error) {
	entries, err := s.be.List(ctx, kindSnapshots)
	if err != nil {
		return nil, err
	}
	s.forgetManifests(entries)
	var all []*Manifest
	var errs []error
	for _, e := range entries {
		m, err := s.readManifest(ctx, e)
		switch {
		case fault.Of(err) == fault.NotFound: // deleted since it was listed
		case err != nil:
			errs = append(errs, err)
		default:
			all = append(all, m)
		}
	}
	slices.SortFunc(all, compareNewestFirst)
	return all, errors.Join(errs...)
}

// Delete deletes a snapshot; GC removes its objects. If Options.Needed reports that
// it is in use, Delete returns fault.WrongState.
func (s *Store) Delete(ctx context.Context, id string) error {
	m, err := s.Get(ctx, id)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return err
	}
	if err := m.checkOwned(ctx); err != nil {
		return err
	}
	if s.isNeeded != nil {
		needed, err := s.isNeeded(ctx, id)
		if err != nil {
			return err
		}
		if needed {
			return fmt.Errorf("snapshot: delete %s: %w: existing workspaces started from it", id, fault.WrongState)
		}
	}
	return s.be.Delete(ctx, kindSnapshots+"/"+id)
}

// Unlabel removes a label from a snapshot.
func (s *Store) Unlabel(ctx context.Context, id, label string) error {
	m, err := s.Get(ctx, id)
	if err == nil {
		err = m.checkOwned(ctx)
	}
	if err != nil {
		return err
	}
	delete(m.Labels, label)
	return s.publishManifest(ctx, m)
}

// Tree returns the tree of a snapshot; with a Base it is the upper layer alone.
func (s *Store) Tree(ctx context.Context, id string) (Tree, *Manifest, error) {
	m, err := s.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return s.StoredTree(m.Root), m, s.checkHere(m)
}

// checkHere refuses a snapshot whose lower layers are on the host of another node.
func (s *Store) checkHere(m *Manifest) error {
	if m.Base == (Base{}) || m.Node == "" || m.Node == s.node {
		return nil
	}
	return fmt.Errorf("snapshot: snapshot %s: %w: it is over layers on the host of node %s, which no other node reaches; open it there, or make a template of it there, which every node can read", m.ID, fault.Unavailable, m.Node)
}

// Whole returns the full tree of a snapshot, over its base.
func (s *Store) Whole(ctx context.Context, id string) (Tree, *Manifest, error) {
	m, err := s.Get(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.fullTree(m)
	return t, m, err
}

func (s *Store) fullTree(m *Manifest) (Tree, error) {
	if err := s.checkHere(m); err != nil {
		return nil, err
	}
	return layerOver(m.Base, s.StoredTree(m.Root))
}

// layerOver returns upper over its base.
func layerOver(b Base, upper Tree) (Tree, error) {
	if b == (Base{}) {
		return upper, nil
	}
	lower, err := b.Tree()
	if err != nil {
		return nil, err
	}
	return Layer(lower, upper), nil
}

// Retention is a rule for deleting snapshots. The zero value keeps all.
type Retention struct {
	Keep   int           // keep this many of the newest; 0 disables the rule
	MaxAge time.Duration // keep those that are younger; 0 disables the rule

	// Spare are ids of snapshots that are always kept; they count toward Keep.
	Spare map[string]bool
}

func (r *Retention) isZero() bool { return r.Keep <= 0 && r.MaxAge <= 0 }

// PruneEach is Prune for each workspace separately.
func (s *Store) PruneEach(ctx context.Context, r Retention, match func(*Manifest) bool) ([]*Manifest, error) {
	all, err := s.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	done := map[string]bool{}
	var gone []*Manifest
	for _, m := range all {
		if done[m.Workspace] {
			continue
		}
		done[m.Workspace] = true
		of := m.Workspace
		more, err := s.Prune(ctx, r, func(m *Manifest) bool { return m.Workspace == of && (match == nil || match(m)) })
		gone = append(gone, more...)
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// Prune deletes the matching snapshots that no rule keeps, and returns them. With
// both rules, a snapshot is kept if either keeps it. Templates are always kept, and
// do not count.
func (s *Store) Prune(ctx context.Context, r Retention, match func(*Manifest) bool) ([]*Manifest, error) {
	if r.isZero() {
		return nil, nil
	}
	all, err := s.List(ctx)
	if err != nil && fault.CauseOf(err) != fault.CauseCorrupt {
		return nil, err
	}
	now, seen := time.Now(), 0
	var gone []*Manifest
	for _, m := range all {
		if _, template := m.Labels[TemplateLabel]; template || match != nil && !match(m) {
			continue
		}
		seen++
		if r.Spare[m.ID] || r.Keep > 0 && seen <= r.Keep || r.MaxAge > 0 && now.Sub(m.Created) < r.MaxAge {
			continue
		}
		if err := s.be.Delete(ctx, kindSnapshots+"/"+m.ID); err != nil {
			return gone, err
		}
		gone = append(gone, m)
	}
	return gone, nil
}
