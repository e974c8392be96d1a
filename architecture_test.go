package croft

import (
	"flag"
	"fmt"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/registry"
)

var update = flag.Bool("update", false, "write the generated parts of ARCHITECTURE.md")

// parts are the headings of the list of packages, bottom up. A pattern is one of
// the import table's; the first that covers a package has it.
var parts = []struct{ title, patterns string }{
	{"The contract and what everything uses", "auth fault event secret workspace workspace/..."},
	{"What providers on this host are built of", "internal/host/... internal/egress internal/egress/... snapshot snapshot/..."},
	{"Providers, one kind each; none imports another", "internal/wrap internal/wrap/... provider/... client"},
	{"Identity and preparation", "registry prepare/... interp/..."},
	{"Tools and evaluations", "tool tool/... internal/tool/... internal/profile internal/history eval eval/... internal/eval/..."},
	{"Servers and programs", "internal/server/... daemon internal/daemon/... cmd/... internal/web internal/web/..."},
	{"Helpers, examples", "internal/... examples/..."},
}

// TestArchitecture holds the generated parts of ARCHITECTURE.md to the package
// comments, to the registry's table of moves and to the tables of files.
func TestArchitecture(t *testing.T) {
	want, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	got := string(want)
	for name, text := range map[string]string{
		"packages":            packageList(t),
		"moves":               "```mermaid\n" + strings.TrimSpace(registry.Diagram()) + "\n```\n",
		"workspace directory": table(t, "internal/host/wsdir") + table(t, "provider/sandbox"),
		"data directory":      table(t, "internal/daemon/datadir"),
	} {
		part := regexp.MustCompile(`(?s)(<!-- generated: ` + name + ` -->\n).*?(<!-- end -->\n)`)
		if !part.MatchString(got) {
			t.Errorf("ARCHITECTURE.md has no part <!-- generated: %s --> ... <!-- end -->", name)
		}
		got = part.ReplaceAllStringFunc(got, func(old string) string {
			m := part.FindStringSubmatch(old)
			return m[1] + "\n" + text + "\n" + m[2]
		})
	}
	if got == string(want) {
		return
	}
	if !*update {
		t.Fatal("ARCHITECTURE.md is not what the packages say; write it with: go test . -run TestArchitecture -update")
	}
	if err := os.WriteFile("ARCHITECTURE.md", []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}

// details are what a sentence says after its main clause.
var details = regexp.MustCompile(`(:|;|, (so that|which|with|without|where|whose|who|until|because|as|such as|including)\b).*`)

// packageList lists every package with the main clause of the first sentence of its comment,
// but helpers by name alone.
func packageList(t *testing.T) string {
	t.Helper()
	all := packages(t)
	var b strings.Builder
	for i, part := range parts {
		fmt.Fprintf(&b, "**%s**\n\n", part.title)
		var helpers []string // the last part has names alone
		rest := all[:0:0]
		for _, p := range all {
			if !slices.ContainsFunc(strings.Fields(part.patterns), func(pattern string) bool { return covers(pattern, p.dir) }) {
				rest = append(rest, p)
				continue
			}
			if i == len(parts)-1 {
				helpers = append(helpers, "`"+p.dir+"`")
				continue
			}
			text := strings.TrimPrefix(new(doc.Package).Synopsis(packageComment(t, p.dir)), "Package "+filepath.Base(p.dir)+" ")
			text = strings.TrimPrefix(text, "Command "+filepath.Base(p.dir)+" ")
			fmt.Fprintf(&b, "- `%s`: %s\n", p.dir, strings.TrimSuffix(details.ReplaceAllString(text, ""), "."))
		}
		if helpers != nil {
			b.WriteString(strings.Join(helpers, ", ") + "\n")
		}
		b.WriteString("\n")
		all = rest
	}
	for _, p := range all {
		t.Errorf("package %s is in no part of architecture_test.go", p.dir)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// table returns the first preformatted block of a package's comment.
func table(t *testing.T, dir string) string {
	t.Helper()
	for _, block := range new(comment.Parser).Parse(packageComment(t, dir)).Content {
		if code, ok := block.(*comment.Code); ok {
			return "Package `" + dir + "`:\n\n```\n" + code.Text + "```\n"
		}
	}
	t.Errorf("the comment of package %s has no table of files", dir)
	return ""
}

func packageComment(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil && !strings.HasSuffix(name, "_test.go") {
			return f.Doc.Text()
		}
	}
	return ""
}
