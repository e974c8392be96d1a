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
// package alone; "x/..." for all below x; "*" in a row's name for one element of
// packages without a row of their own. A package that no row names fails, so a
// new one begins by finding its place here. Every package may import those of
// leaves. Files of tests are free.
var may = []struct{ pkg, imports string }{
	{"internal/atomicfile", ""},
	{"internal/diskreserve", ""},
	{"internal/flockfile", ""},
	{"internal/keylock", ""},
	{"internal/lazyregexp", ""},
	{"internal/paths", ""},
	{"internal/shellword", ""},
	{"internal/gclater", ""},
	{"internal/live", ""},
	{"internal/sleep", ""},
	{"internal/sparse", ""},
	{"internal/strictyaml", ""},
	{"internal/textdiff", ""},
	{"internal/version", ""},
	{"internal/answer", ""},
	{"fault", ""},
	{"auth", "fault"},
	{"event", "fault"},
	{"secret", "fault"},
	{"internal/profile", ""},
	{"internal/strictjson", "fault"},
	{"workspace/driver", "fault internal/strictjson"},
	{"internal/search", "fault workspace/driver"},
	{"internal/outputs", "workspace/driver"},
	{"internal/plaintext", ""},
	{"internal/sqlitetx", ""},
	{"internal/duplex", ""},
	{"internal/suggest", ""},
	{"internal/autorun", ""},
	{"internal/locktmp", ""},
	{"internal/background", "fault"},
	{"internal/tail", ""},
	{"interp/isolate", "fault workspace/driver internal/search internal/outputs"},
	{"interp/isolate/internal/meter", ""},
	{"interp/jupyter", "fault workspace/driver internal/outputs"},
	{"internal/testenv", ""},
	{"internal/testrootfs", "internal/testenv"},
	{"internal/testmodel", ""},
	{"workspace", "fault event workspace/driver internal/search internal/suggest"},
	{"interp/codeblock", "fault workspace workspace/driver interp/isolate"},
	{"workspace/workspacetest", "fault workspace workspace/driver"},
	{"internal/egress", "fault event secret workspace/driver"},
	{"internal/egress/proxies", "fault internal/egress workspace/driver"},
	{"internal/host/files", "fault workspace/driver internal/search"},
	{"internal/host/toolchain", "fault internal/suggest secret"},
	{"internal/host/process", "fault workspace/driver"},
	{"internal/host/cmdpolicy", "fault workspace/driver internal/host/files"},
	{"internal/host/cgroup/cgroupv1", ""},
	{"internal/host/cgroup", "fault internal/host/cgroup/cgroupv1"},
	{"internal/host/wsdir", "fault workspace/driver internal/host/files"},
	{"internal/changes", "workspace/driver internal/autorun"},
	{"internal/hostgit", "fault"},
	{"snapshot", "internal/hostgit internal/answer internal/changes auth fault secret workspace/driver internal/host/files internal/search internal/autorun"},
	{"snapshot/template", "auth fault workspace/driver internal/host/files snapshot"},
	{"internal/blobs", "fault"},
	{"internal/s3blob", "fault"},
	{"snapshot/bucket", "fault snapshot internal/blobs internal/s3blob"},
	{"internal/host/guestproto/guestpb", ""},
	{"internal/host/guestproto", "fault workspace/driver internal/host/guestproto/guestpb"},
	{"internal/host/guestbin", "fault"},
	{"internal/host/guestbin/internal/pack", ""},
	{"internal/host/guestd/internal/gensyscalls", ""},
	{"internal/host/guestd", "fault workspace/driver internal/host/files internal/host/process internal/host/guestproto internal/host/guestproto/guestpb"},
	{"internal/host/guest", "fault workspace/driver internal/host/process internal/host/guestproto internal/host/guestproto/guestpb internal/duplex internal/tail"},
	{"internal/host/guest/supervise", "fault workspace/driver internal/host/wsdir internal/host/guest"},
	{"internal/host/guest/remote", "fault workspace/driver internal/host/wsdir internal/host/cmdpolicy internal/host/guest internal/host/guest/supervise internal/host/guestproto snapshot"},
	{"internal/shellwire", "fault workspace/driver"},
	{"client", "event fault internal/answer internal/changes workspace/driver internal/duplex internal/shellwire internal/tail"},
	{"provider/sandbox/internal/entry", ""},
	{"provider/sandbox/internal/gitdir", "fault secret workspace/driver internal/autorun internal/host/files internal/host/guestproto internal/host/wsdir provider/sandbox/internal/entry"},
	{"provider/sandbox/internal/protect", "event fault internal/autorun internal/host/guest internal/host/guest/supervise internal/host/guestproto internal/host/wsdir provider/sandbox/internal/entry provider/sandbox/internal/gitdir"},
	{"provider/sandbox/internal/mount", "fault workspace/driver provider/sandbox/internal/entry"},
	{"provider/sandbox/internal/rootfs", "fault internal/host/guestproto internal/host/toolchain"},
	{"provider/sandbox", "fault event workspace/driver internal/host/files internal/host/toolchain internal/host/process internal/host/cgroup internal/host/wsdir internal/host/guest internal/host/guest/supervise internal/host/guestproto internal/host/guestbin snapshot internal/egress internal/egress/proxies provider/sandbox/internal/gitdir provider/sandbox/internal/mount provider/sandbox/internal/protect provider/sandbox/internal/rootfs"},
	{"provider/*", "fault event workspace/driver internal/host/files internal/host/toolchain internal/host/process internal/host/cmdpolicy internal/host/cgroup internal/host/wsdir internal/host/guest internal/host/guest/supervise internal/host/guest/remote internal/host/guestproto internal/host/guestbin snapshot internal/egress internal/egress/proxies secret internal/blobs internal/tail internal/sqlitetx"},
	{"internal/testshell", "provider/memory provider/sandbox fault workspace/driver internal/host/process provider/local"},
	{"internal/wrap/cmdpolicy", "workspace/driver internal/host/cmdpolicy"},
	{"internal/wrap/interpreters", "workspace/driver interp/isolate interp/jupyter"},
	{"internal/wrap/concurrency", "fault workspace/driver"},
	{"internal/wrap/limit", "fault workspace/driver"},
	{"internal/wrap/pool", "fault workspace/driver"},
	{"internal/wrap/record", "fault workspace/driver"},
	{"internal/wrap/retry", "fault workspace/driver"},
	{"internal/wrap", ""},
	{"internal/daemon/config", "internal/egress fault internal/suggest secret internal/profile workspace/driver auth"},
	{"registry", "auth fault event workspace workspace/driver internal/background internal/suggest internal/sqlitetx"},
	{"internal/history", "fault workspace workspace/driver snapshot"},
	{"prepare/stage", "internal/answer fault workspace workspace/driver internal/blobs internal/search"},
	{"prepare/bootstrap", "fault workspace workspace/driver prepare/stage"},
	{"tool", "auth fault event secret internal/profile workspace workspace/driver internal/plaintext internal/strictjson"},
	{"internal/tool/ast/grammar", "fault"},
	{"internal/tool/ast", "fault workspace workspace/driver tool internal/tool/ast/grammar"},
	{"internal/tool/verify", "fault internal/profile workspace workspace/driver internal/plaintext internal/tail"},
	{"internal/tool/verifytool", "fault internal/profile workspace workspace/driver tool internal/tool/verify"},
	{"internal/tool/snapshots", "fault workspace workspace/driver snapshot internal/history tool"},
	{"internal/tool/lsp", "fault workspace workspace/driver tool internal/tool/verify internal/tail"},
	{"tool/skill", "fault workspace workspace/driver prepare/stage prepare/bootstrap tool"},
	{"internal/tool/index", "fault workspace workspace/driver tool"},
	{"tool/*", "fault workspace workspace/driver tool"},
	{"tool/all", "tool tool/... internal/tool/..."},
	{"eval/session", "fault"},
	{"internal/eval/agent", "fault secret workspace/driver eval/session"},
	{"internal/eval/replay", "fault secret"},
	{"internal/eval/judge", "fault"},
	{"eval/suite", "fault workspace/driver internal/host/files internal/suggest internal/locktmp internal/tail"},
	{"eval", "internal/answer fault event secret workspace workspace/driver snapshot internal/host/files internal/host/process internal/host/toolchain eval/session internal/eval/agent eval/suite internal/eval/judge internal/eval/replay internal/locktmp internal/tail provider/sandbox"},
	{"eval/evaltest", "eval eval/suite provider/sandbox"},
	{"internal/web/build", ""},
	{"internal/server/advice", "fault"},
	{"internal/server/httpguard", "fault auth event"},
	{"internal/server/mcpserver", "internal/server/advice fault event workspace/driver tool internal/server/httpguard auth"},
	{"internal/server/portproxy", "fault internal/server/httpguard"},
	{"internal/server/httplog", "fault workspace/driver"},
	{"internal/server/replica", "fault internal/server/httplog"},
	{"internal/daemon/telemetry", "fault internal/server/httplog"},
	{"internal/server/rest", "internal/server/advice internal/server/httplog client prepare/stage fault event workspace workspace/driver registry internal/profile internal/shellwire internal/server/httpguard snapshot snapshot/template internal/history auth"},
	{"internal/web", ""},
	{"internal/server/page", "internal/server/advice auth client event fault internal/strictjson internal/server/httpguard internal/server/httplog"},
	{"internal/daemon/work", "internal/eval/agent fault secret workspace internal/host/cmdpolicy internal/host/process internal/strictjson provider/local provider/sandbox"},
	{"internal/server/e2b/envd/envdpb", ""},
	{"provider/e2b", "fault workspace/driver internal/host/cmdpolicy internal/host/wsdir internal/host/guest internal/host/guest/remote internal/host/guestproto internal/host/guestbin snapshot internal/egress internal/tail internal/server/e2b/envd/envdpb"},
	{"provider/all", "event internal/egress workspace/driver provider/memory provider/local provider/filestore provider/sandbox provider/docker provider/ssh provider/e2b snapshot"},
	{"internal/server/e2b/envd", "fault workspace workspace/driver internal/server/e2b/envd/envdpb internal/server/httplog"},
	{"internal/daemon/datadir", "fault internal/daemon/config"},
	{"internal/daemon/backup", "fault internal/daemon/config internal/daemon/datadir registry snapshot workspace/driver"},
	{"internal/daemon/evals", "client eval event fault internal/daemon/config internal/daemon/datadir internal/egress internal/host/files internal/server/mcpserver provider/sandbox secret tool tool/all workspace workspace/driver"},
	{"internal/daemon/images", "fault provider/docker snapshot snapshot/template workspace workspace/driver"},
	{"internal/daemon/gc", "fault internal/background internal/daemon/backup internal/daemon/config internal/daemon/images provider/docker registry snapshot"},
	{"internal/daemon/tenants", "auth client internal/daemon/config registry secret workspace/driver"},
	{"internal/daemon/admission", "auth fault internal/daemon/config internal/daemon/tenants internal/egress provider/all provider/sandbox secret snapshot snapshot/template workspace workspace/driver"},
	{"internal/daemon/setup", "fault"},
	{"internal/server/e2b", "internal/server/advice internal/server/portproxy auth event fault internal/host/files internal/strictjson registry internal/server/e2b/envd internal/server/httpguard internal/server/httplog snapshot snapshot/template workspace workspace/driver provider/sandbox"},
	{"internal/daemon/app", "internal/daemon/gc internal/daemon/images internal/daemon/datadir internal/daemon/evals internal/daemon/tenants internal/daemon/admission internal/background internal/blobs internal/server/page internal/web internal/daemon/telemetry internal/server/httplog client internal/host/files interp/isolate fault event secret workspace workspace/driver internal/egress internal/host/cmdpolicy internal/daemon/config registry internal/server/rest internal/profile provider/... internal/wrap/... snapshot snapshot/bucket snapshot/template internal/history tool tool/all internal/tool/snapshots internal/server/mcpserver prepare/stage prepare/bootstrap tool/skill auth internal/server/httpguard internal/daemon/backup internal/server/e2b internal/server/e2b/envd internal/server/replica"},
	{"internal/daemon/cli/console", "client event fault internal/daemon/admission internal/daemon/app internal/daemon/config internal/daemon/datadir internal/daemon/work internal/host/process internal/host/toolchain internal/server/advice internal/suggest provider/sandbox registry snapshot workspace workspace/driver"},
	{"internal/daemon/cli/changecmd", "client fault internal/daemon/app internal/daemon/cli/console internal/history snapshot workspace"},
	{"internal/daemon/cli/wscmd", "client fault internal/daemon/app internal/daemon/cli/changecmd internal/daemon/cli/console internal/daemon/config internal/daemon/work internal/history internal/profile internal/suggest prepare/bootstrap prepare/stage provider/all provider/sandbox registry snapshot workspace workspace/driver"},
	{"internal/daemon/cli/evalcmd", "eval eval/suite fault internal/daemon/app internal/daemon/cli/console internal/daemon/config internal/daemon/evals internal/host/toolchain internal/locktmp internal/server/mcpserver provider/local provider/sandbox workspace"},
	{"internal/daemon/cli/workcmd", "client event fault internal/daemon/app internal/daemon/cli/changecmd internal/daemon/cli/console internal/daemon/config internal/daemon/work internal/history internal/host/process internal/host/toolchain internal/plaintext internal/profile internal/suggest provider/local provider/sandbox snapshot workspace workspace/driver"},
	{"internal/daemon/cli/servercmd", "client event fault internal/daemon/app internal/daemon/backup internal/daemon/cli/console internal/daemon/config internal/daemon/datadir internal/daemon/gc internal/daemon/images internal/daemon/setup internal/daemon/telemetry internal/daemon/work internal/suggest provider/sandbox provider/ssh workspace/driver"},
	{"internal/daemon/cli", "client fault internal/daemon/app internal/daemon/cli/console internal/daemon/cli/evalcmd internal/daemon/cli/servercmd internal/daemon/cli/workcmd internal/daemon/cli/wscmd internal/daemon/setup internal/daemon/work internal/history internal/host/guestbin internal/host/toolchain internal/server/mcpserver internal/suggest internal/tool/snapshots interp/codeblock provider/sandbox registry tool workspace workspace/driver"},
	{"daemon", "workspace/driver internal/daemon/cli"},
	{"cmd/croft", "daemon"},
	{"cmd/croft-guest", "internal/host/guestd"},
	{"examples/server", "client workspace"},
	{"examples/untrusted", "provider/sandbox workspace workspace/driver"},
	{"examples/agent-loop", "provider/sandbox tool workspace"},
}

// leaves are small helpers that import nothing of this module.
const leaves = "internal/atomicfile internal/diskreserve internal/flockfile internal/gclater internal/keylock internal/lazyregexp internal/live internal/paths internal/shellword internal/sleep internal/sparse internal/strictyaml internal/textdiff internal/version"

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		at, ok := rowOf(p.dir)
		var allowed []string
		for _, r := range may {
			if r.pkg == at {
				allowed = strings.Fields(r.imports + " " + leaves)
			}
		}
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

// TestRowsAreUsed keeps the table free of rows that describe nothing, of permissions that nobody
// uses, and of arrows that go down.
func TestRowsAreUsed(t *testing.T) {
	used, seen := map[string]map[string]bool{}, map[string]int{} // by row
	for i, r := range may {
		used[r.pkg], seen[r.pkg] = nil, i
	}
	for _, p := range packages(t) {
		at, ok := rowOf(p.dir)
		if !ok {
			continue // TestImports says so
		}
		if used[at] == nil {
			used[at] = map[string]bool{}
		}
		for imp, file := range p.imports {
			used[at][imp] = true
			if to, ok := rowOf(imp); ok && seen[to] > seen[at] {
				t.Errorf("%s imports %s, whose row is below that of %s", file, imp, at)
			}
		}
	}
	for _, r := range may {
		if used[r.pkg] == nil {
			t.Errorf("the row %q names no package", r.pkg)
		}
		for name := range strings.FieldsSeq(r.imports) {
			needed := false
			for imp := range used[r.pkg] {
				needed = needed || covers(name, imp)
			}
			if !needed || slices.Contains(strings.Fields(leaves), name) {
				t.Errorf("the row %q allows %s, which it need not", r.pkg, name)
			}
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
		"github.com/moby/", "github.com/docker/", "k8s.io/", "github.com/minio/", "google.golang.org/grpc"}
	for _, p := range []string{"fault", "event", "workspace/driver", "workspace", "internal/host/files", "internal/profile", "provider/memory"} {
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

// rowOf returns the row of a package: that of its name, or else the first whose pattern covers it.
func rowOf(dir string) (string, bool) {
	pattern := ""
	for _, r := range may {
		if r.pkg == dir {
			return dir, true
		}
		if pattern == "" && covers(r.pkg, dir) {
			pattern = r.pkg
		}
	}
	return pattern, pattern != ""
}

func covers(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(name, prefix+"/")
	}
	match, err := path.Match(pattern, name)
	return err == nil && match
}
