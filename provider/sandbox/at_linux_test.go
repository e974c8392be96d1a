package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/sandbox/internal/rootfs"
	"github.com/croft-run/croft/workspace/driver"
)

// TestWorkspaceAtAPath shows a workspace from a template at a path of the host, in
// a directory that is shown read-only, with a writable one beside it.
func TestWorkspaceAtAPath(t *testing.T) {
	if here(driver.IsolationBubblewrap, driver.IsolationProcess, driver.IsolationGVisor) {
		return // no overlay, or one with a kernel of its own below it
	}
	project := t.TempDir()
	for _, dir := range []string{"template", "out/ws", "out/artifacts"} {
		if err := os.MkdirAll(filepath.Join(project, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(project, "template", "a.txt"), []byte("template"), 0o644); err != nil {
		t.Fatal(err)
	}
	at, artifacts := filepath.Join(project, "out/ws"), filepath.Join(project, "out/artifacts")
	cfg, err := json.Marshal(Options{Throwaway: true, Template: filepath.Join(project, "template"), At: at,
		Binds: []Bind{{Dir: artifacts}, {Dir: project, ReadOnly: true}}})
	if err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, t.TempDir())
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Life.Destroy(t.Context()) // checked below
	if ws.Traits.Root != at {
		t.Errorf("the root is %s, want %s", ws.Traits.Root, at)
	}
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: `pwd; cat a.txt; echo changed > a.txt; echo new > ` + artifacts + `/log; ` +
		`cat ` + project + `/template/a.txt; echo no > ` + project + `/no 2>/dev/null && echo wrote; true`})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Stdout), at+"\ntemplatetemplate"; got != want {
		t.Errorf("inside: %q %q, want %q", got, res.Stderr, want)
	}
	if data, err := os.ReadFile(filepath.Join(artifacts, "log")); err != nil || string(data) != "new\n" {
		t.Errorf("what was written beside is %q, %v", data, err)
	}
	if entries, _ := os.ReadDir(at); len(entries) != 0 {
		t.Errorf("on the host the mount point holds %v", entries)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWorkspaceIsTheHome opens a workspace that is the home of a user with a given name.
func TestWorkspaceIsTheHome(t *testing.T) {
	if here(driver.IsolationProcess) {
		return // nothing is mounted
	}
	p := newProvider(t, t.TempDir())
	ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: json.RawMessage(`{"user": "user", "at": "/home/user"}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ws.Life.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if ws.Traits.Root != "/home/user" {
		t.Errorf("the root is %s", ws.Traits.Root)
	}
	res, err := ws.Shell.Run(t.Context(), driver.Command{Script: `echo x > ~/made; cd; pwd; id -un; id -gn; echo $HOME $USER $LOGNAME; ls /home`})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(res.Stdout), "/home/user\nuser\nuser\n/home/user user user\nuser\n"; got != want {
		t.Errorf("inside: %q %q, want %q", got, res.Stderr, want)
	}
	if _, err := ws.FS.Stat(t.Context(), "made", &driver.StatOptions{}); err != nil {
		t.Error(err)
	}
}

// TestPathsThatAreRefused tries paths and directories that would uncover the
// system, or whose order would decide what is seen.
func TestPathsThatAreRefused(t *testing.T) {
	if here(driver.IsolationProcess) {
		return // nothing is mounted
	}
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(outer, "link")); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, t.TempDir())
	for name, opts := range map[string]Options{
		"relative":                     {At: "work"},
		"the system":                   {At: "/etc/x"},
		"in the home":                  {At: rootfs.HomeOf(workloadName) + "/work"},
		"root":                         {User: "root"},
		"no name of a user":            {User: "a:b"},
		"another home":                 {At: "/home/other"},
		"inside a writable directory":  {Binds: []Bind{{Dir: outer}, {Dir: inner, ReadOnly: true}}},
		"the workspace in a writable":  {At: inner, Binds: []Bind{{Dir: outer}}},
		"through a symlink":            {At: filepath.Join(outer, "link", "srv"), Binds: []Bind{{Dir: outer, ReadOnly: true}}},
		"what is not there, read-only": {At: filepath.Join(outer, "none"), Binds: []Bind{{Dir: outer, ReadOnly: true}}},
		"twice":                        {Binds: []Bind{{Dir: outer, ReadOnly: true}, {Dir: outer, ReadOnly: true}}},
	} {
		cfg, err := json.Marshal(opts)
		if err != nil {
			t.Fatal(err)
		}
		ws, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Config: cfg})
		if fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, want %v", name, err, fault.InvalidArgument)
		}
		if err == nil {
			ws.Life.Destroy(t.Context()) // it should not be there
		} else if strings.Contains(err.Error(), "panic") {
			t.Error(err)
		}
	}
}
