package all_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/skill"
)

var update = flag.Bool("update", false, "write docs/evidence/tools.md")

// maxLines bounds the lines of an answer on the page.
const maxLines = 4

const page = "../../docs/evidence/tools.md"

// TestPage runs the example of every tool, and fails where docs/evidence/tools.md does not
// say what the tools take, answer and did just now. With -update it is written.
func TestPage(t *testing.T) {
	old, err := os.ReadFile(page)
	if err != nil && !*update {
		t.Fatal(err)
	}
	tools := available(t)
	var b strings.Builder
	described := map[string]bool{} // arguments that earlier tools have, too
	b.WriteString(head)
	for _, f := range families {
		fmt.Fprintf(&b, "\n## %s\n", f.title)
		for _, tl := range tools {
			if tl.Family == f.name {
				section(t, &b, tl, described, string(old))
			}
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(old), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("docs/evidence/tools.md is not what the tools are; go test ./tool/all -run TestPage -update writes it (-page +tools):\n%s", diff)
	}
}

const head = `# The tools

Every tool, from its schema, with the first sentence of what it says to agents, and a call that the tests make. [mcp.md](../mcp.md) says how agents get them; ` + "`croft tool NAME JSON`" + ` calls
one by hand. Every tool takes ` + "`workspace`" + ` as well: the name of one, which may be left out where there is only one.

In brackets: the hints of MCP (read-only, destructive: it may lose what can't be got back, open world: it reaches beyond the workspace),
` + "`all`" + ` where ` + "`workspace`" + ` may be "all", and the capabilities that the workspace must have. An argument without a type is a string; what one is for is said once, in short.
The whole schemas are those of ` + "`tools/list`" + ` of MCP; of answers, with the capability ` + "`croft.run/data`" + `.
`

var families = []struct {
	name  tool.Family
	title string
}{
	{tool.Files, "Files"}, {tool.Search, "Search"}, {tool.Shell, "Shell"}, {tool.Verify, "Verify"}, {tool.LSP, "Language servers"},
	{tool.AST, "Syntax trees"}, {tool.Render, "Render"}, {tool.Secrets, "Secrets"}, {tool.Project, "Project"}, {tool.Code, "Code"},
	{tool.Snapshot, "Snapshots"}, {skill.Family, "Skills and artifacts"}, {tool.Extra, "Extras"},
}

// available lists every tool of a workspace that can do everything, by name.
func available(t *testing.T) []*tool.Tool {
	t.Helper()
	env := newEnv(t, nil)
	list, err := env.Available(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for name := range examples {
		if !slices.ContainsFunc(list, func(tl *tool.Tool) bool { return tl.Name == name }) {
			t.Errorf("there is an example of %s, which is no tool", name)
		}
	}
	return list
}

// section writes what there is to say of one tool.
func section(t *testing.T, b *strings.Builder, tl *tool.Tool, described map[string]bool, old string) {
	t.Helper()
	what, _, _ := strings.Cut(tl.Description, ". ")
	fmt.Fprintf(b, "\n### %s\n\n%s. %s\n\n", tl.Name, strings.TrimSuffix(what, "."), traits(tl))
	for _, name := range fields(tl.Input) {
		var is []string
		if kind := kindOf(tl.Input.Properties[name]); kind != "string" {
			is = append(is, kind)
		}
		if slices.Contains(tl.Input.Required, name) {
			is = append(is, "required")
		}
		text := strings.Join(is, ", ")
		if text != "" {
			text = " (" + text + ")"
		}
		about, _, _ := strings.Cut(tl.Input.Properties[name].Description, ";")
		if known := name + about; described[known] {
			about = ""
		} else {
			described[known], about = true, ": "+about
		}
		fmt.Fprintf(b, "- `%s`%s%s\n", name, text, about)
	}
	ex, ok := examples[tl.Name]
	if !ok {
		t.Errorf("tool %s has no example", tl.Name)
		return
	}
	var args bytes.Buffer
	if err := json.Compact(&args, []byte(ex.args)); err != nil {
		t.Errorf("example of %s: %v", tl.Name, err)
	}
	fmt.Fprintf(b, "\n```json\n%s\n```\n", args.String())
	text := ex.want
	if ex.needs == "" || onPath(ex.needs) {
		start := time.Now()
		text = ex.run(t, tl.Name)
		t.Logf("%s took %v", tl.Name, time.Since(start).Round(time.Millisecond))
	} else if text == "" {
		t.Logf("the host lacks %s: the example of %s stays as it is", ex.needs, tl.Name)
		text = answered(old, tl.Name)
	}
	fence := "```"
	if strings.Contains(text, fence) {
		fence = "````"
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > maxLines+1 {
		lines = append(lines[:maxLines], fmt.Sprintf("... and %d lines more", len(lines)-maxLines))
	}
	fmt.Fprintf(b, "\n%stext\n%s\n%s\n", fence, strings.Join(lines, "\n"), fence)
}

func onPath(name string) bool {
	if strings.HasSuffix(name, ".json") { // a file that says that it is installed
		_, err := os.Stat(name)
		return err == nil
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// answered returns what the page says that a tool answered.
func answered(page, name string) string {
	_, rest, _ := strings.Cut(page, "\n### "+name+"\n")
	rest, _, _ = strings.Cut(rest, "\n##")
	before, rest, _ := strings.Cut(rest, "```text\n")
	text, _, _ := strings.Cut(rest, "\n"+before[strings.LastIndex(before, "\n")+1:]+"```\n")
	return text
}

func traits(tl *tool.Tool) string {
	var list []string
	for _, hint := range []struct {
		holds bool
		name  string
	}{{tl.ReadOnly, "read-only"}, {tl.Destructive, "destructive"}, {tl.OpenWorld, "open world"}, {tl.FanOut, "`all`"}} {
		if hint.holds {
			list = append(list, hint.name)
		}
	}
	for _, need := range tl.Needs {
		list = append(list, string(need))
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// fields returns the names of a schema's properties, but for that of the workspace.
func fields(s *jsonschema.Schema) []string {
	names := slices.Clone(s.PropertyOrder)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == "workspace" })
}

func kindOf(p *jsonschema.Schema) string {
	types := slices.DeleteFunc(append([]string{p.Type}, p.Types...), func(s string) bool { return s == "" || s == "null" })
	kind := strings.Join(types, " or ")
	if kind == "array" && p.Items != nil {
		kind = "list of " + kindOf(p.Items)
	}
	if kind == "" {
		kind = "any"
	}
	if len(p.Enum) > 0 {
		var all []string
		for _, e := range p.Enum {
			all = append(all, fmt.Sprintf("`%v`", e))
		}
		kind = strings.Join(all, ", ")
	}
	return kind
}

// An example is a call that shows what a tool is for.
type example struct {
	files  map[string]string // in the workspace; nil is project
	before []string          // calls that come first, each "Tool {args}"; ID in later arguments is the id that one answered
	args   string
	needs  string // a program, or a file
	want   string // what is shown where the host lacks it
}

var (
	anID   = regexp.MustCompile(`\b[a-z0-9]{20}\b`)
	varies = []struct {
		re   *regexp.Regexp
		with string
	}{
		{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`), "2026-11-15T09:30:00Z"},
		{regexp.MustCompile(`(?m)^(--- stderr ---\n)?npm (warn|notice) .*\n?`), ""}, // the host's settings
		{anID, "hhf25jotxbixxsz5oldr"},
		{regexp.MustCompile(`\bresult-[A-Z0-9]{26}\b`), "result-HHF25JOTXBIXXSZ5OLDRQ3WVCK"},
		{regexp.MustCompile(`\t[0-9a-f]{12}\t`), "\t7b8401c4d360\t"}, // it has the host's umask in it
		{regexp.MustCompile(`\d+\.\d+s\b`), "0.01s"},
		{regexp.MustCompile(`duration_ms=\d+`), "duration_ms=3"},
		{regexp.MustCompile(`\b\d+[smh] ago\b`), "just now"},
		{regexp.MustCompile(`\bin \d+(\.\d+)?(ms|µs|s)\b`), "in 9ms"},
		{regexp.MustCompile(`/tmp/\S*?/files\b`), "/workspace"},
		{regexp.MustCompile(`wrote \d+ bytes to (\S+) \((svg|png|pdf)\)`), "wrote 2048 bytes to $1 ($2)"},
		{regexp.MustCompile(`(commit|^\[?\w+) [0-9a-f]{7,40}\b`), "$1 4f0c9d2"},
	}
)

// env returns the workspace of an example: a fresh one, or for language servers,
// which take their time to start, one for all.
func (ex example) env(t *testing.T, files map[string]string) *tool.Env {
	t.Helper()
	if ex.needs != "gopls" {
		return newEnv(t, files)
	}
	if warm == nil {
		warm = newEnv(t, files)
		t.Cleanup(func() { warm = nil })
	}
	return warm
}

var warm *tool.Env

// run makes the calls in a fresh workspace and returns what the last answers.
func (ex example) run(t *testing.T, name string) string {
	t.Helper()
	files := ex.files
	if files == nil {
		files = project
	}
	env := ex.env(t, files)
	id, site := "", website(t)
	for _, line := range append(slices.Clone(ex.before), name+" "+ex.args) {
		tl, args, _ := strings.Cut(line, " ")
		res, err := env.Run(t.Context(), tool.Request{Tool: tl, Args: json.RawMessage(strings.NewReplacer("ID", id, "http://docs.example.com", site).Replace(args)), Session: "example"})
		if err != nil {
			t.Errorf("example of %s: %s: %s", name, line, tool.ErrorText(err))
			return ""
		}
		if tl == name && strings.HasPrefix(line, name+" "+ex.args) {
			text := res.Text
			for _, v := range varies {
				text = v.re.ReplaceAllString(text, v.with)
			}
			return text
		}
		if found := anID.FindString(res.Text); found != "" {
			id = found
		}
	}
	return ""
}
