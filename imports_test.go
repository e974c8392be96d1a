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
	{"auth", "fault"},
	{"event", "fault"},
	{"secret", "fault"},
	{"tool/profile", ""},
	{"internal/strictjson", "fault"},
	{"workspace/driver", "fault event internal/strictjson"},
	{"internal/search", "fault workspace/driver"},
	{"internal/outputs", "workspace/driver"},
	{"internal/plaintext", ""},
	{"internal/atomicfile", ""},
	{"internal/diskreserve", ""},
	{"internal/flockfile", ""},
	{"internal/sqlitetx", ""},
	{"internal/keylock", ""},
	{"internal/lazyregexp", ""},
	{"internal/duplex", ""},
	{"internal/suggest", ""},
	{"internal/autorun", ""},
	{"internal/locktmp", ""},
	{"internal/gclater", ""},
	{"internal/background", "fault"},
	{"internal/live", ""},
	{"internal/sleep", ""},
	{"internal/sparse", ""},
	{"internal/strictyaml", ""},
	{"internal/textdiff", ""},
	{"internal/tail", ""},
	{"internal/version", ""},
	{"interp/isolate", "fault workspace/driver internal/search internal/outputs"},
	{"interp/isolate/internal/meter", ""},
	{"interp/codeblock", "fault workspace workspace/driver interp/isolate"},
	{"interp/jupyter", "fault workspace/driver internal/outputs"},
	{"internal/testenv", ""},
	{"internal/testreport", "internal/testenv"},
	{"internal/testrootfs", "internal/testenv"},
	{"internal/binsize", ""},
	{"internal/release", ""},
	{"internal/words", ""},
	{"internal/scripted", ""},
	{"workspace", "fault event workspace/driver internal/search internal/suggest"},
	{"workspace/workspacetest", "fault workspace workspace/driver"},
	{"egress", "fault event secret workspace/driver"},
	{"egress/proxies", "fault egress workspace/driver"},
	{"host/files", "fault workspace/driver internal/search"},
	{"host/toolchain", "fault internal/suggest secret"},
	{"host/process", "fault event workspace/driver"},
	{"host/cmdpolicy", "fault workspace/driver host/files"},
	{"host/cgroup/cgroupv1", ""},
	{"host/cgroup", "fault host/cgroup/cgroupv1"},
	{"host/wsdir", "fault workspace/driver host/files"},
	{"snapshot", "auth fault secret workspace/driver host/files internal/search internal/autorun"},
	{"snapshot/template", "auth fault workspace/driver host/files snapshot"},
	{"internal/blobs", "fault"},
	{"snapshot/bucket", "fault snapshot internal/blobs"},
	{"host/guestproto/guestpb", ""},
	{"host/guestproto", "fault workspace/driver host/guestproto/guestpb"},
	{"host/guestbin", "fault"},
	{"host/guestbin/internal/pack", ""},
	{"host/guestd/internal/gensyscalls", ""},
	{"host/guestd", "fault workspace/driver host/files host/process host/guestproto host/guestproto/guestpb"},
	{"host/guest", "fault workspace/driver host/process host/guestproto host/guestproto/guestpb internal/duplex internal/tail"},
	{"host/guest/supervise", "fault workspace/driver host/wsdir host/guest"},
	{"host/guest/remote", "fault workspace/driver host/wsdir host/cmdpolicy host/guest host/guest/supervise host/guestproto snapshot"},
	{"internal/shellwire", "fault workspace/driver"},
	{"internal/shelltest", "provider/memory provider/sandbox fault workspace/driver host/process provider/local"},
	{"client", "fault workspace/driver internal/duplex internal/shellwire"},
	{"provider/all", "event egress workspace workspace/driver provider/memory provider/local provider/filestore provider/sandbox provider/docker provider/ssh provider/e2b snapshot"},
	{"provider/e2b", "fault workspace/driver host/cmdpolicy host/wsdir host/guest host/guest/remote host/guestproto host/guestbin snapshot egress internal/tail server/e2b/envd/envdpb"},
	{"provider/*", "fault event workspace/driver host/files host/toolchain host/process host/cmdpolicy host/cgroup host/wsdir host/guest host/guest/supervise host/guest/remote host/guestproto host/guestbin snapshot egress egress/proxies secret internal/blobs internal/tail internal/sqlitetx internal/autorun"},
	{"provider/wrap/cmdpolicy", "workspace/driver host/cmdpolicy"},
	{"provider/wrap/interpreters", "workspace/driver interp/isolate interp/jupyter"},
	{"provider/wrap/concurrency", "fault workspace/driver"},
	{"provider/wrap/limit", "fault workspace/driver"},
	{"provider/wrap/pool", "fault workspace/driver"},
	{"provider/wrap/record", "fault workspace/driver"},
	{"provider/wrap/retry", "fault workspace/driver"},
	{"provider/wrap", ""},
	{"daemon/config", "egress fault internal/suggest secret tool/profile workspace/driver auth"},
	{"registry", "auth fault event workspace workspace/driver internal/background internal/suggest internal/sqlitetx"},
	{"snapshot/history", "fault workspace workspace/driver snapshot internal/atomicfile internal/textdiff"},
	{"prepare/stage", "fault workspace workspace/driver internal/blobs internal/search"},
	{"prepare/bootstrap", "fault workspace workspace/driver prepare/stage"},
	{"tool", "auth fault event secret tool/profile workspace workspace/driver internal/keylock internal/plaintext internal/strictjson"},
	{"tool/all", "tool tool/..."},
	{"tool/ast/grammar", "fault"},
	{"tool/ast", "fault workspace workspace/driver tool tool/ast/grammar"},
	{"tool/verifytool", "fault tool/profile workspace workspace/driver tool tool/verify"},
	{"tool/verify", "fault tool/profile workspace workspace/driver internal/plaintext"},
	{"tool/snapshots", "fault workspace workspace/driver snapshot snapshot/history tool"},
	{"tool/lsp", "fault workspace workspace/driver tool tool/verify internal/tail"},
	{"tool/skill", "fault workspace workspace/driver prepare/stage prepare/bootstrap tool"},
	{"tool/*", "fault event secret tool/profile workspace workspace/driver tool internal/search"},
	{"eval/session", "fault"},
	{"eval/agent", "fault secret workspace/driver eval/session"},
	{"eval/replay", "fault secret"},
	{"eval/judge", "fault"},
	{"eval/suite", "fault event workspace/driver host/files internal/suggest internal/locktmp"},
	{"eval", "internal/diskreserve fault event secret workspace workspace/driver snapshot host/files host/process host/toolchain eval/session eval/agent eval/suite eval/judge eval/replay internal/locktmp internal/tail"},
	{"eval/evaltest", "eval eval/suite provider/sandbox"},
	{"web/build", ""},
	{"server/httpguard", "fault auth event"},
	{"server/mcpserver", "fault event workspace workspace/driver tool server/httpguard auth"},
	{"server/portproxy", "fault"},
	{"server/httplog", "workspace/driver"},
	{"server/replica", "fault server/httplog"},
	{"daemon/telemetry", "fault server/httplog"},
	{"server/rest", "server/httplog client prepare/stage fault event workspace workspace/driver registry tool/profile internal/shellwire server/httpguard snapshot snapshot/template snapshot/history auth"},
	{"web", ""},
	{"server/page", "auth client event fault internal/strictjson server/httpguard server/httplog"},
	{"daemon/app", "internal/background internal/blobs eval server/page web daemon/telemetry server/httplog internal/diskreserve client host/files interp/isolate fault event secret workspace workspace/driver egress host/cmdpolicy daemon/config registry server/rest tool/profile provider/... snapshot snapshot/bucket snapshot/template snapshot/history tool tool/all tool/snapshots server/mcpserver prepare/stage prepare/bootstrap tool/skill auth server/httpguard daemon/backup server/e2b server/e2b/envd server/replica"},
	{"daemon/cli", "daemon/setup host/guestbin host/process host/toolchain daemon/telemetry internal/locktmp eval eval/suite interp/codeblock fault event workspace workspace/driver registry tool/profile daemon/config client daemon/app internal/suggest tool tool/snapshots server/mcpserver snapshot snapshot/history prepare/stage prepare/bootstrap auth daemon/backup daemon/work internal/plaintext"},
	{"daemon/work", "fault secret workspace host/cmdpolicy host/process internal/strictjson"},
	{"server/e2b/envd/envdpb", ""},
	{"server/e2b/envd", "fault workspace workspace/driver server/e2b/envd/envdpb server/httplog"},
	{"daemon/backup", "fault"},
	{"daemon/setup", "fault"},
	{"server/e2b", "server/portproxy auth event fault host/files internal/atomicfile internal/sleep internal/strictjson registry server/e2b/envd server/httpguard server/httplog snapshot snapshot/template workspace workspace/driver"},
	{"daemon", "workspace/driver daemon/cli"},
	{"cmd/croft", "daemon"},
	{"internal/release/manuals", "daemon/cli"},
	{"cmd/croft-guest", "host/guestd"},
	{"examples/server", "client workspace"},
	{"examples/untrusted", "provider/sandbox workspace workspace/driver"},
	{"examples/agent-loop", "provider/sandbox tool workspace"},
	{"e2e", ""},
	{"sim", ""},
	{"bench", "client fault secret workspace workspace/driver workspace/workspacetest host/... provider/... registry snapshot tool/... internal/..."},
}

// leaves are small helpers that import nothing of this module.
const leaves = "internal/atomicfile internal/diskreserve internal/flockfile internal/gclater internal/keylock internal/lazyregexp internal/live internal/sleep internal/sparse internal/strictyaml internal/textdiff internal/version"

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		allowed, ok := row(p.dir)
		if !ok {
			t.Errorf("package %s has no row in the import table; add one to imports_test.go that says what it may import", p.dir)
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
	for _, p := range []string{"fault", "event", "workspace/driver", "workspace", "host/files", "tool/profile", "provider/memory"} {
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
