package cmdpolicy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

// wrapperSeam is the seam of package process, which this package does not import.
type wrapperSeam interface {
	Wrap(program string, args []string, cwd string) (newProgram string, newArgs []string, err error)
}

var _, _ wrapperSeam = (*Bubblewrap)(nil), (*Seatbelt)(nil)

func TestBubblewrapArguments(t *testing.T) {
	b := &Bubblewrap{
		Program: "/opt/bwrap", ReadOnly: []string{"/usr", "/etc"}, Writable: []string{"/ws", "/cache"}, Tmpfs: []string{"/root"}, Protected: []string{"/ws/.git/hooks"},
		Network: true, Seccomp: 5, Chdir: "/ws/sub", Env: map[string]string{"B": "2", "A": "--x"},
	}
	full, args, err := b.Wrap("/bin/cat", []string{"--", "x"}, "/ws")
	if err != nil {
		t.Fatal(err)
	}
	zero, zeroArgs, err := new(Bubblewrap).Wrap("true", nil, "/")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bubblewrap.txt", strings.Join(append([]string{full}, args...), "\n")+"\n\n"+strings.Join(append([]string{zero}, zeroArgs...), "\n")+"\n")
	for name, bad := range map[string]*Bubblewrap{
		"relative bind": {Writable: []string{"ws"}}, "option as a path": {Tmpfs: []string{"--bind"}}, "seccomp on stdout": {Seccomp: 1},
		"variable": {Env: map[string]string{"A=B": ""}}, "directory": {Chdir: "sub"},
	} {
		if _, _, err := bad.Wrap("true", nil, "/"); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%s: %v, want %s", name, err, fault.InvalidArgument)
		}
	}
}

// needsBwrap skips the test where the host has no bubblewrap that works.
func needsBwrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("skipped: host: it lacks bubblewrap: bwrap is not in PATH")
	}
	if out, err := exec.CommandContext(t.Context(), "bwrap", "--ro-bind", "/", "/", "--unshare-user-try", "--unshare-pid", "--unshare-net", "--proc", "/proc", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: host: it lacks namespaces for bubblewrap: %v: %s", err, out)
	}
}

func TestBubblewrapHolds(t *testing.T) {
	needsBwrap(t)
	base := t.TempDir()
	ws, outside := filepath.Join(base, "ws"), filepath.Join(base, "outside")
	for _, d := range []string{filepath.Join(ws, "hooks"), outside} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	run := func(b *Bubblewrap, script string) (string, error) {
		program, args, err := b.Wrap("/bin/bash", []string{"-c", script}, ws)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "LEAK=leaked"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	b := &Bubblewrap{Writable: []string{ws}, Protected: []string{filepath.Join(ws, "hooks")}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
	if out, err := run(b, "pwd; echo data > file && cat file; echo [$LEAK]"); err != nil || out != ws+"\ndata\n[]\n" {
		t.Fatalf("inside: %q, %v", out, err)
	}
	for name, script := range map[string]string{
		"write beside":      "echo x > " + outside + "/file",
		"write below /usr":  "echo x > /usr/croft-test-file",
		"write a protected": "echo x > hooks/pre-commit",
		"dial the host":     "exec 3<>/dev/tcp/127.0.0.1/" + port,
		"see the test":      "kill -0 " + strconv.Itoa(os.Getpid()),
	} {
		if out, err := run(b, script); err == nil {
			t.Errorf("%s: it works: %q", name, out)
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err == nil {
		t.Error("there is a file outside")
	}
	if out, err := run(&Bubblewrap{Writable: []string{ws}, Network: true}, "exec 3<>/dev/tcp/127.0.0.1/"+port+" && echo $LEAK"); err != nil || out != "leaked\n" {
		t.Errorf("with network and environment: %q, %v", out, err)
	}
}

func TestSeatbeltProfiles(t *testing.T) {
	for name, p := range map[string]Profile{
		"seatbelt-zero.sb":    {},
		"seatbelt-local.sb":   {Writable: []string{"/private/ws", "/private/tmp/x"}, Protected: []string{"/private/ws/.git/hooks"}, Hidden: []string{"/Users/me/.ssh", "/Users/me/.aws"}},
		"seatbelt-network.sb": {Writable: []string{"/private/ws"}, Network: true},
		"seatbelt-quotes.sb":  {Writable: []string{`/ws/a "b") (allow default) \`, "/ws/grüße ; x"}},
	} {
		text, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, text)
		if depth := parens(text); depth != 0 {
			t.Errorf("%s has %d parentheses open", name, depth)
		}
	}
	for _, bad := range []string{"", "rel", "/a/../b", "/a\nb", "/a\x00", "/a/", "/a\x1b"} {
		if _, err := (&Profile{Writable: []string{bad}}).Text(); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("path %q: %v, want %s", bad, err, fault.InvalidArgument)
		}
	}
}

// parens counts the parentheses that are open at the end, outside of strings and
// comments.
func parens(text string) int {
	depth, quoted, comment := 0, false, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case comment:
			comment = c != '\n'
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ';':
			comment = true
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
	}
	return depth
}

func TestSeatbeltWrap(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profile.sb")
	p := &Profile{Writable: []string{"/ws"}}
	if err := p.WriteFile(file); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteFile(file); fault.Of(err) != fault.AlreadyExists {
		t.Errorf("writing over a profile: %v, want %s", err, fault.AlreadyExists)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the profile: %v, %v", info, err)
	}
	program, args, err := (&Seatbelt{File: file}).Wrap("/bin/echo", []string{"-n", "x"}, "/ws")
	if diff := cmp.Diff([]string{"/usr/bin/sandbox-exec", "-f", file, "/bin/echo", "-n", "x"}, append([]string{program}, args...)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, s := range []*Seatbelt{{}, {File: "rel"}} {
		if _, _, err := s.Wrap("/bin/echo", nil, "/"); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if _, _, err := (&Seatbelt{File: file}).Wrap("-p", nil, "/"); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("an option as the program: %v", err)
	}
}
