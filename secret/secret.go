// Package secret knows where secrets come from, and keeps them from getting out.
//
// A [Store] finds a secret by name in the environment of this process
// (CROFT_SECRET_<NAME>) or in a directory with one file for each. Besides the
// set that all workspaces share, a workspace may have a set of its own, which is
// asked first. What a store hands out is a [Value]: it prints, logs and marshals
// as a mark with its name, and gives its text to those alone who call Reveal.
//
// A [Scrubber] is the other half. It replaces the texts of secrets, as they are
// and in the encodings in which they usually travel, with the same marks, in
// one pass over a stream of any length.
//
// What a scrubber can't do: recognise a secret in an encoding that it does not
// know (compressed, encrypted, reversed, encoded twice, in lines of less than 47
// characters), or one that was let through in pieces of separate streams. Base64 and
// digits that were folded into lines, and dumps of bytes, are seen through in whole
// texts, not in streams. Where a secret is part of a longer base64 text, the
// characters at its two ends that hold bits of its neighbours stay; each tells at
// most four bits.
package secret

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
)

// DefaultPrefix is what the names of environment variables that hold shared
// secrets begin with.
const DefaultPrefix = "CROFT_SECRET_"

// Options says where secrets come from.
type Options struct {
	// Environ is the environment to look into, in the form of os.Environ, which
	// nil stands for. It is read once.
	Environ []string
	// Shared is the set that every workspace falls back to. An empty prefix is
	// DefaultPrefix; an empty directory is none.
	Shared Set
	// Workspace returns the set that one workspace has for itself, false if it
	// has none. Nil is none for all.
	Workspace func(workspace string) (Set, bool)
}

// A Set is a group of secrets. A variable of the environment wins over a file of
// the same name.
type Set struct {
	Prefix string // of environment variables; "" is none
	Dir    string // with one file for each secret; "" is none
}

// A Store finds secrets. It is safe for concurrent use. Files are read anew by
// every call, so that a rotated secret is seen.
type Store struct {
	environ   []string
	shared    Set
	workspace func(string) (Set, bool)
}

// New returns a store. A shared directory that is configured must exist.
func New(opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{environ: opts.Environ, shared: opts.Shared, workspace: opts.Workspace}
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

// Names returns the names of the secrets that a workspace may ask for, in lower
// case and sorted. The workspace "" has the shared ones alone.
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
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// Get returns one secret of a workspace, from its own set or else from the
// shared one. Names are not case-sensitive. An error never holds a value.
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
	}
	return Value{}, s.unknownError(ctx, workspace, name)
}

// All returns every secret of a workspace, sorted by name. It is what a
// scrubber of everything that leaves the workspace is made from.
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

// setsFor returns where to look, in order. A prefix of one workspace that lies
// within the shared one, or around it, would show the secrets of that workspace
// to all others under a longer name, so it is refused.
func (s *Store) setsFor(workspace string) ([]Set, error) {
	if s.workspace == nil || workspace == "" {
		return []Set{s.shared}, nil
	}
	own, ok := s.workspace(workspace)
	if !ok {
		return []Set{s.shared}, nil
	}
	if p := own.Prefix; p != "" && (strings.HasPrefix(p, s.shared.Prefix) || strings.HasPrefix(s.shared.Prefix, p)) {
		return nil, fmt.Errorf("secret: find secrets of workspace %s: %w: its prefix %s and the shared prefix %s overlap",
			workspace, fault.InvalidArgument, p, s.shared.Prefix)
	}
	return []Set{own, s.shared}, nil
}

// envSecrets returns the secrets of a set that are in the environment. An empty
// variable counts as none.
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

// Where a value was found.
const (
	SourceEnv  = "env"
	SourceFile = "file"
)

// A Value is a secret with its name. However it is printed, logged or
// marshalled, it shows as its mark; the text comes from Reveal alone.
type Value struct{ name, text, source string }

// NewValue makes a value of a text that comes from somewhere else than a store.
func NewValue(name, text string) Value { return Value{name: name, text: text} }

// Name returns the name, in the case in which the value was made.
func (v Value) Name() string { return v.name }

// Source returns where the value was found, SourceEnv or SourceFile.
func (v Value) Source() string { return v.source }

// Len returns the length of the text, which an audit may tell.
func (v Value) Len() int { return len(v.text) }

// Reveal returns the text itself. Nothing that it is put into may be logged.
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

func redactionMark(name string) string { return "[REDACTED:" + name + "]" }

// textError has a text that is part of the contract of the secret tool, so it
// does not carry the words of its code.
type textError struct {
	code fault.Code
	text string
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.code }
