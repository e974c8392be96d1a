package profile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	eslint := Command{Dir: ".", Argv: []string{"eslint", Files}, Match: scriptFiles}
	gotest := Command{Dir: ".", Argv: []string{"go", "test", Packages}, Match: goFiles}
	cargo := Command{Dir: ".", Argv: []string{"cargo", "test", "--package=" + Packages}, Packages: []Package{{".", "top"}, {"crates/a", "aa"}, {"crates/a/b", "bb"}}}
	maven := Command{Dir: ".", Argv: []string{"mvn", "-Dtest=" + Tests}, Join: ","}
	gradle := Command{Dir: ".", Argv: []string{"gradle", Packages + ":test"}, Packages: []Package{{".", ""}, {"lib/core", ":lib:core"}}}
	for _, c := range []struct {
		name  string
		c     Command
		files string
		want  string // empty: nothing to run
	}{
		{"many", eslint, "a.ts b/c.ts", "eslint a.ts b/c.ts"},
		{"none", eslint, "", ""},
		{"no placeholder", Command{Dir: ".", Argv: []string{"make", "lint"}}, "a.ts", "make lint"},
		{"no placeholder and no files", Command{Dir: ".", Argv: []string{"make", "lint"}}, "", ""},
		{"no command", Command{}, "a.ts", ""},
		{"only what it is about", eslint, "README.md a.ts", "eslint a.ts"},
		{"nothing it is about", eslint, "README.md go.mod", ""},
		{"each once", eslint, "a.ts ./a.ts b/../a.ts", "eslint a.ts"},
		{"a name that looks like an option", eslint, "-rf.ts", "eslint ./-rf.ts"},
		{"outside the workspace", eslint, "../a.ts /etc/a.ts", ""},
		{"two dots in a name", eslint, "..a.ts", "eslint ..a.ts"},
		{"in its directory", Command{Dir: "web", Argv: []string{"eslint", Files}}, "web/a.ts webby/b.ts c.ts", "eslint a.ts"},
		{"under", Command{Dir: ".", Argv: []string{"eslint", Files}, Under: "web"}, "web/a.ts c.ts", "eslint web/a.ts"},
		{"except", Command{Dir: ".", Argv: []string{"eslint", Files}, Except: []string{"web"}}, "web/a.ts c.ts", "eslint c.ts"},

		{"go packages", gotest, "a/x.go a/x_test.go b/y.go main.go", "go test ./a ./b ."},
		{"go testdata belongs to its package", gotest, "a/testdata/src/x.go", "go test ./a"},
		{"go vendored code is nobody's", gotest, "vendor/x/y.go", ""},
		{"go non-go files", gotest, "a/x.txt", ""},
		{"crates, innermost", cargo, "src/lib.rs crates/a/src/x.rs crates/a/b/src/y.rs crates/a/src/z.rs", "cargo test --package=top --package=aa --package=bb"},
		{"classes joined", maven, "src/test/java/x/FooTest.java src/test/java/BarTest.java", "mvn -Dtest=FooTest,BarTest"},
		{"gradle projects", gradle, "lib/core/A.java B.java", "gradle :lib:core:test :test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := c.c.Expand(strings.Fields(c.files))
			if strings.Join(got, " ") != c.want || ok != (c.want != "") {
				t.Errorf("Expand(%q) = %q, %t, want %q", c.files, got, ok, c.want)
			}
		})
	}
}

func TestExpandLeavesTheCommandAlone(t *testing.T) {
	c := Command{Dir: ".", Argv: []string{"make", "lint"}, Whole: []string{"make"}}
	argv, _ := c.Expand([]string{"a"})
	all, _ := c.All()
	argv[0], all[0] = "x", "x"
	if c.Argv[0] != "make" || c.Whole[0] != "make" {
		t.Errorf("command = %v, want it unchanged", c)
	}
}

func TestAll(t *testing.T) {
	for _, c := range []struct {
		c    Command
		want string
	}{
		{Command{}, ""},
		{Command{Argv: []string{"go", "test", "./..."}}, "go test ./..."},
		{Command{Argv: []string{"gofmt", Files}, Whole: []string{"gofmt", "."}}, "gofmt ."},
		{Command{Argv: []string{"clang-format", Files}}, ""},
	} {
		got, ok := c.c.All()
		if strings.Join(got, " ") != c.want || ok != (c.want != "") {
			t.Errorf("All of %v = %q, %t, want %q", c.c.Argv, got, ok, c.want)
		}
	}
}

// What is offered for files must work for the tool that gets them.
func TestScopedCommandsOfRealProjects(t *testing.T) {
	for _, c := range []struct {
		name  string
		fs    []string
		pick  func(Project) Command
		files string
		want  string
	}{
		{"go vet of two packages", []string{"go.mod", "module m\n"}, func(p Project) Command { return p.Lint }, "a/x.go b/y.go", "go vet ./a ./b"},
		{"golangci-lint of two packages", []string{"go.mod", "module m\n", ".golangci.yml", ""}, func(p Project) Command { return p.Lint }, "a/x.go b/y.go", "golangci-lint run ./a ./b"},
		{"go test of a file", []string{"go.mod", "module m\n"}, func(p Project) Command { return p.ScopedTest }, "a/x_test.go", "go test ./a"},
		{"cargo test of a file", []string{"Cargo.toml", "[package]\nname = \"c\"\n"}, func(p Project) Command { return p.ScopedTest }, "src/x.rs", "cargo test --package=c"},
		{"clippy of a file", []string{"Cargo.toml", "[package]\nname = \"c\"\n"}, func(p Project) Command { return p.Lint }, "src/x.rs", "cargo clippy --package=c --all-targets -- -D warnings"},
		{"rustfmt of a file", []string{"Cargo.toml", "[package]\nname = \"c\"\nedition = \"2021\"\n"}, func(p Project) Command { return p.Format }, "src/x.rs", "rustfmt --edition 2021 src/x.rs"},
		{"gofmt of a text", []string{"go.mod", "module m\n"}, func(p Project) Command { return p.Format }, "README.md", ""},
		{"vitest", []string{"package.json", pkg}, func(p Project) Command { return p.ScopedTest }, "src/a.test.ts", "npx --no-install vitest run src/a.test.ts"},
		{"phpunit", []string{"composer.json", "{}", "phpunit.xml", ""}, func(p Project) Command { return p.ScopedTest }, "tests/ATest.php tests/BTest.php", "vendor/bin/phpunit --filter=ATest|BTest"},
		{"module inside a module", []string{"go.mod", "module m\n", "sub/go.mod", "module s\n"}, func(p Project) Command { return p.ScopedTest }, "a/x.go sub/y.go", "go test ./a"},
		{"module used by a workspace", []string{"go.work", "use ./sub\n", "sub/go.mod", "module s\n"}, func(p Project) Command { return p.ScopedTest }, "sub/y.go", "go test ./sub"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := detect(t, tree(c.fs...)).Primary()
			got, _ := c.pick(p).Expand(strings.Fields(c.files))
			if strings.Join(got, " ") != c.want {
				t.Errorf("Expand(%s) = %q, want %q", c.files, got, c.want)
			}
		})
	}
}

func TestPromptLines(t *testing.T) {
	got := detect(t, tree("package.json", "{}", "biome.json", "{}", "pnpm-lock.yaml", "")).PromptLines()
	want := []string{
		"Format command: `pnpm exec biome check --write --no-errors-on-unmatched $FILES`. Run this to auto-fix lint or format issues before manual repairs.",
		"This project uses pnpm. Use it for install and run commands.",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

func TestStringQuotes(t *testing.T) {
	got := Command{Argv: []string{"ruby", "-e", "it's", "", Files}}.String()
	if want := `ruby -e 'it'\''s' '' $FILES`; got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
}

func TestJSON(t *testing.T) {
	p := detect(t, tree("Makefile", "test:\n\tx\n", "a/b/package.json", "{"))
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"projects":[{"dir":".","ecosystem":"make","proof":"Makefile","test":{"dir":".","argv":["make","test"],"proof":"Makefile"}},` +
		`{"dir":"a/b","ecosystem":"node","language":"javascript","proof":"a/b/package.json","warnings":[{"file":"a/b/package.json","message":"invalid JSON: unexpected end of JSON input"}]}]}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("JSON (-want +got):\n%s", d)
	}
	if empty, _ := json.Marshal(detect(t, tree("x", ""))); string(empty) != `{"projects":[]}` {
		t.Errorf("JSON of nothing = %s", empty)
	}
}
