package bootstrap

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/strictyaml"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// specDocument is the YAML form of a Spec.
type specDocument struct {
	Version  int               `json:"version"`
	Template *string           `json:"template"`
	Files    []documentFile    `json:"files"`
	Inputs   []stage.Input     `json:"inputs"`
	Skills   []documentSkill   `json:"skills"`
	Commands []documentCommand `json:"commands"`
	Prune    bool              `json:"prune"`
}

type documentFile struct {
	Key      string `json:"key"`
	Target   string `json:"target"`
	Content  string `json:"content"`
	Mode     string `json:"mode"`
	Optional bool   `json:"optional"`
}

type documentSkill struct {
	Name     string `json:"name"`
	Dir      string `json:"dir"`
	ReadOnly bool   `json:"readOnly"`
	Optional bool   `json:"optional"`
}

type documentCommand struct {
	Key      string            `json:"key"`
	Run      []string          `json:"run"`
	Script   string            `json:"script"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
	Stdin    string            `json:"stdin"`
	Timeout  string            `json:"timeout"`
	Marker   string            `json:"marker"`
	Observed []string          `json:"observed"`
	Inputs   []string          `json:"inputs"`
	Salt     string            `json:"salt"`
	Optional bool              `json:"optional"`
}

// ParseSpec decodes a spec in YAML, strictly. Paths of the host are relative to dir.
// find looks up skills without a directory; it may be nil. An optional skill that is
// not found is a warning of Apply.
func ParseSpec(data []byte, dir string, find func(name string) (SkillInfo, error)) (Spec, error) {
	var doc specDocument
	if err := decodeYAML(data, &doc); err != nil {
		return Spec{}, fmt.Errorf("bootstrap: read the spec: %w", err)
	}
	if doc.Version != 0 && doc.Version != 1 {
		return Spec{}, fmt.Errorf("bootstrap: read the spec: version %d: %w: this program reads version 1", doc.Version, fault.InvalidArgument)
	}
	spec := Spec{Prune: doc.Prune}
	if doc.Template != nil {
		if *doc.Template == "" {
			return Spec{}, fmt.Errorf("bootstrap: read the spec: template: %w: the value is empty; give a directory, or omit it", fault.InvalidArgument)
		}
		spec.Template = resolvePath(dir, *doc.Template)
	}
	for _, f := range doc.Files {
		mode, err := parseMode(f.Mode)
		if err != nil {
			return Spec{}, fmt.Errorf("bootstrap: file %q: %w", f.Target, err)
		}
		spec.Files = append(spec.Files, File{Key: f.Key, Target: f.Target, Content: []byte(f.Content), Mode: mode, Optional: f.Optional})
	}
	for _, in := range doc.Inputs {
		spec.Files = append(spec.Files, File{Input: &in})
	}
	for _, k := range doc.Skills {
		skill, err := k.toSkill(dir, find)
		if err != nil {
			return Spec{}, err
		}
		spec.Skills = append(spec.Skills, skill)
	}
	for i, c := range doc.Commands {
		cmd, err := c.toCommand()
		if err != nil {
			return Spec{}, fmt.Errorf("bootstrap: command %d: %w", i, err)
		}
		spec.Commands = append(spec.Commands, cmd)
	}
	return spec, nil
}

// decodeYAML decodes YAML as strictly as JSON.
func decodeYAML(data []byte, v any) error {
	n, err := strictyaml.Parse(data, 1<<20)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	var tree any
	if err := yaml.NodeToValue(n, &tree); err != nil {
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.InvalidArgument, err)
	}
	return driver.DecodeStrict(text, v)
}

func parseMode(s string) (fs.FileMode, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || driver.CheckMode(fs.FileMode(n)) != nil {
		return 0, fmt.Errorf("mode %q: %w: a mode is octal, such as \"0755\", and at most 0777", s, fault.InvalidArgument)
	}
	return fs.FileMode(n), nil
}

func (k documentSkill) toSkill(dir string, find func(string) (SkillInfo, error)) (Skill, error) {
	s := Skill{Name: k.Name, Dir: resolvePath(dir, k.Dir), ReadOnly: k.ReadOnly, Optional: k.Optional}
	if k.Dir != "" {
		if s.Name == "" {
			s.Name = filepath.Base(s.Dir)
		}
		return s, nil
	}
	if k.Name == "" {
		return Skill{}, fmt.Errorf("bootstrap: skill: %w: give its name, or its dir", fault.InvalidArgument)
	}
	if err := stage.CheckSkillName(k.Name); err != nil {
		return Skill{}, err
	}
	if find == nil {
		s.Lost = fmt.Errorf("bootstrap: skill %.80q: %w: no directory of skills is configured; give its dir", k.Name, fault.NotFound)
	} else if info, err := find(k.Name); err != nil {
		s.Lost = err
	} else {
		s.Dir = info.Dir
	}
	if s.Lost != nil && !k.Optional {
		return Skill{}, s.Lost
	}
	return s, nil
}

func (c documentCommand) toCommand() (Command, error) {
	cmd := Command{
		Key: c.Key, Env: c.Env, Cwd: c.Cwd, Stdin: c.Stdin, MarkerPath: c.Marker, ObservedPaths: c.Observed,
		FingerprintInputs: c.Inputs, FingerprintSalt: c.Salt, Optional: c.Optional,
	}
	switch {
	case len(c.Run) > 0 && c.Script != "", len(c.Run) == 0 && c.Script == "":
		return Command{}, fmt.Errorf("%w: give either run, a list of words, or script", fault.InvalidArgument)
	case c.Script != "":
		cmd.Cmd, cmd.Args = "bash", []string{"-c", c.Script}
	default:
		cmd.Cmd, cmd.Args = c.Run[0], c.Run[1:]
	}
	if c.Timeout != "" {
		d, err := time.ParseDuration(c.Timeout)
		if err != nil || d <= 0 {
			return Command{}, fmt.Errorf("timeout %q: %w: a time-out is a duration above 0, such as \"10m\", and at most 2562047h", c.Timeout, fault.InvalidArgument)
		}
		cmd.Timeout = d
	}
	return cmd, nil
}

func resolvePath(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}
