// Package secret reads secrets from the environment and from files, and removes them from
// output.
//
// A [Store] finds a secret by name in the environment of this process (CROFT_SECRET_<NAME>)
// or in a directory with one file per secret. A workspace may have its own set, which
// precedes the shared one. A store returns a [Value]: it prints, logs and marshals as a
// redaction mark, and only Reveal returns its text.
//
// A [Scrubber] replaces the texts of secrets, plain and in common encodings, by such marks,
// in one pass over a stream of any length. [Patterns] finds other secrets by their shape: by
// the rules of gitleaks (gitleaks.go, made from its rule file), by further prefixes
// (moreShapes), by context (contexts), and as long random texts (runShapes). A filter finds
// the positions at which a rule may match; its regular expression is compiled when it is
// first used, and matched there only.
//
// Not prevented: a secret in an unknown encoding (compressed, encrypted, reversed, encoded
// twice, in lines of less than 47 characters), or split over separate streams. Base64 and
// digits wrapped into lines, hex dumps, and escapes that differ by program, are found in
// whole texts, not in streams; so are shapes. If a
// secret is part of a longer base64 text, the characters at its two ends that share bits
// with neighbouring bytes stay; each reveals at most four bits.
package secret

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// DefaultPrefix is the prefix of environment variables with shared secrets.
const DefaultPrefix = "CROFT_SECRET_"

// Options configure a Store.
type Options struct {
	// Environ is the environment, in the form of os.Environ, which nil stands for. It is
	// read once.
	Environ []string
	// Shared is the set that all workspaces fall back to. An empty prefix is DefaultPrefix;
	// an empty directory disables files.
	Shared Set
	// Workspace returns the set of one workspace, false if it has none. Nil disables such
	// sets.
	Workspace func(workspace string) (Set, bool)
	// Values returns further secrets of the shared set, by name in lower case, which a
	// variable or a file of the same name precedes; nil for none.
	Values func() map[string]string
}

// A Set is a group of secrets. An environment variable precedes a file of the same name.
type Set struct {
	Prefix string // of environment variables; "" disables them
	Dir    string // with one file per secret; "" disables files

	// Alone excludes the shared set: a workspace with such a set has no other secrets.
	Alone bool
}

// A Store finds secrets. It is safe for concurrent use. Files are read by every call, so
// that a rotated secret takes effect.
type Store struct {
	environ   []string
	shared    Set
	workspace func(string) (Set, bool)
	values    func() map[string]string
}

// New returns a store. A configured shared directory must exist.
func New(opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{environ: opts.Environ, shared: opts.Shared, workspace: opts.Workspace, values: opts.Values}
	if s.environ == nil {
		s.environ = os.Environ()
	}
	if s.shared.Prefix == "" {
		s.shared.Prefix = DefaultPrefix
	}
	if dir := s.shared.Dir; dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("secret: open directory: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("secret: open %s: %w: not a directory", dir, fault.InvalidArgument)
		}
	}
	return s, nil
}

// Names returns the names of the secrets of a workspace, in lower case and sorted. The
// workspace "" has only the shared ones.
func (s *Store) Names(ctx context.Context, workspace string) ([]string, error) {
	sets, err := s.setsFor(workspace)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, set := range sets {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("secret: list names: %w", err)
		}
		for name := range s.envSecrets(set) {
			all[name] = true
		}
		files, err := listFiles(set.Dir)
		if err != nil {
			return nil, err
		}
		for name := range files {
			all[name] = true
		}
		for name := range s.valuesOf(set) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// Get returns a secret of a workspace, from its own set or else from the shared one. Names
// are not case-sensitive. An error never contains a value.
func (s *Store) Get(ctx context.Context, workspace, name string) (Value, error) {
	if name == "" {
		return Value{}, &textError{fault.InvalidArgument, "name is required"}
	}
	if !validName(name) {
		return Value{}, &textError{fault.InvalidArgument, fmt.Sprintf("invalid secret name: %.80q", name)}
	}
	sets, err := s.setsFor(workspace)
	if err != nil {
		return Value{}, err
	}
	name = strings.ToLower(name)
	for _, set := range sets {
		if err := ctx.Err(); err != nil {
			return Value{}, fmt.Errorf("secret: get %s: %w", name, err)
		}
		if text, ok := s.envSecrets(set)[name]; ok {
			return Value{name: name, text: text, source: SourceEnv}, nil
		}
		text, ok, err := readFile(set.Dir, name)
		if err != nil {
			return Value{}, err
		}
		if ok {
			return Value{name: name, text: text, source: SourceFile}, nil
		}
		if text, ok := s.valuesOf(set)[name]; ok {
			return Value{name: name, text: text, source: SourceEnv}, nil
		}
	}
	return Value{}, s.unknownError(ctx, workspace, name)
}

// All returns all secrets of a workspace, sorted by name, for a scrubber.
func (s *Store) All(ctx context.Context, workspace string) ([]Value, error) {
	names, err := s.Names(ctx, workspace)
	if err != nil {
		return nil, err
	}
	values := make([]Value, 0, len(names))
	for _, name := range names {
		v, err := s.Get(ctx, workspace, name)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

func (s *Store) unknownError(ctx context.Context, workspace, name string) error {
	names, err := s.Names(ctx, workspace)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return &textError{fault.Unsupported, "secrets not configured"}
	}
	return &textError{fault.NotFound, fmt.Sprintf("unknown secret: %s (available: %s)", name, strings.Join(names, ", "))}
}

// setsFor returns the sets to search, in order. A workspace's prefix that overlaps the
// shared one is refused: it would expose the secrets of that workspace to all others under
// a longer name.
func (s *Store) setsFor(workspace string) ([]Set, error) {
	if s.workspace == nil || workspace == "" {
		return []Set{s.shared}, nil
	}
	own, ok := s.workspace(workspace)
	if !ok {
		return []Set{s.shared}, nil
	}
	if own.Alone {
		return []Set{own}, nil
	}
	if p := own.Prefix; p != "" && (strings.HasPrefix(p, s.shared.Prefix) || strings.HasPrefix(s.shared.Prefix, p)) {
		return nil, fmt.Errorf("secret: find secrets of workspace %s: %w: its prefix %s and the shared prefix %s overlap",
			workspace, fault.InvalidArgument, p, s.shared.Prefix)
	}
	return []Set{own, s.shared}, nil
}

// envSecrets returns the secrets of a set from the environment. Empty variables are
// ignored.
func (s *Store) envSecrets(set Set) map[string]string {
	if set.Prefix == "" {
		return nil
	}
	found := map[string]string{}
	for _, entry := range s.environ {
		rest, ok := strings.CutPrefix(entry, set.Prefix)
		if !ok {
			continue
		}
		name, text, _ := strings.Cut(rest, "=")
		if validName(name) && text != "" {
			found[strings.ToLower(name)] = text
		}
	}
	return found
}

// valuesOf returns the secrets of Options.Values, which belong to the shared set.
func (s *Store) valuesOf(set Set) map[string]string {
	if s.values == nil || set != s.shared {
		return nil
	}
	return s.values()
}

func validName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// Sources of a value.
const (
	SourceEnv  = "env"
	SourceFile = "file"
)

// A Value is a secret with its name. It is printed, logged and marshalled as its redaction
// mark; only Reveal returns the text.
type Value struct{ name, text, source string }

// NewValue returns a value that does not come from a store.
func NewValue(name, text string) Value { return Value{name: name, text: text} }

// Name returns the name, in its original case.
func (v Value) Name() string { return v.name }

// Source returns SourceEnv or SourceFile.
func (v Value) Source() string { return v.source }

// Len returns the length of the text, which may be audited.
func (v Value) Len() int { return len(v.text) }

// Reveal returns the text. It must not be logged.
func (v Value) Reveal() string { return v.text }

// String returns the mark that stands for the value.
func (v Value) String() string { return redactionMark(v.name) }

// GoString is String, for %#v.
func (v Value) GoString() string { return redactionMark(v.name) }

// Format writes the mark, whatever the verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redactionMark(v.name))) }

// MarshalText returns the mark.
func (v Value) MarshalText() ([]byte, error) { return []byte(redactionMark(v.name)), nil }

// LogValue returns the mark.
func (v Value) LogValue() slog.Value { return slog.StringValue(redactionMark(v.name)) }

const markStart = "[REDACTED:"

func redactionMark(name string) string { return markStart + name + "]" }

// Marks returns the parts of a text that look like the marks of a Scrubber, with their names.
func Marks(p []byte) []Span {
	var out []Span
	for at := 0; ; {
		i := bytes.Index(p[at:], []byte(markStart))
		if i < 0 {
			return out
		}
		start := at + i
		at = start + len(markStart)
		if n := bytes.IndexAny(p[at:], "[]\r\n"); n > 0 && p[at+n] == ']' {
			out = append(out, Span{start, at + n + 1, string(p[at : at+n])})
			at += n + 1
		}
	}
}

// textError has a text that is part of the contract of the secret tool, so it does not
// include the words of its code.
type textError struct {
	code fault.Code
	text string
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.code }
