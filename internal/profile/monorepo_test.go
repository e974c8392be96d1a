package profile

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// shape lists projects as "dir ecosystem".
func shape(p Profile) []string {
	var out []string
	for _, q := range p.Projects {
		out = append(out, q.Dir+" "+string(q.Ecosystem))
	}
	return out
}

func find(t *testing.T, p Profile, dir string, eco Ecosystem) Project {
	t.Helper()
	for _, q := range p.Projects {
		if q.Dir == dir && q.Ecosystem == eco {
			return q
		}
	}
	t.Fatalf("no %s project in %s among %v", eco, dir, shape(p))
	return Project{}
}

func TestSeveralAtOnce(t *testing.T) {
	p := detect(t, tree(
		"go.mod", "module m\n", "package.json", `{"devDependencies":{"prettier":"3"}}`, "web/package.json", pkg, "web/pnpm-lock.yaml", "",
		"tools/py/pyproject.toml", "[project]\nname=\"t\"\n", "docs/requirements.txt", "sphinx\n", "docs/conf.py", "",
		"node_modules/x/package.json", "{}", "vendor/y/go.mod", "module y\n", "web/dist/package.json", "{}", "target/Cargo.toml", "",
		"internal/testdata/go.mod", "module z\n", ".git/package.json", "{}", ".venv/lib/setup.py", "", "web/build/package.json", "{}", "Makefile", "test:\n",
	))
	want := []string{". go", ". node", "web node", "tools/py python"}
	if d := cmp.Diff(want, shape(p)); d != "" {
		t.Errorf("projects (-want +got):\n%s", d)
	}
	if got := find(t, p, "web", Node); got.PackageManager != "pnpm" || got.DepsDir != "web/node_modules" || got.Test.Dir != "web" {
		t.Errorf("web = %+v", got)
	}
	if got := find(t, p, ".", Node); got.PackageManager != "npm" {
		t.Errorf("root manager = %q, want npm", got.PackageManager)
	}
}

func TestThePrimaryOfTheRootIsOneThatCanBeTested(t *testing.T) {
	for _, c := range []struct {
		name  string
		files []string
		want  Ecosystem
	}{
		{"a package.json for tooling beside Go", []string{"go.mod", "module m\n", "package.json", script("jest")}, Go},
		{"a Gemfile for tooling beside an app", []string{"Gemfile", "gem 'cocoapods'\n", "package.json", script("jest")}, Node},
		{"laravel", []string{"composer.json", "{}", "phpunit.xml", "", "package.json", `{"scripts":{"build":"vite build"}}`}, PHP},
		{"nothing in the root", []string{"a/go.mod", "module a\n"}, Go},
	} {
		if got, _ := detect(t, tree(c.files...)).Primary(); got.Ecosystem != c.want {
			t.Errorf("%s: primary = %q, want %q", c.name, got.Ecosystem, c.want)
		}
	}
}

func TestNodeWorkspaces(t *testing.T) {
	for _, c := range []struct{ name, root, extra, text, pm string }{
		{"npm", `{"workspaces":["packages/*","!packages/old"]}`, "package-lock.json", "{}", "npm"},
		{"yarn object form", `{"workspaces":{"packages":["packages/*","!packages/old"]}}`, "yarn.lock", "# yarn lockfile v1", "yarn"},
		{"pnpm", `{}`, "pnpm-workspace.yaml", "packages:\n  - 'packages/**'\n  - '!packages/old'\n", "pnpm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := detect(t, tree("package.json", c.root, c.extra, c.text, "biome.json", "{}",
				"packages/a/package.json", pkg, "packages/a/tsconfig.json", "{}",
				"packages/b/package.json", script("jest"), "packages/b/eslint.config.js", "",
				"packages/old/package.json", "{}"))
			root, a, b, old := find(t, p, ".", Node), find(t, p, "packages/a", Node), find(t, p, "packages/b", Node), find(t, p, "packages/old", Node)
			if d := cmp.Diff([]string{"packages/a", "packages/b"}, root.Members); d != "" {
				t.Errorf("members (-want +got):\n%s", d)
			}
			if a.PackageManager != c.pm || a.PackageManagerProof != c.extra || a.Install.Dir != "." || a.DepsDir != "node_modules" {
				t.Errorf("member a = %+v, want the workspace's manager and installation", a)
			}
			if a.Test.Dir != "packages/a" {
				t.Errorf("test of a runs in %s", a.Test.Dir)
			}
			if argv, ok := a.Lint.Expand([]string{"packages/a/x.ts"}); !ok || a.Lint.Dir != "." || argv[len(argv)-1] != "packages/a/x.ts" {
				t.Errorf("lint of a = %v in %s, want the root's", argv, a.Lint.Dir)
			}
			if a.Lint.About("packages/b/x.ts") {
				t.Error("lint of a is about b")
			}
			if b.Lint.Dir != "packages/b" || b.Lint.Proof != "packages/b/eslint.config.js" {
				t.Errorf("lint of b = %+v, want its own", b.Lint)
			}
			if root.Lint.About("packages/b/x.ts") || !root.Lint.About("packages/a/x.ts") || !root.Format.About("packages/b/x.ts") {
				t.Errorf("root lint = %+v, want a's files but not b's", root.Lint)
			}
			if old.PackageManager != "npm" || !old.Lint.IsZero() {
				t.Errorf("old = %+v, want a project of its own", old)
			}
		})
	}
}

func TestMembersAreFoundBelowTheDepthOfTheWalk(t *testing.T) {
	fsys := tree("package.json", `{"workspaces":["a/b/c/d/e/*"]}`, "a/b/c/d/e/f/package.json", "{}", "go.work", "use ./vendor/own/x\n", "vendor/own/x/go.mod", "module x\n")
	p, err := Detect(fsys, &Options{MaxDepth: -1})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{". go", ". node", "vendor/own/x go", "a/b/c/d/e/f node"}
	if d := cmp.Diff(want, shape(p)); d != "" {
		t.Errorf("projects (-want +got):\n%s", d)
	}
}

func TestWhatWasFetchedIsNoMember(t *testing.T) {
	p := detect(t, tree("package.json", `{"workspaces":["*"]}`, "a/package.json", "{}", "node_modules/package.json", "{}"))
	if d := cmp.Diff([]string{"a"}, find(t, p, ".", Node).Members); d != "" {
		t.Errorf("members (-want +got):\n%s", d)
	}
}

func TestGolangciLintLooksUpwards(t *testing.T) {
	p := detect(t, tree("go/.golangci.yml", "", "go/mod/go.mod", "module m\n"))
	if got := find(t, p, "go/mod", Go).Lint; got.Proof != "go/.golangci.yml" || got.Dir != "go/mod" {
		t.Errorf("lint = %+v, want the configuration above", got)
	}
}

func TestCargoWorkspace(t *testing.T) {
	p := detect(t, tree("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n[workspace.package]\nedition = \"2024\"\n",
		"crates/a/Cargo.toml", "[package]\nname = \"aa\"\nedition.workspace = true\n", "crates/b/Cargo.toml", "[package]\nname = \"bb\"\nedition = \"2018\"\n"))
	root := find(t, p, ".", Rust)
	got, _ := root.ScopedTest.Expand([]string{"crates/b/src/lib.rs", "crates/a/tests/t.rs"})
	if d := cmp.Diff([]string{"cargo", "test", "--package=bb", "--package=aa"}, got); d != "" {
		t.Errorf("scoped test (-want +got):\n%s", d)
	}
	for dir, edition := range map[string]string{"crates/a": "2024", "crates/b": "2018"} {
		if got := find(t, p, dir, Rust).Format.Argv[2]; got != edition {
			t.Errorf("edition of %s = %s, want %s", dir, got, edition)
		}
	}
}

func TestJVMModules(t *testing.T) {
	p := detect(t, tree("pom.xml", "<project><modules><module>core</module></modules></project>", "mvnw", "", "core/pom.xml", "<project><artifactId>core</artifactId></project>"))
	core := find(t, p, "core", JVM)
	if want := "./mvnw -B --projects=core --also-make test"; core.Test.String() != want || core.Test.Dir != "." {
		t.Errorf("test of core = %s in %s, want %s in the root", core.Test, core.Test.Dir, want)
	}
	p = detect(t, tree("settings.gradle.kts", "include(\":lib:core\", \"app\")\n// include(\"no\")\n", "build.gradle.kts", "", "gradlew", "",
		"lib/core/build.gradle.kts", "", "app/build.gradle", "", "no/build.gradle", ""))
	root, core := find(t, p, ".", JVM), find(t, p, "lib/core", JVM)
	if d := cmp.Diff([]string{"app", "lib/core"}, root.Members); d != "" {
		t.Errorf("members (-want +got):\n%s", d)
	}
	if want := "./gradlew :lib:core:test"; core.Test.String() != want || core.Test.Dir != "." || core.Test.About("app/A.java") {
		t.Errorf("test of lib/core = %+v, want %s in the root, for its own files", core.Test, want)
	}
	got, _ := root.ScopedTest.Expand([]string{"app/src/A.java", "lib/core/src/B.kt"})
	if d := cmp.Diff([]string{"./gradlew", ":app:test", ":lib:core:test"}, got); d != "" {
		t.Errorf("scoped test (-want +got):\n%s", d)
	}
}

func TestOtherWorkspaces(t *testing.T) {
	p := detect(t, tree("pyproject.toml", "[tool.uv.workspace]\nmembers = [\"libs/*\"]\n[tool.ruff]\n", "uv.lock", "", "libs/a/pyproject.toml", "[project]\nname = \"a\"\n"))
	if a := find(t, p, "libs/a", Python); a.PackageManager != "uv" || a.Install.Dir != "." || a.Lint.Dir != "." || a.Test.Dir != "libs/a" {
		t.Errorf("uv member = %+v", a)
	}
	p = detect(t, tree("deno.json", `{"workspace":["./a"]}`, "a/deno.jsonc", "{}"))
	if d := cmp.Diff([]string{"a"}, find(t, p, ".", Deno).Members); d != "" {
		t.Errorf("deno members (-want +got):\n%s", d)
	}
	p = detect(t, tree("mix.exs", "apps_path: \"apps\"", "apps/a/mix.exs", "app: :a"))
	if d := cmp.Diff([]string{"apps/a"}, find(t, p, ".", Elixir).Members); d != "" {
		t.Errorf("umbrella members (-want +got):\n%s", d)
	}
	p = detect(t, tree("CMakeLists.txt", "project(p)", "src/CMakeLists.txt", "project(q)", "src/Makefile", "all:\n"))
	if d := cmp.Diff([]string{". cpp"}, shape(p)); d != "" {
		t.Errorf("cmake projects (-want +got):\n%s", d)
	}
	p = detect(t, tree("App.sln", "", "src/Lib/Lib.csproj", "<Project/>"))
	if root := find(t, p, ".", Dotnet); !root.Format.About("src/Lib/A.cs") {
		t.Error("the solution does not format the files of its project")
	}
}

func TestFor(t *testing.T) {
	p := detect(t, tree("go.mod", "module m\n", "package.json", "{}", "eslint.config.js", "", "web/package.json", pkg, "web/eslint.config.js", "", "web/app/go.mod", "module n\n"))
	for file, want := range map[string]string{
		"a/x.go": ". go", "x.ts": ". node", "web/x.ts": "web node", "web/x.go": ". go", "web/app/x.go": "web/app go", "web/app/x.ts": "web node", "README.md": ". go", "web/README.md": "web node",
	} {
		q, ok := p.For(file)
		if got := q.Dir + " " + string(q.Ecosystem); !ok || got != want {
			t.Errorf("For(%s) = %s, want %s", file, got, want)
		}
	}
	if q, ok := p.For("../x.go"); ok {
		t.Errorf("For a file outside = %v, want none", q.Dir)
	}
}

func TestLimits(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range 30 {
		fsys[fmt.Sprintf("p%02d/go.mod", i)] = &fstest.MapFile{Data: []byte("module m\n")}
	}
	fsys["a/b/c/go.mod"] = &fstest.MapFile{Data: []byte("module m\n")}
	for _, c := range []struct {
		opts      *Options
		projects  int
		truncated bool
	}{
		{nil, 31, false},
		{&Options{MaxDepth: 2}, 30, false},
		{&Options{MaxDepth: -1}, 0, false},
		{&Options{MaxProjects: 10}, 10, true},
		{&Options{MaxDirs: 11}, 9, true},
	} {
		p, err := Detect(fsys, c.opts)
		if err != nil || len(p.Projects) != c.projects || p.Truncated != c.truncated {
			t.Errorf("%+v: %d projects, truncated %t, %v, want %d, %t", c.opts, len(p.Projects), p.Truncated, err, c.projects, c.truncated)
		}
	}
}
