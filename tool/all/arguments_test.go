package all_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/workspace/driver"
)

// pathLike finds arguments that may be paths, by their name or what is said of them.
var (
	pathName = regexp.MustCompile(`(?i)(^|_)(path|paths|file|files|filename|dir|dirs|directory|folder|cwd|root|from|to|src|source|dst|dest|destination|target|output|input|patch|diff|glob|globs|link)($|_)`)
	pathWord = regexp.MustCompile(`(?i)\b(paths?|files?|director(y|ies)|folders?|patch)\b`)
)

// noPaths are arguments that look like paths and are none, by tool and argument.
var noPaths = map[string]string{
	"Glob pattern":              "finds files below path",
	"Grep glob":                 "finds files below path",
	"Grep output_mode":          "one of three words",
	"Grep type":                 "a language",
	"apply source":              "a workspace",
	"diff from":                 "a snapshot",
	"diff to":                   "a snapshot",
	"edit_code action":          "one of four words",
	"fork snapshot":             "a snapshot",
	"git_branch from":           "a revision",
	"git_diff from":             "a revision",
	"git_diff to":               "a revision",
	"render_dot source":         "a diagram",
	"render_mermaid source":     "a diagram",
	"run_tests command":         "a command",
	"skill_run command":         "a command",
	"skill_run cwd":             "below the directory of the skill",
	"skill_run outputs.globs":   "finds files",
	"symbol ask":                "a question",
	"workspace_branch snapshot": "a snapshot",
	"workspace_grep include":    "finds files below path",
}

// TestEveryPathIsMarked: rules of approval hold for the arguments that a tool marks as
// paths. One that is not marked would pass each of them.
func TestEveryPathIsMarked(t *testing.T) {
	unused := maps.Clone(noPaths)
	for _, tl := range available(t) {
		if tl.Arguments == nil {
			t.Errorf("%s does not say what its arguments are", tl.Name)
		}
		seen := map[string]bool{}
		walk(tl.Input, "", func(name string, s *jsonschema.Schema) {
			seen[name] = true
			kind := tl.Arguments[name]
			if kind == driver.ArgPath || kind == driver.ArgPatch {
				return
			}
			last := name[strings.LastIndex(name, ".")+1:]
			if !pathName.MatchString(last) && !pathWord.MatchString(s.Description) {
				return
			}
			key := tl.Name + " " + name
			if _, ok := noPaths[key]; !ok {
				t.Errorf("%s is %q, and no path: %s", key, kind, s.Description)
			}
			delete(unused, key)
		})
		for name := range tl.Arguments {
			if !seen[name] {
				t.Errorf("%s marks %s, which is no argument", tl.Name, name)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s is marked by now, or gone", key)
	}
}

// walk visits every argument that holds strings.
func walk(s *jsonschema.Schema, prefix string, visit func(name string, s *jsonschema.Schema)) {
	for name, p := range s.Properties {
		if prefix == "" && name == "workspace" {
			continue
		}
		inner := p
		for inner.Items != nil || inner.AdditionalProperties != nil && inner.Properties == nil {
			if inner.Items != nil {
				inner = inner.Items
			} else {
				inner = inner.AdditionalProperties
			}
		}
		switch {
		case inner.Properties != nil:
			walk(inner, prefix+name+".", visit)
		case holdsText(inner):
			visit(prefix+name, p)
		}
	}
}

func holdsText(s *jsonschema.Schema) bool {
	return s.Type == "string" || s.Type == "" && len(s.Types) == 0 || slices.Contains(s.Types, "string")
}

// TestTheWalkSeesEveryText: a path within lists and objects is an argument, too.
func TestTheWalkSeesEveryText(t *testing.T) {
	type item struct {
		To string `json:"to" croft:"path"`
	}
	type input struct {
		Path  string            `json:"path" croft:"path"`
		Paths []string          `json:"paths" croft:"path"`
		Items []item            `json:"items"`
		One   *item             `json:"one,omitempty"`
		Env   map[string]string `json:"env"`
		Count int               `json:"count"`
	}
	probe := tool.New(tool.Spec{Name: "probe"}, func(context.Context, *tool.Call, input) (tool.Message, error) { return tool.Message{}, nil })
	var got []string
	walk(probe.Input, "", func(name string, _ *jsonschema.Schema) { got = append(got, name) })
	slices.Sort(got)
	if want := []string{"env", "items.to", "one.to", "path", "paths"}; !slices.Equal(got, want) {
		t.Errorf("the walk sees %v, want %v", got, want)
	}
	if got, want := slices.Sorted(maps.Keys(probe.Arguments)), []string{"items.to", "one.to", "path", "paths"}; !slices.Equal(got, want) {
		t.Errorf("marked are %v, want %v", got, want)
	}
}
