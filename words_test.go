package croft

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayNameTheTerminal are sentences of libraries with words of the command line, each for a reason.
var mayNameTheTerminal = map[string]string{
	"croft doctor --apparmor | sudo tee":           "a command line to copy; it is the same for every user",
	"of croft eval":                                "the titles of schemas",
	"croft: apply --commits":                       "a line in the user's log of Git",
	"croft mcp: workspace":                         "the line with which croft mcp begins",
	"croft mcp multi-workspace mode":               "the line with which croft mcp begins",
	"diff --git":                                   "a patch",
	"CLI option --cwd is only supported":           "skillgym's text",
	"Run with --update-snapshots":                  "skillgym's text",
	"Ask the agent why: croft eval explain":        "the report of croft eval on the terminal",
	"go on with: croft eval run --resume":          "the report of croft eval on the terminal",
	"an output directory elsewhere (--output-dir)": "the configuration of an evaluation",
	"a directory of tapes elsewhere (--record)":    "the configuration of an evaluation",
}

// TestLibrariesKnowNoTerminal: errors and other sentences of the packages below the program name no
// flag of the command line, no command of croft and no key of croft.yaml. What a user can do goes
// along as a hint (package fault), which the command line and the APIs say in the words of their users.
func TestLibrariesKnowNoTerminal(t *testing.T) {
	flags, commands := terminalWords(t)
	named := regexp.MustCompile(`(?:^|[^\w-])--(?:` + strings.Join(flags, "|") + `)(?:[^\w-]|$)|\bcroft (?:` + strings.Join(commands, "|") + `)\b|croft\.yaml`)
	used := map[string]bool{}
	for _, p := range packages(t) {
		if edge := strings.SplitN(p.dir, "/", 3); edge[0] == "cmd" || edge[0] == "daemon" || edge[0] == "examples" ||
			strings.HasPrefix(p.dir, "internal/daemon/") || strings.HasPrefix(p.dir, "internal/test") || p.dir == "internal/server/advice" {
			continue
		}
		names, err := filepath.Glob(filepath.Join(p.dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for at, text := range sentences(t, name) {
				if named.FindString(text) == "" {
					continue
				}
				known := ""
				for part := range mayNameTheTerminal {
					if strings.Contains(text, part) {
						known = part
					}
				}
				if used[known] = true; known == "" {
					t.Errorf("%s: %q has %q, which users of an API do not know: use fault.WithHint", at, text, named.FindString(text))
				}
			}
		}
	}
	for part := range mayNameTheTerminal {
		if !used[part] {
			t.Errorf("no library says %q any more", part)
		}
	}
}

// sentences returns the string literals of a file that have a space, by their positions, without the
// tags of fields.
func sentences(t *testing.T, name string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && strings.Contains(strings.TrimSpace(text), " ") && text[0] != '-' {
				out[files.Position(n.Pos()).String()] = text
			}
		}
		return true
	})
	return out
}

// terminalWords returns the flags and the commands of the program, from its source.
func terminalWords(t *testing.T) (flags, commands []string) {
	t.Helper()
	names, err := filepath.Glob("internal/daemon/cli/*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("internal/daemon/cli/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`(?:Var|VarP|MarkHidden)\((?:&?[\w.]+, )?"([a-z][a-z-]+)"`)
	command := regexp.MustCompile(`Use: +"([a-z]+)`)
	for _, name := range append(names, below...) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range flag.FindAllStringSubmatch(string(data), -1) {
			flags = append(flags, m[1])
		}
		for _, m := range command.FindAllStringSubmatch(string(data), -1) {
			commands = append(commands, m[1])
		}
	}
	slices.Sort(flags)
	slices.Sort(commands)
	if flags, commands = slices.Compact(flags), slices.Compact(commands); len(flags) < 80 || len(commands) < 50 {
		t.Fatalf("%d flags and %d commands were found", len(flags), len(commands))
	}
	return flags, commands
}
