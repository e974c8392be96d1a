package wsdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/flockfile"
	"github.com/croft-run/croft/workspace/driver"
)

// Names in the directory of a workspace. A provider may add its own.
const (
	FilesName = "files"
	HeldName  = "held"
)

// StateName is the name of the state of a workspace of a kind, in its directory.
func StateName(kind string) string { return "state-" + kind + ".json" }

const lockName = "state.lock" // shared by commits of changes of files, exclusive by changes of the state

// Config says where workspaces are kept.
type Config struct {
	Kind string // of the provider; required
	Root string // made where it does not exist; required

	// Forbidden are directories that no directory in place may be, lie in or
	// hold, besides Root: all that Croft keeps for itself.
	Forbidden []string

	// Roots are directories of the host: one that is used in place must be one
	// of them or lie in one. Nil is any; an empty list lets none be used.
	Roots []string

	Log    *slog.Logger // nil is silent
	BootID string       // names the present boot of the host; "" is what the kernel says
}

// A Ground is the root below which one provider has its workspaces. It is safe
// for concurrent use.
type Ground struct {
	kind      string
	root      string // absolute
	log       *slog.Logger
	boot      string
	forbidden []string // absolute; with root
	roots     []string // absolute; nil is any

	newPrefix, deadPrefix, rootLock string // with the kind in them, because others may work in the same directory
}

// New returns the ground that cfg describes. Nothing is made yet.
func New(cfg *Config) (*Ground, error) {
	if cfg.Root == "" {
		return nil, fmt.Errorf("%s: config: %w: Root is missing", cfg.Kind, fault.InvalidArgument)
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("%s: config: root %q: %w: %w", cfg.Kind, cfg.Root, fault.InvalidArgument, err)
	}
	g := &Ground{
		kind: cfg.Kind, root: root, log: cfg.Log, boot: cfg.BootID,
		newPrefix: ".new-" + cfg.Kind + "-", deadPrefix: ".dead-" + cfg.Kind + "-", rootLock: LockName(cfg.Kind),
	}
	for _, dir := range append([]string{root}, cfg.Forbidden...) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: config: forbidden %q: %w: %w", cfg.Kind, dir, fault.InvalidArgument, err)
		}
		g.forbidden = append(g.forbidden, abs)
	}
	if cfg.Roots != nil {
		g.roots = []string{}
	}
	for _, dir := range cfg.Roots {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("%s: config: host root %q: %w: it must be an absolute path", cfg.Kind, dir, fault.InvalidArgument)
		}
		g.roots = append(g.roots, dir)
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.boot == "" {
		g.boot = bootID()
	}
	return g, nil
}

// LockName is the name, below a root, of the file that providers of a kind lock.
func LockName(kind string) string { return ".lock-" + kind }

// bootID is "" where the kernel has none; then no boot differs from another.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Path joins names to the root.
func (g *Ground) Path(elem ...string) string {
	return filepath.Join(append([]string{g.root}, elem...)...)
}

// Boot names the present boot of the host.
func (g *Ground) Boot() string { return g.boot }

// Log is where the ground, and its provider, say what nobody is told otherwise.
func (g *Ground) Log() *slog.Logger { return g.log }

// Lock makes the root and takes the lock on it, which making, ending and changing
// a workspace needs. It is held for a few system calls, never while a tree is
// removed.
func (g *Ground) Lock(ctx context.Context) (unlock func(), err error) {
	l, err := flockfile.Lock(ctx, g.Path(g.rootLock))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(g.root, 0o700); err == nil {
			l, err = flockfile.Lock(ctx, g.Path(g.rootLock))
		}
	}
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil //nolint:errcheck // the lock ends with the descriptor
}

// Gone is the error of Resolve for a workspace whose files are gone. It says
// nothing of the ref, which comes from storage that others may write.
func (g *Ground) Gone() error { return gone(g.kind) }

func gone(kind string) error {
	return fault.WithCause(fmt.Errorf("%s: the files of the workspace are gone: %w", kind, fault.Failed), fault.CauseGone)
}

// Resolve reads the state of the workspace that ref stands for. It decodes the payload of
// ref, of which id is a field. A ref is refused that lacks one of the capabilities in
// least, has one that workspaces on a ground never have, or has snapshots where there is
// no store of them.
func (g *Ground) Resolve(ctx context.Context, ref driver.Ref, payload any, id *string, least driver.Capabilities, store bool) (*Meta, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: resolve: %w", g.kind, err)
	}
	if err := driver.DecodeRef(ref, g.kind, payload, g.log); err != nil {
		return nil, err
	}
	known := driver.NewCapabilities(driver.CapFS, driver.CapShell, driver.CapSnapshot)
	if !driver.ValidID(*id) || len(ref.Capabilities.Missing(least)) > 0 || len(known.Missing(ref.Capabilities)) > 0 {
		return nil, fmt.Errorf("%s: the payload or the capabilities of the ref are not valid: %w", g.kind, fault.Failed)
	}
	m, err := g.Read(*id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, g.Gone()
	}
	if err != nil {
		return nil, g.OpenFailed(ctx, "resolve", err)
	}
	if err := driver.CheckRevision(ref, m.Revision); err != nil {
		return nil, err
	}
	if ref.Capabilities.Has(driver.CapSnapshot) && !store {
		return nil, fmt.Errorf("%s: resolve: the workspace was opened with snapshots: %w: there is no store of them", g.kind, fault.Failed)
	}
	return m, nil
}

// OpenFailed makes an error one that Open and Resolve may answer. What may pass
// is transient; what the caller did wrong keeps its code.
func (g *Ground) OpenFailed(ctx context.Context, verb string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %s: %w", g.kind, verb, ctx.Err())
	}
	var judged fault.Code
	switch code := fault.Of(err); {
	case code == fault.ResourceExhausted, code == fault.Unavailable:
		return fault.Transient(fmt.Errorf("%s: %s: %w: %w", g.kind, verb, fault.Failed, err))
	case errors.As(err, &judged) && code != fault.Internal:
		return fmt.Errorf("%s: %s: %w", g.kind, verb, err)
	}
	return fmt.Errorf("%s: %s: %w: %w", g.kind, verb, fault.Failed, err)
}
