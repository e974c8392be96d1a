package bootstrap

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// A Spec is what must exist in a workspace before anyone works in it.
type Spec struct {
	// Template is a directory of the host whose contents the workspace has at its
	// top; "" is none. What of it is gone is put back, and what changes there is
	// brought in; what somebody changed in the workspace is their work, and stays.
	Template string
	Files    []File
	Skills   []Skill
	Commands []Command

	// Prune undoes what an earlier spec brought about and this one does not have:
	// what was put there, and is still as it was, is removed. What was changed
	// since, and what commands made, stays.
	Prune bool
}

// A File is a file, or an input, that must be there.
type File struct {
	Key      string       // "" is made of the target
	Target   string       // in the workspace; "" is the default of Input
	Content  []byte       // of a file without Input; nil is an empty file
	Mode     fs.FileMode  // 0 is 0o644
	Input    *stage.Input // where it comes from, in place of Content
	Optional bool
}

// A Skill is a directory that must be at skills/<name>.
type Skill struct {
	Name     string
	Dir      string // of the host
	ReadOnly bool   // programs can't write to it; by default they may, as to any working copy
	Optional bool

	Lost error // why there is no Dir; it is what preparing the skill fails with
}

// A Command is a program that must have been run.
type Command struct {
	Key     string // "" is made of all that is fingerprinted but inputs
	Cmd     string
	Args    []string
	Env     map[string]string
	Cwd     string // in the workspace
	Stdin   string
	Timeout time.Duration // 0 is DefaultTimeout
	Limits  driver.Limits

	MarkerPath        string   // what says that it was run, by being there; a file is made where the command makes nothing, and it is run again without
	ObservedPaths     []string // files and directories that it makes, without which it is run again
	FingerprintInputs []string // files whose content counts
	FingerprintSalt   string   // what else counts
	Optional          bool
}

// DefaultTimeout is that of a command: long enough to install things.
const DefaultTimeout = 15 * time.Minute

// Kinds of entries, in the order in which they are done.
const (
	KindTemplate = "template"
	KindFile     = "file"
	KindSkill    = "skill"
	KindCommand  = "command"
)

// An entry is one thing that a spec wants.
type entry struct {
	key, kind string
	optional  bool
	target    string // what it makes, "" where that is not one path
	do        doer
}

// entries lists what the spec wants, in order, each under a key of its own.
func (s Spec) entries(r *Reconciler) ([]entry, error) {
	var list []entry
	if s.Template != "" {
		list = append(list, entry{key: "template", kind: KindTemplate, do: &templateDoer{r, s.Template, s.Prune}})
	}
	skills := map[string]entry{}
	for _, k := range s.Skills {
		if err := k.check(); err != nil {
			return nil, err
		}
		if _, dup := skills[k.Name]; dup {
			return nil, fmt.Errorf("bootstrap: skill %q: %w: two entries have this name", k.Name, fault.InvalidArgument)
		}
		skills[k.Name] = entry{"skill:" + k.Name, KindSkill, k.Optional, k.target(), &skillDoer{r, k}}
	}
	take := func(name string) {
		if e, left := skills[name]; left {
			list = append(list, e)
			delete(skills, name)
		}
	}
	for _, f := range s.Files {
		e, err := f.entry(r)
		if err != nil {
			return nil, err
		}
		if in, ok := e.do.(*inputDoer); ok {
			take(in.skill()) // before what is taken of it
		}
		list = append(list, e)
	}
	for _, k := range s.Skills {
		take(k.Name)
	}
	for _, c := range s.Commands {
		e, err := c.entry(r)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return distinct(list)
}

func (k Skill) target() string { return path.Join(stage.DirSkills, k.Name) }

func (k Skill) check() error {
	if k.Dir == "" && k.Lost == nil {
		return fmt.Errorf("bootstrap: skill %.80q: %w: it has no directory", k.Name, fault.InvalidArgument)
	}
	return stage.CheckSkillName(k.Name)
}

func (c Command) entry(r *Reconciler) (entry, error) {
	if c.Cmd == "" {
		return entry{}, fmt.Errorf("bootstrap: command: %w: cmd is empty", fault.InvalidArgument)
	}
	key := c.Key
	if key == "" {
		key = "cmd:" + c.base()[:16]
	}
	if c.MarkerPath != "" {
		marker, err := r.ws.Clean(c.MarkerPath)
		if err != nil {
			return entry{}, fmt.Errorf("bootstrap: %s: marker: %w", key, err)
		}
		if marker == "." {
			return entry{}, fmt.Errorf("bootstrap: %s: marker %q: %w: it is the workspace itself, which is always there", key, c.MarkerPath, fault.InvalidArgument)
		}
		c.MarkerPath = marker
	}
	for _, list := range [][]string{c.ObservedPaths, c.FingerprintInputs} {
		for _, name := range list {
			if _, err := r.ws.Clean(name); err != nil || name == "" {
				return entry{}, fmt.Errorf("bootstrap: %s: path %q: %w", key, name, cmp.Or(err, error(fault.InvalidArgument)))
			}
		}
	}
	return entry{key, KindCommand, c.Optional, c.MarkerPath, &commandDoer{r, c}}, nil
}

func (f File) entry(r *Reconciler) (entry, error) {
	target := f.Target
	if f.Input != nil && len(f.Content) > 0 {
		return entry{}, fmt.Errorf("bootstrap: file %q: %w: it has content and an input", f.Target, fault.InvalidArgument)
	}
	if f.Input != nil {
		in := *f.Input
		if in.To == "" {
			in.To = f.Target
		}
		to, err := r.st.Target(in)
		if err != nil {
			return entry{}, err
		}
		f.Input, target = &in, to
	}
	target, err := r.st.Workspace().Clean(target)
	if err != nil {
		return entry{}, err
	}
	if target == "." {
		return entry{}, fmt.Errorf("bootstrap: file %q: %w: a target is required", f.Target, fault.InvalidArgument)
	}
	f.Target = target
	key := f.Key
	if key == "" {
		key = "file:" + target
	}
	if f.Input != nil {
		return entry{key, KindFile, f.Optional, target, &inputDoer{r, f}}, nil
	}
	return entry{key, KindFile, f.Optional, target, &fileDoer{r, f}}, nil
}

// distinct refuses two entries of one key or target. Commands that say the same
// twice are run twice.
func distinct(list []entry) ([]entry, error) {
	seen, targets := map[string]int{}, map[string]string{}
	for i := range list {
		e := &list[i]
		if seen[e.key]++; seen[e.key] > 1 {
			c, ok := e.do.(*commandDoer)
			if !ok || c.c.Key != "" {
				return nil, fmt.Errorf("bootstrap: key %q: %w: two entries have it", e.key, fault.InvalidArgument)
			}
			e.key += "#" + strconv.Itoa(seen[e.key])
		}
		if e.target == "" {
			continue
		}
		if other, dup := targets[e.target]; dup {
			return nil, fmt.Errorf("bootstrap: target %q: %w: %s and %s both make it", e.target, fault.InvalidArgument, other, e.key)
		}
		targets[e.target] = e.key
	}
	return list, nil
}

// fingerprint is the digest of parts, each preceded by its length.
func fingerprint(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// base is the fingerprint of what a command says itself.
func (c Command) base() string {
	parts := []string{"cmd", c.Cmd, strconv.Itoa(len(c.Args))}
	parts = append(parts, c.Args...)
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		parts = append(parts, k, c.Env[k])
	}
	return fingerprint(append(parts, "in", c.Cwd, c.Stdin, c.FingerprintSalt)...)
}
