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

// A Spec is what must exist in a workspace before it is used.
type Spec struct {
	// Template is a directory of the host whose content is copied to the root of the
	// workspace; "" is no template. Entries that are gone are restored, and changes
	// of the template are copied. Entries that were changed in the workspace are
	// kept.
	Template string
	Files    []File
	Skills   []Skill
	Commands []Command

	// Prune undoes entries that an earlier spec had and this one does not: files that
	// Apply created and that are unchanged are removed. Changed files, and what
	// commands created, stay.
	Prune bool
}

// A File is a file, or an input, that must exist.
type File struct {
	Key      string       // default: derived from the target
	Target   string       // in the workspace; "" is the default of Input
	Content  []byte       // of a file without Input; nil is an empty file
	Mode     fs.FileMode  // 0 is 0o644
	Input    *stage.Input // source, instead of Content
	Optional bool
}

// A Skill is a directory that must exist at skills/<name>.
type Skill struct {
	Name     string
	Dir      string // of the host
	ReadOnly bool   // programs can't write to it; the default is a working copy
	Optional bool

	Lost error // why Dir is missing; preparing the skill fails with it
}

// A Command is a program that must have run.
type Command struct {
	Key     string // default: derived from the fingerprint without inputs
	Cmd     string
	Args    []string
	Env     map[string]string
	Cwd     string // in the workspace
	Stdin   string
	Timeout time.Duration // 0 is DefaultTimeout
	Limits  driver.Limits

	MarkerPath        string   // file whose existence means that the command ran; created if the command does not create it
	ObservedPaths     []string // files and directories that it creates; if one is missing, the command runs again
	FingerprintInputs []string // files whose content is part of the fingerprint
	FingerprintSalt   string   // further text of the fingerprint
	Optional          bool
}

// DefaultTimeout is the time-out of a command: long enough to install packages.
const DefaultTimeout = 15 * time.Minute

// Kinds of entries, in the order in which they are applied.
const (
	KindTemplate = "template"
	KindFile     = "file"
	KindSkill    = "skill"
	KindCommand  = "command"
)

// An entry is one wanted item of a spec.
type entry struct {
	key, kind string
	optional  bool
	target    string // the path that it creates; "" if that is not one path
	do        entryHandler
}

// listEntries lists the entries of the spec, in order, each with its own key.
func (s Spec) listEntries(r *Reconciler) ([]entry, error) {
	var list []entry
	if s.Template != "" {
		list = append(list, entry{key: "template", kind: KindTemplate, do: &templateHandler{r, s.Template, s.Prune}})
	}
	skills := map[string]entry{}
	for _, k := range s.Skills {
		if err := k.validate(); err != nil {
			return nil, err
		}
		if _, dup := skills[k.Name]; dup {
			return nil, fmt.Errorf("bootstrap: skill %q: %w: two entries have this name", k.Name, fault.InvalidArgument)
		}
		skills[k.Name] = entry{"skill:" + k.Name, KindSkill, k.Optional, k.targetPath(), &skillHandler{r, k}}
	}
	take := func(name string) {
		if e, left := skills[name]; left {
			list = append(list, e)
			delete(skills, name)
		}
	}
	for _, f := range s.Files {
		e, err := f.toEntry(r)
		if err != nil {
			return nil, err
		}
		if in, ok := e.do.(*inputHandler); ok {
			take(in.skillName()) // before the file that is in it
		}
		list = append(list, e)
	}
	for _, k := range s.Skills {
		take(k.Name)
	}
	for _, c := range s.Commands {
		e, err := c.toEntry(r)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return checkDistinct(list)
}

func (k Skill) targetPath() string { return path.Join(stage.DirSkills, k.Name) }

func (k Skill) validate() error {
	if k.Dir == "" && k.Lost == nil {
		return fmt.Errorf("bootstrap: skill %.80q: %w: the skill has no directory", k.Name, fault.InvalidArgument)
	}
	return stage.CheckSkillName(k.Name)
}

func (c Command) toEntry(r *Reconciler) (entry, error) {
	if c.Cmd == "" {
		return entry{}, fmt.Errorf("bootstrap: command: %w: cmd is empty", fault.InvalidArgument)
	}
	key := c.Key
	if key == "" {
		key = "cmd:" + c.declarationFingerprint()[:16]
	}
	if c.MarkerPath != "" {
		marker, err := r.ws.Clean(c.MarkerPath)
		if err != nil {
			return entry{}, fmt.Errorf("bootstrap: %s: marker: %w", key, err)
		}
		if marker == "." {
			return entry{}, fmt.Errorf("bootstrap: %s: marker %q: %w: the path is the workspace itself, which always exists", key, c.MarkerPath, fault.InvalidArgument)
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
	return entry{key, KindCommand, c.Optional, c.MarkerPath, &commandHandler{r, c}}, nil
}

func (f File) toEntry(r *Reconciler) (entry, error) {
	target := f.Target
	if f.Input != nil && len(f.Content) > 0 {
		return entry{}, fmt.Errorf("bootstrap: file %q: %w: give content or an input, not both", f.Target, fault.InvalidArgument)
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
		return entry{key, KindFile, f.Optional, target, &inputHandler{r, f}}, nil
	}
	return entry{key, KindFile, f.Optional, target, &fileHandler{r, f}}, nil
}

// checkDistinct refuses two entries with the same key or target. Equal commands run twice.
func checkDistinct(list []entry) ([]entry, error) {
	seen, targets := map[string]int{}, map[string]string{}
	for i := range list {
		e := &list[i]
		if seen[e.key]++; seen[e.key] > 1 {
			c, ok := e.do.(*commandHandler)
			if !ok || c.c.Key != "" {
				return nil, fmt.Errorf("bootstrap: key %q: %w: two entries have this key", e.key, fault.InvalidArgument)
			}
			e.key += "#" + strconv.Itoa(seen[e.key])
		}
		if e.target == "" {
			continue
		}
		if other, dup := targets[e.target]; dup {
			return nil, fmt.Errorf("bootstrap: target %q: %w: %s and %s both create it", e.target, fault.InvalidArgument, other, e.key)
		}
		targets[e.target] = e.key
	}
	return list, nil
}

// digestParts returns the digest of parts, each preceded by its length.
func digestParts(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// declarationFingerprint returns the fingerprint of the declaration of a command.
func (c Command) declarationFingerprint() string {
	parts := []string{"cmd", c.Cmd, strconv.Itoa(len(c.Args))}
	parts = append(parts, c.Args...)
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		parts = append(parts, k, c.Env[k])
	}
	return digestParts(append(parts, "in", c.Cwd, c.Stdin, c.FingerprintSalt)...)
}
