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

// Config configures a provider.
type Config struct {
	// Dir holds filestore.db and the directory filestore. It is created if it does
	// not exist. Required.
	Dir string

	// Bucket holds the content of large files; nil is the directory filestore/objects
	// below Dir. An acknowledged write to the bucket must be durable. The provider
	// does not close it.
	Bucket *blob.Bucket

	// InlineThreshold is the maximum size in bytes of content in the database; 0 is
	// DefaultInlineThreshold, and a negative value keeps only empty files there.
	InlineThreshold int64

	// Snapshots stores the snapshots of workspaces; nil disables snapshots.
	Snapshots *snapshot.Store

	Log *slog.Logger // nil is silent

	// BootID identifies the present boot of the host; "" reads it from the kernel.
	BootID string
}

// Provider opens workspaces in a database. The first call that needs the database
// opens it.
type Provider struct {
	cfg Config

	mu     sync.Mutex
	opened *store
	closed bool
}

// New returns a provider that stores its files below cfg.Dir.
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

// bootID returns "" if the kernel has no boot id; then reboots are not detected.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Close closes the database. No call may follow, on the provider or its workspaces.
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

// openedStore returns the open store. A failure is not cached: the next call tries again.
func (p *Provider) openedStore(ctx context.Context) (*store, error) {
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

// Features returns what the provider has besides its workspaces.
func (p *Provider) Features() driver.Features {
	return driver.Features{Capabilities: p.capabilities(), HasWorkspaces: p.hasWorkspaces}
}

// Probe opens the database.
func (p *Provider) Probe(ctx context.Context) (driver.Traits, error) {
	if _, err := p.openedStore(ctx); err != nil {
		return driver.Traits{}, openFailed(ctx, "probe", err)
	}
	return fixedTraits(), nil
}

func fixedTraits() driver.Traits {
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

// capabilities returns the capabilities of a workspace.
func (p *Provider) capabilities() driver.Capabilities {
	return driver.NewCapabilities(driver.CapFS).With(driver.CapSnapshot, p.cfg.Snapshots != nil)
}

// Open creates the workspace spec.ID or returns the existing one.
func (p *Provider) Open(ctx context.Context, spec driver.Spec) (*driver.Workspace, error) {
	namespace, explicit, err := p.checkSpec(spec)
	if err != nil {
		return nil, err
	}
	s, err := p.openedStore(ctx)
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	fresh := &record{id: spec.ID, namespace: namespace, revision: 1, policy: spec.Policy, boot: p.cfg.BootID, session: spec.Session.ID, origin: spec.From.Snapshot}
	parts, err := p.initialParts(ctx, s, fresh, spec)
	if err != nil {
		return nil, err
	}
	var rec *record
	var was driver.Policy
	err = s.change(ctx, spec.Policy.Durable, func(t *tx) (err error) {
		rec, err = t.readRecord(spec.ID)
		if err != nil {
			return err
		}
		if rec == nil {
			rec, was = fresh, spec.Policy
			if err := t.createRecord(rec); err != nil {
				return err
			}
			return t.writeParts(rec, parts)
		}
		if rec.origin != spec.From.Snapshot {
			return fmt.Errorf("source: %w: the workspace was opened with another source", fault.InvalidArgument)
		}
		if explicit && namespace != rec.namespace {
			return fmt.Errorf("namespace %q: %w: the workspace was opened in %q", namespace, fault.InvalidArgument, rec.namespace)
		}
		was = rec.policy
		return t.applyPolicy(rec, spec.Policy, p.cfg.BootID)
	})
	if err != nil || rec != fresh {
		err = errors.Join(err, s.abandonAll(ctx, parts))
	}
	if err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	driver.Step(ctx, "row written")
	if err := p.syncIfDurable(ctx, s, rec, was); err != nil {
		return nil, openFailed(ctx, "open", err)
	}
	ws, err := p.buildWorkspace(s, rec)
	return ws.Only(spec.Want), err
}

// checkSpec refuses, before anything is created, what the provider can't do.
func (p *Provider) checkSpec(spec driver.Spec) (namespace string, explicit bool, err error) {
	if err := driver.CheckOpen(spec, Kind, p.capabilities()); err != nil {
		return "", false, err
	}
	if spec.Dir != "" {
		return "", false, fmt.Errorf("filestore: open: a directory in place: %w: the files are in a database", fault.Unsupported)
	}
	if spec.From.Template != "" || spec.From.Snapshot != "" && p.cfg.Snapshots == nil {
		return "", false, fmt.Errorf("filestore: open: a template, or a snapshot without a snapshot store: %w", fault.Unsupported)
	}
	if err := spec.Policy.Check(fixedTraits()); err != nil {
		return "", false, fmt.Errorf("filestore: open: %w", err)
	}
	return namespaceOf(spec)
}

// Resolve attaches to the workspace that ref names.
func (p *Provider) Resolve(ctx context.Context, ref driver.Ref) (*driver.Workspace, error) {
	id, err := driver.DecodeRefID(ref, Kind, p.cfg.Log)
	if err != nil {
		return nil, err
	}
	if err := driver.CheckCapabilities(ref, p.capabilities()); err != nil {
		return nil, err
	}
	s, err := p.openedStore(ctx)
	if err != nil {
		return nil, openFailed(ctx, "resolve", err)
	}
	var rec *record
	err = s.view(ctx, func(t *tx) (err error) {
		rec, err = t.readRecord(id)
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
	ws, err := p.buildWorkspace(s, rec)
	return ws.Only(ref.Capabilities), err
}

// buildWorkspace builds the workspace for Open and Resolve.
func (p *Provider) buildWorkspace(s *store, rec *record) (*driver.Workspace, error) {
	w := &space{p: p, s: s, id: rec.id}
	ref, err := w.newRef(rec)
	if err != nil {
		return nil, err
	}
	w.durable.Store(rec.policy.Durable)
	t := fixedTraits()
	if rec.mayBeDamaged(p.cfg.BootID) {
		t.Damaged = "the host was rebooted while the workspace existed, and its policy is not durable: recent changes may be lost or incomplete"
	}
	life := driver.Life{
		Close:   func(context.Context) error { return nil }, // nothing to release
		Destroy: w.destroy,
		Update:  w.updatePolicy,
	}
	if p.cfg.Snapshots != nil {
		life.Snapshot = w.snapshotAdapter(rec).Module()
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

// hasWorkspaces reports whether the database has a workspace.
func (p *Provider) hasWorkspaces(ctx context.Context) (bool, error) {
	if _, err := os.Lstat(dbPath(&p.cfg)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	s, err := p.openedStore(ctx)
	if err != nil {
		return false, opError("look for workspaces", ".", err)
	}
	var ids []string
	err = s.view(ctx, func(t *tx) (err error) {
		ids, err = t.queryStrings("SELECT id FROM workspace LIMIT 1")
		return err
	})
	return len(ids) > 0, opError("look for workspaces", ".", err)
}

// Sweep removes the workspaces that are not in live, and objects that a crash left.
func (p *Provider) Sweep(ctx context.Context, live []string) error {
	s, err := p.openedStore(ctx)
	if err != nil {
		return opError("sweep", ".", err)
	}
	var ids []string
	err = s.view(ctx, func(t *tx) (err error) {
		ids, err = t.queryStrings("SELECT id FROM workspace")
		return err
	})
	if err != nil {
		return opError("sweep", ".", err)
	}
	for _, id := range ids {
		if !slices.Contains(live, id) {
			if err := s.removeWorkspace(ctx, id); err != nil {
				return opError("sweep", id, err)
			}
		}
	}
	defer s.tryVacuum(ctx)
	return opError("sweep", ".", errors.Join(s.reapPending(ctx), s.unpinDead(ctx), s.collectGarbage(ctx), s.sweepBucket(ctx), s.sweepWriters()))
}

// A record is the row of a workspace.
type record struct {
	id        string
	namespace string
	revision  int64
	policy    driver.Policy
	boot      string // boot id when the policy was last set
	damaged   bool   // the host crashed since, and writes may be lost
	root      int64
	session   string // session that opened it
	origin    string // snapshot that it started from
}

// mayBeDamaged reports whether the host crashed while the workspace was not durable.
func (r *record) mayBeDamaged(boot string) bool {
	return r.damaged || r.boot != boot && !r.policy.Durable
}

func (w *space) newRef(r *record) (driver.Ref, error) {
	return driver.NewRef(Kind, driver.RefID{ID: r.id}, w.p.capabilities(), r.revision)
}

func encodePolicy(p driver.Policy) (string, error) {
	data, err := json.Marshal(p)
	return string(data), err
}
