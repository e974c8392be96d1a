package cmdpolicy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/workspace/driver"
)

// workspace makes a tree with a file outside, and the guard of a preset for it.
func workspace(t *testing.T, opts *Options) (*Checker, string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "ws")
	for _, d := range []string{"ws/sub/deep", "out", "ws/https:"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"ws/a.txt", "ws/..foo", "ws/README.md", "out/secret", "ws/sub/tool"} {
		if err := os.WriteFile(filepath.Join(base, f), []byte("x"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"out": "../out", "abs": filepath.Join(base, "out"), "in": "sub", "absin": filepath.Join(dir, "sub"), "secret": "../out/secret",
		"dangling": "nowhere", "danglingout": "../out/nowhere", "loop": "loop", "deeplink": "sub/deep", "self": ".", "null": "/dev/null",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := files.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	opts.Root, opts.Files = dir, root
	return mustNew(t, opts), dir
}

func TestPathArguments(t *testing.T) {
	g, dir := workspace(t, Local())
	tests := []struct{ arg, want string }{
		{"a.txt", ""}, {".", ""}, {"", ""}, {"./a.txt", ""}, {"sub/deep/../../a.txt", ""}, {"no/such/file", ""}, {"..foo", ""}, {"./..foo", ""}, {"...", ""},
		{dir, ""}, {dir + "/a.txt", ""}, {dir + "/new/file", ""}, {dir + "/sub/../a.txt", ""}, {"in/x", ""}, {"absin/x", ""}, {"self/a.txt", ""}, {"deeplink/../x", ""},
		{"dangling", ""}, {"a.txt/child", ""}, {"README.md/x", ""}, {"-", ""}, {"--", ""}, {"-v", ""}, {"--verbose", ""}, {"null", ""},
		{"https://example.com/../x", ""}, {"https://example.com/?next=/etc/passwd", ""}, {"--url=https://example.com/a?b=/etc", ""}, {"git@github.com:a/b.git", ""},
		{"HEAD~1", ""}, {"HEAD~1:a.txt", ""}, {"--format=json/pretty", ""}, {"s/a/b/", ""}, {"-Isrc/lib", ""}, {"-Lno/such", ""}, {"-DX=a/b", ""}, {"-j4", ""},
		{"@scope/pkg", ""}, {"./...", ""}, {"a=b=c", ""}, {"==", ""}, {strings.Repeat("long ", 60) + "message", ""}, {strings.Repeat("x", 5000), ""},
		{"fix: set x=/etc/y in the config", ""}, {"/dev/null", ""}, {"/dev/fd/3", ""}, {"> &&", ""}, {strings.Repeat("=", 5000), ""},

		{"/etc/hosts", TextOutside}, {"/nonexistent/x", TextOutside}, {"/", TextOutside}, {"..", TextOutside}, {"../../etc/passwd", TextOutside}, {"../ws2", TextOutside},
		{"sub/../../out/secret", TextOutside}, {"no/../../x", TextOutside}, {dir + "/../out", TextOutside}, {dir + "2", TextOutside}, {"//etc/passwd", TextOutside},
		{"secret", TextResolvesOutside}, {"out/secret", TextResolvesOutside}, {"out/new", TextResolvesOutside}, {"abs/secret", TextResolvesOutside}, {"danglingout", TextResolvesOutside},
		{"out/../a.txt", TextResolvesOutside}, {"self/out/secret", TextResolvesOutside}, {dir + "/out/secret", TextResolvesOutside}, {"deeplink/../../../x", TextOutside},
		{"loop", TextUnresolvable}, {"loop/x", TextUnresolvable},
		{"~", TextHome}, {"~/x", TextHome}, {"~root", TextHome}, {"OUT=~/secret", TextHome}, {"a=~/x", TextHome}, {"--file=~/x", TextHome}, {"-o~/x", TextHome}, {"-xzf~/x", TextHome},
		{"OUT=/etc/passwd", TextOutside}, {"--file=/etc/x", TextOutside}, {"A=B=/etc/passwd", TextOutside}, {"=/etc/passwd", TextOutside}, {"--x=../../y", TextOutside}, {"x=secret", TextResolvesOutside},
		{"-I/abs", TextOutside}, {"-I../up", TextOutside}, {"-xzf/abs", TextOutside}, {"-C..", TextOutside}, {"-C../x", TextOutside}, {"-Iout", TextResolvesOutside}, {"--output=/outside/file", TextOutside},
		{"file:///etc/passwd", TextOutside}, {"FILE:///etc/passwd", TextOutside}, {"@/etc/passwd", TextOutside}, {"f=@/etc/passwd", TextOutside}, {"-d@/etc/passwd", TextOutside}, {"--url=file:///etc/passwd", TextOutside}, {"file://localhost/etc/passwd", TextOutside}, {"https://../../../etc/passwd", TextOutside},
		{"/dev/fd/../../etc/passwd", TextOutside}, {"/dev/sda", TextOutside}, {"/proc/self/root/etc/passwd", TextOutside}, {"/dev/tcp/1.2.3.4/80", TextOutside},
		{strings.Repeat("x", 300) + "/../../..", TextOutside}, {"/" + strings.Repeat("x", 5000), TextOutside},
	}
	for _, tt := range tests {
		r := refusal(t, g, driver.Command{Argv: []string{"cat", tt.arg}})
		got := ""
		if r != nil {
			got = r.Text
			if r.Code != fault.SandboxViolation || r.Code.Wire() != "E_SANDBOX_VIOLATION" || r.Code.Kind() != "sandbox_violation" || r.Rule != RulePaths {
				t.Errorf("%.40q: code %s, rule %s", tt.arg, r.Code, r.Rule)
			}
		}
		if got != tt.want {
			t.Errorf("%.40q: %q, want %q", tt.arg, got, tt.want)
		}
	}
}

func TestPathsInScripts(t *testing.T) {
	g, dir := workspace(t, Local())
	tests := []struct{ script, want string }{
		{"cat a.txt > b.txt 2>&1 < /dev/null", ""}, {"echo /etc/passwd ~ ../x", ""}, {"head -c 10 /dev/zero | tr '\\0' x", ""}, {"/bin/echo hi; /usr/bin/env", ""},
		{"cd sub && cat ../a.txt", ""}, {"cd sub/deep; cd ..; cat ../a.txt", ""}, {"cd " + dir + "/sub && ls ..", ""}, {"(cd sub; ls ..); ls", ""}, {"cd \"$d\" && ls ..", ""},
		{"echo $HOME", ""}, {"cat $PWD/a.txt", ""}, {"export GOPATH=$HOME/go", ""}, {"cat \"${HOME:+x}\"", ""},
		{"cat \"$f\"", ""}, {"cat *.txt", ""}, {"ls sub/*", ""}, {"cat <<EOF\n/etc/passwd\nEOF", ""}, {"sed -e '/^#/d' a.txt", ""}, {"sed '/x/d' a.txt", ""}, {"awk '/foo/ {print $1}' a.txt", ""},
		{"grep -rn /api/v1 .", ""}, {"grep -e /api a.txt", ""}, {"git commit -m '/x: ~ change'", ""}, {"git log --grep=/x --format=/%H", ""}, {"bash -c '/usr/bin/env'", ""}, {"bash -c 'X=/etc/foo; echo $X'", ""},
		{"env grep /x a.txt", ""}, {"find . -exec grep /x {} +", ""}, {"echo '~/x'", ""}, {"cat '~file'", ""}, {"sub/tool", ""}, {"./sub/tool x", ""}, {"command -v setsid > /dev/null", ""},
		{"beat() { echo x >> \"$1\"; }; beat one &", ""}, {"while ! [ -s one -a -s two ]; do sleep 0.01; done", ""},

		{"cat /etc/hostname", TextOutside}, {"sh -c \"cat /etc/hostname\"", TextOutside}, {"echo x > /etc/x", TextOutside}, {"cat < /etc/x", TextOutside}, {"echo x >> ../x", TextOutside}, {"echo x &> /tmp/x", TextOutside},
		{"cat /etc/$x", TextOutside}, {"cat /etc/*", TextOutside}, {"ls ../*", TextOutside}, {"cat \"/etc/\"passwd", TextOutside}, {"cat {a.txt,/etc/passwd}", TextOutside}, {"cat ~/x", TextHome}, {"cat ~", TextHome}, {"cp a.txt x=~/y", TextHome},
		{"cat $HOME/x", TextHome}, {"ls \"$HOME\"", TextHome}, {"make install DESTDIR=${HOME}/x", TextHome}, {"$HOME/bin/evil", TextHome}, {"bash -c \"cat $HOME/x\"", TextHome}, {"cat $PWD/../x", TextOutside},
		{"cd / && ls", TextOutside}, {"cd ..", TextOutside}, {"cd sub && cat ../../x", TextOutside}, {"cd out && ls", TextResolvesOutside}, {"cat out/secret", TextResolvesOutside}, {"cat secret", TextResolvesOutside},
		{"env cat /etc/x", TextOutside}, {"timeout 5 cat ../x", TextOutside}, {"find / -name x", TextOutside}, {"find . -exec cat /etc/x \\;", TextOutside}, {"xargs cat /etc/x", TextOutside}, {"grep x /etc/passwd", TextOutside},
		{"grep -f /etc/passwd x", TextOutside}, {"sed -n p /etc/passwd", TextOutside}, {"git -C /etc status", TextOutside}, {"git show --output=/outside/file", TextOutside}, {"echo $(cat /etc/x)", TextOutside},
		{"f() { cat /etc/x; }", TextOutside}, {"exec 3<>/dev/tcp/1.2.3.4/80", TextOutside}, {"bash -c \"cd $d; cat /etc/x\"", TextOutside}, {"/etc/x", TextOutside}, {"../x", TextOutside}, {"~/bin/evil", TextHome}, {"out/tool", TextResolvesOutside},
		{"bash /etc/x.sh", TextOutside}, {". /etc/profile", TextOutside}, {"dd if=/dev/zero of=x", TextDenied + ` "dd"`},
	}
	for _, tt := range tests {
		r := refusal(t, g, driver.Command{Script: tt.script})
		got := ""
		if r != nil {
			got = r.Text
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.script, got, tt.want)
		}
	}
}

func TestProgramsByPath(t *testing.T) {
	local, dir := workspace(t, Local())
	strict, strictDir := workspace(t, Strict())
	tests := []struct {
		program       string
		local, strict string
	}{
		{"cat", "", ""}, {"sub/tool", "", ""}, {"./sub/tool", "", ""},
		{"/bin/cat", "", TextOutside}, {"/usr/bin/env", "", TextOutside}, {"/usr/bin/../../etc/x", TextOutside, TextOutside}, {"/usr/bin/sub/x", TextOutside, TextOutside},
		{"~/bin/evil", TextHome, TextHome}, {"../x", TextOutside, TextOutside}, {"out/tool", TextResolvesOutside, TextResolvesOutside},
	}
	for _, tt := range tests {
		for _, g := range []struct {
			guard *Checker
			want  string
		}{{local, tt.local}, {strict, tt.strict}} {
			r := refusal(t, g.guard, driver.Command{Argv: []string{tt.program}})
			if got := textOf(r); got != g.want {
				t.Errorf("%q: %q, want %q", tt.program, got, g.want)
			}
		}
	}
	for g, d := range map[*Checker]string{local: dir, strict: strictDir} {
		if r := refusal(t, g, driver.Command{Argv: []string{d + "/sub/tool"}}); r != nil {
			t.Errorf("a program of the workspace by its whole path: %v", r)
		}
	}
}

func textOf(r *Refusal) string {
	if r == nil {
		return ""
	}
	return r.Text
}

func TestDirectory(t *testing.T) {
	g, dir := workspace(t, Local())
	for d, want := range map[string]string{
		"": "", ".": "", "sub": "", "missing": "", dir: "", dir + "/sub": "", "in": "",
		"..": TextOutside, "/": TextOutside, "out": TextResolvesOutside, "sub/../..": TextOutside, "loop": TextUnresolvable,
	} {
		if got := textOf(refusal(t, g, driver.Command{Script: "true", Dir: d})); got != want {
			t.Errorf("dir %q: %q, want %q", d, got, want)
		}
	}
	for arg, want := range map[string]string{"../a.txt": "", "../../a.txt": TextOutside, "deep": ""} {
		for _, d := range []string{"sub", dir + "/sub"} {
			if got := textOf(refusal(t, g, driver.Command{Argv: []string{"cat", arg}, Dir: d})); got != want {
				t.Errorf("%q in %q: %q, want %q", arg, d, got, want)
			}
		}
	}
}

func TestHome(t *testing.T) {
	o := Local()
	o.Paths.Home = "/outside"
	g, dir := workspace(t, o)
	home := func(h string) driver.Command { return driver.Command{Env: map[string]string{"HOME": h}} }
	for _, tt := range []struct {
		cmd  driver.Command
		arg  string
		want string
	}{
		{driver.Command{}, "~/x", TextHome}, {home(dir), "~/x", ""}, {home(dir), "~", ""}, {home(dir), "--file=~/x", ""}, {home(dir + "/sub"), "~/../a.txt", ""},
		{home(dir), "~/../x", TextHome}, {home(dir), "~/out/secret", TextHome}, {home(dir), "~root", TextHome}, {home("/"), "~/etc", TextHome}, {home(""), "~", TextHome},
	} {
		tt.cmd.Argv = []string{"cat", tt.arg}
		if got := textOf(refusal(t, g, tt.cmd)); got != tt.want {
			t.Errorf("%q with HOME %q: %q, want %q", tt.arg, tt.cmd.Env["HOME"], got, tt.want)
		}
	}
	cmd := home(dir)
	if cmd.Script = "cat $HOME/a.txt; cd ~ && ls .."; refusal(t, g, cmd) != nil {
		t.Errorf("with HOME inside, $HOME/a.txt is refused: %v", refusal(t, g, cmd))
	}
}

// TestSymlinkedRoot has a workspace whose path goes through a symlink.
func TestSymlinkedRoot(t *testing.T) {
	_, dir := workspace(t, Local())
	link := filepath.Join(filepath.Dir(dir), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	o := Local()
	root, err := files.Open(link, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	o.Root, o.Files = link, root
	g := mustNew(t, o)
	for arg, want := range map[string]string{link + "/a.txt": "", dir + "/a.txt": "", link: "", "absin": "", "/etc/hosts": TextOutside, link + "/secret": TextResolvesOutside} {
		if got := textOf(refusal(t, g, driver.Command{Argv: []string{"cat", arg}})); got != want {
			t.Errorf("%q: %q, want %q", arg, got, want)
		}
	}
}

// TestVenvPython: the interpreter of a virtual environment is a symlink to one outside. As a
// program it may be that, and as an argument not.
func TestVenvPython(t *testing.T) {
	g, dir := workspace(t, Local())
	if err := os.MkdirAll(filepath.Join(dir, ".venv/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{
		"python": "python3", "python3": "/usr/bin/python3", "python3.9": "/opt/other/python3.9", "x": "/usr/bin/python3", "python3.1": "/usr/bin/docker",
		"python3.2": "../../secret", "python3.3": "/usr/bin/../../opt/python3", "python3.4": "python3.4", "python3.5": "/usr/bin/sh",
	} {
		if err := os.Symlink(target, filepath.Join(dir, ".venv/bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../out", filepath.Join(dir, ".venv/out")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cmd  driver.Command
		want string
	}{
		{driver.Command{Argv: []string{".venv/bin/python", "-m", "pytest"}}, ""},
		{driver.Command{Argv: []string{dir + "/.venv/bin/python3", "-V"}}, ""},
		{driver.Command{Argv: []string{"./bin/python", "-V"}, Dir: ".venv"}, ""},
		{driver.Command{Script: ".venv/bin/python -V"}, ""},
		{driver.Command{Argv: []string{".venv/bin/python", "/etc/hosts"}}, TextOutside},
		{driver.Command{Argv: []string{"cat", ".venv/bin/python"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/bin/x"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/bin/python3.9"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/bin/python3.1"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/bin/python3.2"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/bin/python3.3"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/bin/python3.4"}}, TextUnresolvable},
		{driver.Command{Argv: []string{".venv/bin/python3.5"}}, TextResolvesOutside},
		{driver.Command{Argv: []string{".venv/out/../bin/python"}}, TextResolvesOutside},
	} {
		if got := textOf(refusal(t, g, tt.cmd)); got != tt.want {
			t.Errorf("%q %q: %q, want %q", tt.cmd.Argv, tt.cmd.Script, got, tt.want)
		}
	}
}

func TestClosedBoundaryRefuses(t *testing.T) {
	o := Local()
	g, _ := workspace(t, o)
	o.Files.Close()
	if got := textOf(refusal(t, g, driver.Command{Argv: []string{"cat", "a.txt"}})); got != TextUnresolvable {
		t.Errorf("with a closed boundary: %q, want %q", got, TextUnresolvable)
	}
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"a.txt", "../x", "/etc", "a=b=/c", "-I/x", "~", "file:///x", "a/../../b", "x://../y"} {
		f.Add(s)
	}
	dir := f.TempDir()
	root, err := files.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { root.Close() })
	o := Local()
	o.Root, o.Files, o.Paths.Allow, o.Control = dir, root, nil, false
	g, err := New(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, err := g.Check(t.Context(), driver.Command{Argv: []string{"cat", s}})
		if err != nil || strings.HasPrefix(s, "-") {
			return
		}
		if full := filepath.Join(dir, s); !strings.HasPrefix(s, "/") && full != dir && !strings.HasPrefix(full, dir+"/") {
			t.Fatalf("%q passes and is %s", s, full)
		}
		if strings.HasPrefix(s, "/") && filepath.Clean(s) != dir && !strings.HasPrefix(filepath.Clean(s), dir+"/") {
			t.Fatalf("%q passes", s)
		}
	})
}
