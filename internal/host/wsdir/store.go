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
	InUseName = "in-use"
)

// StateName is the name of the state of a workspace of a kind, in its directory.
func StateName(kind string) string { return "state-" + kind + ".json" }

// lockName is locked shared while a change of a file commits, and exclusively while the
// state changes.
const lockName = "state.lock"

// Config says where the workspace directories of a provider are.
type Config struct {
	Kind string // of the provider; required
	Root string // created if missing; required

	// Forbidden are directories that no directory in place may be, lie in or contain,
	// besides Root: the data of Croft.
	Forbidden []string

	// Roots are directories of the host. A directory used in place must be one of them or
	// lie in one. Nil allows any directory; an empty list allows no directory.
	Roots []string

	Log    *slog.Logger // nil is silent
	BootID string       // names the present boot of the host; "" asks the kernel
}

// A Store is the root below which one provider has its workspace directories. It is safe
// for concurrent use.
type Store struct {
	kind      string
	root      string // absolute
	log       *slog.Logger
	boot      string
	forbidden []string // absolute; with root
	roots     []string // absolute; nil is any

	newPrefix, deadPrefix, rootLock string // contain the kind, because providers of other kinds may share the root
}

// New returns the store that cfg describes. It creates nothing on disk.
func New(cfg *Config) (*Store, error) {
	if cfg.Root == "" {
		return nil, fmt.Errorf("%s: config: %w: Root is missing", cfg.Kind, fault.InvalidArgument)
	}
	root, err := filepath.Abs(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("%s: config: root %q: %w: %w", cfg.Kind, cfg.Root, fault.InvalidArgument, err)
	}
	s := &Store{
		kind: cfg.Kind, root: root, log: cfg.Log, boot: cfg.BootID,
		newPrefix: ".new-" + cfg.Kind + "-", deadPrefix: ".dead-" + cfg.Kind + "-", rootLock: LockName(cfg.Kind),
	}
	for _, dir := range append([]string{root}, cfg.Forbidden...) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: config: forbidden %q: %w: %w", cfg.Kind, dir, fault.InvalidArgument, err)
		}
		s.forbidden = append(s.forbidden, abs)
	}
	if cfg.Roots != nil {
		s.roots = []string{}
	}
	for _, dir := range cfg.Roots {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("%s: config: host root %q: %w: it must be an absolute path", cfg.Kind, dir, fault.InvalidArgument)
		}
		s.roots = append(s.roots, dir)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.boot == "" {
		s.boot = bootID()
	}
	return s, nil
}

// LockName returns the name, below a root, of the flock file that providers of a kind
// share.
func LockName(kind string) string { return ".lock-" + kind }

// bootID returns "" if the kernel has no boot id; then a reboot is not detected.
func bootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Path joins names to the root.
func (s *Store) Path(elem ...string) string {
	return filepath.Join(append([]string{s.root}, elem...)...)
}

// Boot names the present boot of the host.
func (s *Store) Boot() string { return s.boot }

// Log returns the logger of the store and its provider, for failures that no caller
// receives.
func (s *Store) Log() *slog.Logger { return s.log }

// Lock creates the root and takes its flock, which creating, destroying and changing a
// workspace needs. The flock is held for a few system calls, never while a tree is removed.
func (s *Store) Lock(ctx context.Context) (unlock func(), err error) {
	l, err := flockfile.Lock(ctx, s.Path(s.rootLock))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.root, 0o700); err == nil {
			l, err = flockfile.Lock(ctx, s.Path(s.rootLock))
		}
	}
	if err != nil {
		return nil, err
	}
	return func() { l.Close() }, nil //nolint:errcheck // the lock ends with the descriptor
}

// Gone returns the error of Resolve for a workspace whose files are gone. The error does
// not quote the ref, which comes from storage that other programs may write.
func (s *Store) Gone() error { return Gone(s.kind) }

// Gone is Store.Gone for a provider that has no store.
func Gone(kind string) error {
	return fault.WithCause(fmt.Errorf("%s: the files of the workspace are gone: %w", kind, fault.Failed), fault.CauseGone)
}

// Resolve reads the state of the workspace that ref names. It decodes the payload of ref,
// of which id is a field. It refuses a ref with a capability that is not in has, those of
// the provider.
func (s *Store) Resolve(ctx context.Context, ref driver.Ref, payload any, id *string, has driver.Capabilities) (*State, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: resolve: %w", s.kind, err)
	}
	if err := driver.DecodeRef(ref, s.kind, payload, s.log); err != nil {
		return nil, err
	}
	if !driver.ValidID(*id) {
		return nil, fmt.Errorf("%s: the payload of the ref is not valid: %w", s.kind, fault.Failed)
	}
	m, err := s.Read(*id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.Gone()
	}
	if err != nil {
		return nil, s.OpenFailed(ctx, "resolve", err)
	}
	if err := driver.CheckRevision(ref, m.Revision); err != nil {
		return nil, err
	}
	return m, driver.CheckCapabilities(ref, has)
}

// OpenFailed converts an error to one that Open and Resolve may return. A lack of resources
// is transient; other codes are kept.
func (s *Store) OpenFailed(ctx context.Context, verb string, err error) error {
	return OpenFailed(ctx, s.kind, verb, err)
}

// OpenFailed is Store.OpenFailed for a provider that has no store.
func OpenFailed(ctx context.Context, kind, verb string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %s: %w", kind, verb, ctx.Err())
	}
	var judged fault.Code
	switch code := fault.Of(err); {
	case code == fault.ResourceExhausted, code == fault.Unavailable:
		return fault.Transient(fmt.Errorf("%s: %s: %w: %w", kind, verb, fault.Failed, err))
	case errors.As(err, &judged) && code != fault.Internal:
		return fmt.Errorf("%s: %s: %w", kind, verb, err)
	}
	return fmt.Errorf("%s: %s: %w: %w", kind, verb, fault.Failed, err)
}
