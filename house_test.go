package croft

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/croft-run/croft"

// may says which packages of this module each package may import. Read from top
// to bottom it is the architecture: arrows only go up. A name stands for that
// package alone; "x/..." for all below x; "*" in a row's name for one element. A
// package that no row names fails, so a new one begins by finding its place
// here. Every package may import those of leaves. Files of tests are free.
var may = []struct{ pkg, imports string }{
	{"fault", ""},
	{"event", "fault"},
	{"secret", "fault"},
	{"profile", ""},
	{"internal/strictjson", "fault"},
	{"workspace/driver", "fault event internal/strictjson"},
	{"internal/search", "fault workspace/driver"},
	{"internal/outputs", "workspace/driver"},
	{"internal/atomicfile", ""},
	{"internal/diskreserve", ""},
	{"internal/flockfile", ""},
	{"internal/sqlitetx", ""},
	{"internal/keylock", ""},
	{"internal/near", ""},
	{"internal/scratch", ""},
	{"internal/live", ""},
	{"internal/sleep", ""},
	{"internal/strictyaml", ""},
	{"internal/textdiff", ""},
	{"internal/tail", ""},
	{"script", "fault workspace/driver internal/search internal/outputs"},
	{"script/internal/meter", ""},
	{"codeblock", "fault workspace workspace/driver script"},
	{"jupyter", "fault workspace/driver internal/outputs"},
	{"internal/testenv", ""},
	{"internal/testreport", ""},
	{"internal/binsize", ""},
	{"internal/scripted", ""},
	{"workspace", "fault event workspace/driver internal/search internal/near"},
	{"workspace/workspacetest", "fault workspace workspace/driver"},
	{"egress", "fault event secret workspace/driver"},
	{"egress/outlet", "fault egress workspace/driver"},
	{"posix/boundary", "fault workspace/driver internal/search"},
	{"posix/process", "fault event workspace/driver"},
	{"posix/guard", "fault workspace/driver posix/boundary"},
	{"host/cgroup/cgroupv1", ""},
	{"host/cgroup", "fault host/cgroup/cgroupv1"},
	{"posix/plot", "fault workspace/driver posix/boundary"},
	{"snapshot", "fault secret workspace/driver posix/boundary internal/search"},
	{"template", "fault workspace/driver posix/boundary snapshot"},
	{"internal/blobs", "fault"},
	{"snapshot/bucket", "fault snapshot internal/blobs"},
	{"guest/guestpb", ""},
	{"guest/guestbin", "fault"},
	{"guest/guestbin/internal/pack", ""},
	{"guest/internal/gensyscalls", ""},
	{"guest/keep", "fault workspace/driver posix/plot guest"},
	{"guest", "fault workspace/driver posix/... guest/guestpb guest/guestbin internal/tail"},
	{"internal/shellwire", "fault workspace/driver"},
	{"internal/shelltest", "provider/memory provider/sandbox fault workspace/driver posix/process provider/local"},
	{"provider/remote", "fault workspace/driver internal/shellwire"},
	{"provider/all", "event egress workspace workspace/driver provider/memory provider/local provider/filestore provider/sandbox provider/docker snapshot"},
	{"provider/*", "fault event workspace/driver posix/... host/... guest guest/guestbin guest/keep snapshot egress egress/outlet secret internal/tail internal/sqlitetx"},
	{"provider/wrap/guarded", "workspace/driver posix/guard"},
	{"provider/wrap/coded", "workspace/driver script jupyter"},
	{"provider/wrap/capped", "fault workspace/driver"},
	{"provider/wrap/limit", "fault workspace/driver"},
	{"provider/wrap/pool", "fault workspace/driver"},
	{"provider/wrap/record", "fault workspace/driver"},
	{"provider/wrap/retry", "fault workspace/driver"},
	{"provider/wrap", ""},
	{"config", "fault secret workspace/driver"},
	{"registry", "fault event workspace workspace/driver internal/near internal/sqlitetx"},
	{"history", "fault workspace workspace/driver snapshot"},
	{"stage", "fault workspace workspace/driver internal/blobs internal/search"},
	{"bootstrap", "fault workspace workspace/driver stage"},
	{"tool", "fault event secret profile workspace workspace/driver internal/keylock internal/strictjson"},
	{"tool/all", "tool tool/..."},
	{"tool/ast/grammar", "fault"},
	{"tool/ast", "fault workspace workspace/driver tool tool/ast/grammar"},
	{"tool/check", "fault profile workspace workspace/driver tool tool/verify"},
	{"tool/verify", "fault profile workspace workspace/driver"},
	{"tool/snapshots", "fault workspace workspace/driver snapshot history tool"},
	{"tool/lsp", "fault workspace workspace/driver tool tool/verify internal/tail"},
	{"tool/skill", "fault workspace workspace/driver stage bootstrap tool"},
	{"tool/*", "fault event secret profile workspace workspace/driver tool internal/search"},
	{"eval/session", "fault"},
	{"eval/agent", "fault workspace/driver eval/session"},
	{"eval/replay", "fault secret"},
	{"eval/judge", "fault"},
	{"eval/suite", "fault event workspace/driver posix/boundary internal/near internal/scratch"},
	{"eval", "fault event workspace workspace/driver snapshot posix/boundary posix/process eval/session eval/agent eval/suite eval/judge eval/replay internal/scratch"},
	{"eval/evaltest", "eval eval/suite provider/sandbox"},
	{"internal/httpguard", "fault"},
	{"mcpserver", "fault event workspace workspace/driver tool internal/httpguard"},
	{"api", "stage fault event workspace workspace/driver registry profile internal/shellwire internal/httpguard snapshot template history"},
	{"daemon/system", "posix/boundary script fault event secret workspace workspace/driver egress posix/guard config registry api profile provider/... snapshot snapshot/bucket template history tool tool/all tool/snapshots mcpserver stage bootstrap tool/skill"},
	{"daemon/command", "internal/scratch eval eval/suite codeblock fault event workspace workspace/driver registry profile config provider/remote daemon/system internal/near tool tool/snapshots mcpserver snapshot history stage bootstrap"},
	{"daemon", "workspace/driver daemon/command"},
	{"cmd/croft", "daemon"},
	{"cmd/croft-guest", "guest"},
	{"bench", "fault secret workspace workspace/driver workspace/workspacetest posix/... provider/... registry snapshot tool/... internal/..."},
}

// leaves are small helpers that import nothing of this module.
const leaves = "internal/atomicfile internal/diskreserve internal/flockfile internal/keylock internal/live internal/sleep internal/strictyaml internal/textdiff"

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		allowed, ok := row(p.dir)
		if !ok {
			t.Errorf("package %s has no row in the plan of the house; add one to house_test.go, saying what it may import", p.dir)
			continue
		}
		for imp, file := range p.imports {
			if !slices.ContainsFunc(allowed, func(pattern string) bool { return covers(pattern, imp) }) {
				t.Errorf("%s imports %s; %s may import only: %s", file, imp, p.dir, strings.Join(allowed, " "))
			}
		}
	}
}

// TestRowsAreUsed keeps the table free of rows that describe nothing.
func TestRowsAreUsed(t *testing.T) {
	dirs := packages(t)
	for _, r := range may {
		if !slices.ContainsFunc(dirs, func(p pkg) bool { return covers(r.pkg, p.dir) }) {
			t.Errorf("the row %q names no package", r.pkg)
		}
	}
}

func TestEveryPackageTellsItsStory(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.docs) != 1 {
			t.Errorf("package %s has %d package comments (%v), want one", p.dir, len(p.docs), p.docs)
		}
	}
}

// TestLightImports holds what someone who imports the contract pays for it.
func TestLightImports(t *testing.T) {
	heavy := []string{"modernc.org/", "github.com/jackc/", "gocloud.dev", "github.com/spf13/", "github.com/danielgtaylor/",
		"github.com/moby/", "github.com/docker/", "k8s.io/", "github.com/aws/", "google.golang.org/grpc"}
	for _, p := range []string{"fault", "event", "workspace/driver", "workspace", "posix/boundary", "profile", "provider/memory"} {
		out, err := exec.Command("go", "list", "-deps", "./"+p).Output()
		if err != nil {
			t.Fatalf("go list %s: %v", p, err)
		}
		for dep := range strings.Lines(string(out)) {
			for _, h := range heavy {
				if strings.HasPrefix(dep, h) {
					t.Errorf("%s drags in %s", p, strings.TrimSpace(dep))
				}
			}
		}
	}
}

type pkg struct {
	dir     string            // relative to the module
	imports map[string]string // package of ours -> a file that imports it
	docs    []string          // files with a package comment
}

// packages parses every package of the module but nested modules and testdata.
func packages(t *testing.T) []pkg {
	t.Helper()
	found := map[string]*pkg{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipDir(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		add(found, filepath.ToSlash(name), f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []pkg
	for _, p := range found {
		list = append(list, *p)
	}
	slices.SortFunc(list, func(a, b pkg) int { return strings.Compare(a.dir, b.dir) })
	return list
}

func skipDir(name string) bool {
	if name == "." {
		return false
	}
	base := filepath.Base(name)
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || name == "bin" {
		return true
	}
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	return err == nil
}

func add(found map[string]*pkg, name string, f *ast.File) {
	dir := path.Dir(name)
	if dir == "." {
		return
	}
	p := found[dir]
	if p == nil {
		p = &pkg{dir: dir, imports: map[string]string{}}
		found[dir] = p
	}
	if f.Doc != nil && !ast.IsGenerated(f) {
		p.docs = append(p.docs, name)
	}
	for _, spec := range f.Imports {
		if imp, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ours {
			p.imports[imp] = name
		}
	}
}

func row(dir string) ([]string, bool) {
	for _, r := range may {
		if covers(r.pkg, dir) {
			return strings.Fields(r.imports + " " + leaves), true
		}
	}
	return nil, false
}

func covers(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(name, prefix+"/")
	}
	match, err := path.Match(pattern, name)
	return err == nil && match
}
