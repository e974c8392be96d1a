package cli_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/croft-run/croft/internal/testenv"
)

// croft returns a command that runs this program on a data directory of its own.
func croft(t *testing.T, data string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("croft") // testscript put it there
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "CROFT_DATA="+data, "HOME="+data)
	return cmd
}

// TestRunEndsOnASignal proves that croft run, asked to stop, ends its command
// with all that this started, and leaves no workspace.
//
//croft:slow-race ^(exec|sessions|events|server|up)
func TestRunEndsOnASignal(t *testing.T) {
	const closed = "the terminal is closed"
	for name, sig := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP, closed: 0} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			alive := filepath.Join(t.TempDir(), "alive")
			if err := syscall.Mkfifo(alive, 0o600); err != nil {
				t.Fatal(err)
			}
			// The child holds the writing end of the pipe: its end is the child's.
			cmd := croft(t, data, "run", "--provider", "shelltest", "--", "sh", "-c", "exec 3> "+alive+"; setsid sleep 1000 & echo ready; wait")
			var out io.ReadCloser
			var err error
			if name == closed {
				out, err = pty.Start(cmd)
			} else if out, err = cmd.StdoutPipe(); err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := os.Open(alive)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			if line, err := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "ready" {
				t.Fatalf("the command wrote %q, %v", line, err)
			}
			if name == closed {
				err = out.Close()
			} else {
				err = cmd.Process.Signal(sig)
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 137 && name != closed { // no status is told to a closed terminal
				t.Errorf("exit status %d, want that of a command that was killed", got)
			}
			if _, err := pipe.Read(make([]byte, 1)); err == nil {
				t.Error("the pipe has data")
			} // it returned: nobody holds the other end any more
			list, err := croft(t, data, "ws", "list").Output()
			if err != nil || strings.Count(string(list), "\n") != 1 {
				t.Errorf("afterwards there are\n%s%v", list, err)
			}
		})
	}
}

// TestRunOnATerminal proves that on a terminal the command has one, of the same
// size, that changes with it, and that what is typed arrives.
//
//croft:slow-race ^(exec|sessions|events|server|up)
func TestRunOnATerminal(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	cmd := croft(t, data, "run", "--provider", "shelltest", "--", "sh", "-c",
		`test -t 0 && test -t 1 && stty size; trap 'stty size; exit 7' WINCH; echo ready; while read -r x; do echo "got $x"; done`)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 20, Cols: 70})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	seen := &strings.Builder{}
	until := func(want string) {
		t.Helper()
		buf := make([]byte, 1024)
		for !strings.Contains(seen.String(), want) {
			n, err := tty.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				t.Fatalf("after %q: %v", seen.String(), err)
			}
		}
	}
	until("20 70")
	until("ready")
	if _, err := tty.WriteString("hello\r"); err != nil {
		t.Fatal(err)
	}
	until("got hello")
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 30, Cols: 90}); err != nil {
		t.Fatal(err)
	}
	// sh runs a trap once read has returned, and a line may overtake the signal.
	typed := make(chan struct{})
	var typing sync.WaitGroup
	typing.Go(func() {
		for tty.WriteString("\r"); ; tty.WriteString("\r") {
			select {
			case <-typed:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	until("30 90")
	close(typed)
	typing.Wait()
	cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit status %d, want 7; it wrote %q", got, seen)
	}
}

// TestShellIsLeftAndFoundAgain leaves a terminal with ctrl-] and comes back.
//
//croft:slow-race ^(exec|sessions|events|server|up)
func TestShellIsLeftAndFoundAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a daemon")
	}
	data := filepath.Join(t.TempDir(), "data")
	up := croft(t, data, "up", "--addr", "127.0.0.1:0")
	out, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		up.Process.Signal(syscall.SIGTERM)
		if err := up.Wait(); err != nil {
			t.Errorf("croft up: %v", err)
		}
	}()
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 1 && f[0] == "url" {
			url = f[1]
		}
	}
	on := func(args ...string) *exec.Cmd { return croft(t, data, append(args, "--server", url)...) }
	if out, err := on("ws", "open", "demo", "--provider", "shelltest").CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	sit := func(cmd *exec.Cmd, keys, want string) (string, int) {
		t.Helper()
		tty, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer tty.Close()
		tty.WriteString(keys)
		var seen strings.Builder
		buf := make([]byte, 1024)
		for sent := false; ; {
			n, err := tty.Read(buf)
			seen.Write(buf[:n])
			if !sent && strings.Contains(seen.String(), want) {
				sent = true
				tty.WriteString("\x1d")
			}
			if err != nil {
				break
			}
		}
		cmd.Wait()
		return seen.String(), cmd.ProcessState.ExitCode()
	}
	seen, status := sit(on("ws", "shell", "demo"), "answer=$((6*7))\recho a${answer}b\r", "a42b")
	if status != 0 || !strings.Contains(seen, "which keeps running") {
		t.Fatalf("leaving ends with %d: %q", status, seen)
	}
	_, id, _ := strings.Cut(seen, "detached from session ")
	id, _, _ = strings.Cut(id, ",")
	seen, status = sit(on("ws", "shell", "demo", "--session", id), "echo again $answer; exit 9\r", "never seen")
	if status != 9 || !strings.Contains(seen, "again 42") {
		t.Errorf("coming back ends with %d: %q", status, seen)
	}
}

// In a dialogue Ctrl-C ends the code that runs, or drops what was typed, and
// nothing else.
func TestDialogueGoesOnAfterCtrlC(t *testing.T) {
	testenv.NeedsJupyter(t)
	cmd := croft(t, filepath.Join(t.TempDir(), "data"), "code", "--provider", "shelltest")
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var seen strings.Builder
	from := 0 // what comes before was waited for; one read may bring more than that
	until := func(text string) {
		t.Helper()
		buf := make([]byte, 1024)
		for !strings.Contains(seen.String()[from:], text) {
			n, err := tty.Read(buf)
			seen.Write(buf[:n])
			if err != nil {
				t.Fatalf("it said %q, and no %q: %v", seen.String(), text, err)
			}
		}
		from += strings.Index(seen.String()[from:], text) + len(text)
	}
	say := func(text string) {
		t.Helper()
		if _, err := tty.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	until(">>> ")
	say("x = 'kept'\n")
	until(">>> ")
	say("import time; print(2 * 'on', flush=True); time.sleep(1000)\n")
	until("onon")
	say("\x03")
	until(">>> ")
	say("if True:\n")
	until("... ")
	say("\x03")
	until(">>> ")
	say("x.upper()\n")
	until("'KEPT'")
	until(">>> ")
	say("\x04")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v; it said %q", err, seen.String())
	}
}
