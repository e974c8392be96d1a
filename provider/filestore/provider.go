package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"gocloud.dev/blob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// Kind is the kind of this provider.
const Kind = "filestore"

// DefaultInlineThreshold is 1.5 MB.
const DefaultInlineThreshold = 1_500_000

// Config says where a provider keeps its files.
type Config struct {
	// Dir holds filestore.db and the directory filestore. It is made where it
	// does not exist. Required.
	Dir string

	// Bucket holds the content of large files; nil is the directory
	// filestore/objects below Dir. It must be one that a write is durable in
	// once it is acknowledged, and it stays open when the provider is closed.
	Bucket *blob.Bucket

	// InlineThreshold is the size in bytes up to which content is kept in the
	// database; 0 is DefaultInlineThreshold, and a negative one keeps nothing
	// there but empty files.
	InlineThreshold int64

	// Snapshots keeps the snapshots of workspaces; nil is none.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent

	// BootID names the present boot of the host; "" is what the kernel says.
	BootID string
}

// Provider opens workspaces in a database. The database is opened by the first
// call that needs it.
type Provider struct {
	cfg Config

	mu     sync.Mutex
	opened *store
	closed bool
}

// New returns a provider that keeps its files below cfg.Dir.
func New(cfg *Config) (*Provider, error) {
	if cfg == nil || cfg.Dir == "" {
		return nil, fmt.Errorf("filestore: config: %w: Dir is missing", fault.InvalidArgument)
	}
	p := &Provider{cfg: *cfg}
	if p.cfg.InlineThreshold < 0 {
		p.cfg.InlineThreshold = -1
	}
	if p.cfg.Log == nil {
		p.cfg.Log = slog.New(slog.DiscardHandler)
	}
	if p.cfg.BootID == "" {
		p.cfg.BootID = bootID()
	}
	return p, nil
}

// bootID is "" where the kernel has none; then no boot differs from another.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Close closes the database. No call may follow, on the provider or on its
// workspaces.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.opened
	p.opened, p.closed = nil, true
	if s == nil {
		return nil
	}
	return s.close()
}

// store returns the open store. A failure is not remembered: the next call
// tries again.
func (p *Provider) store(ctx context.Context) (*store, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("the provider is closed: %w", fault.WrongState)
	}
	if p.opened != nil {
		return p.opened, nil
	}
	s, err := openStore(ctx, &p.cfg)
	if err != nil {
		return nil, err
	}
	p.opened = s
	return s, nil
}

var _ driver.Provider = (*Provider)(nil)

// Kind returns "filestore".
func (p *Provider) Kind() string { return Kind }

// Probe opens the database.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	if _, err := p.store(ctx); err != nil {
		return driver.Traits{}, openFailed(ctx, "probe", err)
	}
	return traits(), nil
}

func traits() driver.Traits {
	none := driver.Enforcement{Reason: "nothing runs in a filestore workspace"}
	limits := driver.NoLimits(none.Reason)
	limits[driver.ResourceDisk] = driver.Enforcement{By: "the transaction of each change"}
	return driver.Traits{
		Isolation:  driver.IsolationNone,
		IsolatedBy: none,
		Network:    driver.NetworkNone,
		NetworkBy:  driver.Enforcement{By: "nothing runs in a filestore workspace"},
		Limits:     limits,
		ReadOnly:   driver.Enforcement{By: "the transaction of each change"},
		Durability: driver.DurablePower,
	}
}

// What workspaces have, without a store of snapshots and with one.
var (
	capabilities  = driver.NewCapabilities(driver.CapFS)
	withSnapshots = driver.NewCapabilities(driver.CapFS, driver.CapSnapshot)
)

func (p *Provider) caps() driver.Capabilities {
	if p.cfg.Snapshots == nil {
		return capabilities
	}
	return withSnapshots
}

// Capabilities is what a workspace has.
func (p *Provider) Capabilities() driver.Capabilities { return p.caps().Clone() }

// Open makes the workspace spec.ID or returns it where it exists.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	namespace, explicit, err := p.check(spec)
	if err != nil {
		return nil, err
	}
	s, err := p.store(ctx)
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	fresh := &record{id: spec.ID, namespace: namespace, revision: 1, policy: spec.Policy, boot: p.cfg.BootID, session: spec.Session.ID, origin: spec.From.Snapshot}
	parts, err := p.parts(ctx, s, fresh, spec)
	if err != nil {
		return nil, err
	}
	var rec *record
	var was driver.Policy
	err = s.change(ctx, spec.Policy.Durable, func(t *tx) (err error) {
		rec, err = t.record(spec.ID)
		if err != nil {
			return err
		}
		if rec == nil {
			rec, was = fresh, spec.Policy
			if err := t.create(rec); err != nil {
				return err
			}
			return t.fill(rec, parts)
		}
		if rec.origin != spec.From.Snapshot {
			return fmt.Errorf("what the workspace starts from: %w: it was opened with another", fault.InvalidArgument)
		}
		if explicit && namespace != rec.namespace {
			return fmt.Errorf("namespace %q: %w: the workspace was opened in %q", namespace, fault.InvalidArgument, rec.namespace)
		}
		was = rec.policy
		return t.converge(rec, spec.Policy, p.cfg.BootID)
	})
	if err != nil || rec != fresh {
		err = errors.Join(err, s.abandonAll(ctx, parts))
	}
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	driver.Step(ctx, "row written")
	if err := p.hardened(ctx, s, rec, was); err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	return p.attach(s, rec, p.caps())
}

// check refuses, before anything is made, what the provider can't do.
func (p *Provider) check(spec driver.Spec) (namespace string, explicit bool, err error) {
	if err := driver.CheckOpen(spec, Kind); err != nil {
		return "", false, err
	}
	if spec.Dir != "" {
		return "", false, fmt.Errorf("filestore: open: a directory in place: %w: the files are in a database", fault.Unsupported)
	}
	if spec.From.Template != "" || spec.From.Snapshot != "" && p.cfg.Snapshots == nil {
		return "", false, fmt.Errorf("filestore: open: a directory, or a snapshot without a store of them, to start from: %w", fault.Unsupported)
	}
	if missing := p.caps().Missing(spec.Want); len(missing) > 0 {
		return "", false, fmt.Errorf("filestore: open: capabilities %v: %w: there is only %v", missing, fault.Failed, p.caps().Names())
	}
	if err := spec.Policy.Check(traits()); err != nil {
		return "", false, fmt.Errorf("filestore: open: %w", err)
	}
	return namespaceOf(spec)
}

// payload is all that a ref holds.
type payload struct {
	ID string `json:"id"`
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	var pl payload
	if err := driver.DecodeRef(ref, Kind, &pl, p.cfg.Log); err != nil {
		return nil, err
	}
	if known := ref.Capabilities.Equal(capabilities) || ref.Capabilities.Equal(withSnapshots); !known || !driver.ValidID(pl.ID) {
		return nil, fmt.Errorf("filestore: the payload or the capabilities of the ref are not valid: %w", fault.Failed)
	}
	if ref.Capabilities.Has(driver.CapSnapshot) && p.cfg.Snapshots == nil {
		return nil, fmt.Errorf("filestore: resolve: the workspace was opened with snapshots: %w: there is no store of them", fault.Failed)
	}
	s, err := p.store(ctx)
	if err != nil {
		return nil, openFailed(ctx, "resolve", err)
	}
	var rec *record
	err = s.view(ctx, func(t *tx) (err error) {
		rec, err = t.record(pl.ID)
		return err
	})
	if err != nil {
		return nil, openFailed(ctx, "resolve", err)
	}
	if rec == nil {
		return nil, fault.WithCause(fmt.Errorf("filestore: resolve: the files of the workspace are gone: %w", fault.Failed), fault.CauseGone)
	}
	if err := driver.CheckRevision(ref, rec.revision); err != nil {
		return nil, err
	}
	return p.attach(s, rec, ref.Capabilities)
}

// attach builds the live workspace: Open and Resolve both end here.
func (p *Provider) attach(s *store, rec *record, caps driver.Capabilities) (*driver.Workspace, error) {
	w := &space{p: p, s: s, id: rec.id, caps: caps}
	ref, err := w.ref(rec)
	if err != nil {
		return nil, err
	}
	w.durable.Store(rec.policy.Durable)
	t := traits()
	if rec.mayBeDamaged(p.cfg.BootID) {
		t.Damaged = "the host has started anew since the workspace was opened, and its policy was not durable: recent changes may be lost or torn"
	}
	life := driver.Life{
		Close:   func(context.Context) error { return nil }, // nothing is held
		Destroy: w.destroy,
		Update:  w.update,
	}
	if caps.Has(driver.CapSnapshot) {
		life.Snapshot = w.keeper(rec).Module()
	}
	return &driver.Workspace{
		Ref:    ref,
		Traits: t,
		Life:   life,
		FS: &driver.FS{
			Files: w, Rename: w.Rename, Copy: w.Copy, Chmod: w.Chmod, Symlink: w.Symlink, Digest: w.Digest,
		},
	}, nil
}

// HasWorkspaces reports whether the database has a workspace.
func (p *Provider) HasWorkspaces(ctx context.Context) (bool, error) {
	if _, err := os.Lstat(dbPath(&p.cfg)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	s, err := p.store(ctx)
	if err != nil {
		return false, failed("look for workspaces", ".", err)
	}
	var ids []string
	err = s.view(ctx, func(t *tx) (err error) {
		ids, err = t.strings("SELECT id FROM workspace LIMIT 1")
		return err
	})
	return len(ids) > 0, failed("look for workspaces", ".", err)
}

// Sweep removes the workspaces that are not in live, and the objects that a
// crash left.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	s, err := p.store(ctx)
	if err != nil {
		return failed("sweep", ".", err)
	}
	var ids []string
	err = s.view(ctx, func(t *tx) (err error) {
		ids, err = t.strings("SELECT id FROM workspace")
		return err
	})
	if err != nil {
		return failed("sweep", ".", err)
	}
	for _, id := range ids {
		if !slices.Contains(live, id) {
			if err := s.remove(ctx, id); err != nil {
				return failed("sweep", id, err)
			}
		}
	}
	defer s.trim(ctx)
	return failed("sweep", ".", errors.Join(s.reap(ctx), s.unpinDead(ctx), s.collect(ctx), s.sweepBucket(ctx), s.sweepWriters()))
}

// A record is the row of a workspace.
type record struct {
	id        string
	namespace string
	revision  int64
	policy    driver.Policy
	boot      string // of the host, when the policy was last set
	damaged   bool   // an earlier boot may have done harm
	root      int64
	session   string // on whose behalf it was opened
	origin    string // the snapshot that it started from
}

// mayBeDamaged reports whether the host went down while the workspace was not durable.
func (r *record) mayBeDamaged(boot string) bool {
	return r.damaged || r.boot != boot && !r.policy.Durable
}

func (w *space) ref(r *record) (driver.Ref, error) {
	return driver.NewRef(Kind, payload{ID: r.id}, w.caps.Clone(), r.revision)
}

func encodePolicy(p driver.Policy) (string, error) {
	data, err := json.Marshal(p)
	return string(data), err
}
