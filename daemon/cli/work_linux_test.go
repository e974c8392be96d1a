package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A ttyProgram is a program on a pseudo-terminal.
type ttyProgram struct {
	t    *testing.T
	cmd  *exec.Cmd
	file *os.File
	done chan error

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// onTTY starts a command on a pseudo-terminal.
func onTTY(t *testing.T, cmd *exec.Cmd) *ttyProgram {
	t.Helper()
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	s := &ttyProgram{t: t, cmd: cmd, file: file, done: make(chan error, 1)}
	t.Cleanup(func() { file.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := file.Read(buf)
			s.mu.Lock()
			s.out.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				s.done <- cmd.Wait()
				return
			}
		}
	}()
	return s
}

func (s *ttyProgram) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// shows waits until the screen shows a text.
func (s *ttyProgram) shows(text string) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.text(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("the screen does not show %q:\n%q", text, s.text())
		}
	}
}

func (s *ttyProgram) types(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.file, text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end of the program.
func (s *ttyProgram) ends() error {
	s.t.Helper()
	select {
	case err := <-s.done:
		return err
	case <-time.After(time.Minute):
		s.t.Fatalf("it does not end:\n%q", s.text())
	}
	return nil
}

// workProject makes a project, and returns a function that makes commands in it.
func workProject(t *testing.T) (dir string, in func(args ...string) *exec.Cmd) {
	t.Helper()
	home := t.TempDir()
	dir = filepath.Join(home, "app")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
	return dir, func(args ...string) *exec.Cmd {
		cmd := croft(t, filepath.Join(home, "data"), args...)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "HOME="+home)
		return cmd
	}
}

// TestWorkSurvivesKill kills croft work in the middle: neither tree loses anything, the
// work is listed, and its agent is attached again.
func TestWorkSurvivesKill(t *testing.T) {
	dir, in := workProject(t)
	s := onTTY(t, in("work", "--", "sh", "-c", "echo one > a.txt; echo ready; read -r line; echo $line > b.txt"))
	s.shows("ready")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.ends() // it was killed
	if out, err := in("work", "list").CombinedOutput(); err != nil || !strings.Contains(string(out), "app-sh") {
		t.Errorf("after the kill the works are\n%s%v", out, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("after the kill the project has %v, %v", entries, err)
	}
	s = onTTY(t, in("work", "attach"))
	s.shows("ready")
	s.types("two\r")
	if err := s.ends(); err != nil {
		t.Errorf("attached: %v\n%s", err, s.text())
	}
	s.shows("app-sh changed 2 files")
	if out, err := in("work", "apply", "--discard").CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	for name, want := range map[string]string{"a.txt": "one\n", "b.txt": "two\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
}

// TestWorkOnATerminal stops and continues a command with ctrl-z, detaches from it, attaches
// again, and ends it with ctrl-c.
func TestWorkOnATerminal(t *testing.T) {
	_, in := workProject(t)
	s := onTTY(t, in("work", "--", "sh", "-c", "trap 'echo caught; exit 7' INT; stty size; while :; do sleep 0.1; done"))
	s.shows("24 80")
	s.types("\x1a")
	s.shows("stopped; Enter continues it")
	s.types("\r")
	time.Sleep(200 * time.Millisecond)
	s.types("\x1d")
	s.shows("croft work attach app-sh")
	if err := s.ends(); err != nil {
		t.Errorf("detached: %v", err)
	}
	s = onTTY(t, in("work", "attach"))
	s.shows("24 80")
	s.types("\x03")
	s.shows("caught")
	if _ = s.ends(); s.cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit status %d, want that of the command, 7", s.cmd.ProcessState.ExitCode())
	}
}

// TestWorkAllow lets a work that runs reach another host, which is remembered for the project.
func TestWorkAllow(t *testing.T) {
	serve := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }
	first, roots := secureServer(t, serve)
	other, _ := secureServer(t, serve)
	dir, in := workProject(t)
	cmd := in("work", "--allow-net", first, "--", "sh", "-c", "echo begin > begin; until curl -sk https://"+other+"/ | grep hello; do sleep 0.1; done")
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+roots)
	s := onTTY(t, cmd)
	for {
		out, err := in("work", "log").CombinedOutput()
		if err == nil && strings.Contains(string(out), "refused") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if out, err := in("work", "allow", other).CombinedOutput(); err != nil || !strings.Contains(string(out), "app-sh reaches them now") {
		t.Fatalf("allow: %v\n%s", err, out)
	}
	if err := s.ends(); err != nil {
		t.Errorf("the command: %v\n%s", err, s.text())
	}
	s.shows("hello")
	// The next work of the project has the hosts at once.
	next := in("work", "--", "curl", "-sk", "https://"+other+"/")
	if out, err := next.Output(); err != nil || string(out) != "hello" {
		t.Errorf("the next work: %q, %v", out, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the project has %v, %v", entries, err)
	}
}
