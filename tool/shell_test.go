package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/tool"
)

var shellID = regexp.MustCompile(`shell_id: (\S+)\n`)

// start runs a tool that starts something and returns its shell_id.
func start(t testing.TB, env *tool.Env, name, args string) string {
	t.Helper()
	m := shellID.FindStringSubmatch(ok(t, env, name, args))
	if m == nil {
		t.Fatalf("%s(%s) has no shell_id", name, args)
	}
	return m[1]
}

// wait waits until a command in the background has ended.
func wait(t testing.TB, env *tool.Env, id string) {
	t.Helper()
	w, err := env.Workspaces.Get(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.Attach(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// patience is how long is waited for what is sure to happen, on a machine that is
// busy otherwise.
const patience = 2 * time.Minute

// asleep is a command that is found among all processes of the machine, and is of
// no other run of the tests.
func asleep() string { return fmt.Sprintf("sleep 4321.%d", os.Getpid()) }

// sleepers is how many of it there are.
func sleepers(t testing.TB, env *tool.Env) string {
	t.Helper()
	return strings.TrimSpace(ok(t, env, "Bash", args(t, "command", "pgrep -fx '"+asleep()+"' | wc -l")))
}

func TestBackgroundOutputIsWhole(t *testing.T) {
	env := coding(t, "w")
	for i := range 20 { // short ones lose nothing either
		id := start(t, env, "Bash", `{"command":"echo out; echo err >&2","run_in_background":true}`)
		wait(t, env, id)
		got := ok(t, env, "BashOutput", args(t, "shell_id", id))
		_, got, _ = strings.Cut(got, "\n\n")
		if want := "--- stdout (4 bytes) ---\nout\n--- stderr (4 bytes) ---\nerr\n"; got != want {
			t.Fatalf("round %d: got %q, want %q", i, got, want)
		}
	}
	id := start(t, env, "Bash", `{"command":"head -c 1048576 /dev/zero | tr '\\0' x; exit 3","run_in_background":true}`)
	wait(t, env, id)
	got := ok(t, env, "BashOutput", args(t, "shell_id", id))
	if !strings.Contains(got, "status: completed (exit 3)") || !strings.Contains(got, "--- stdout (1048576 bytes) [TRUNCATED] ---") {
		t.Errorf("got %.300q", got)
	}
	got = ok(t, env, "BashOutput", args(t, "shell_id", id, "offset", 1048570))
	if got != "xxxxxx" {
		t.Errorf("the last bytes are %q", got)
	}
	if got := refused(t, env, "BashOutput", `{"shell_id":"nope"}`, fault.NotFound); got != "unknown shell_id: nope" {
		t.Errorf("got %q", got)
	}
}

func TestKillShell(t *testing.T) {
	env := coding(t, "w")
	id := start(t, env, "Bash", args(t, "command", "setsid "+asleep()+" & "+asleep(), "run_in_background", true))
	if got := ok(t, env, "KillShell", args(t, "shell_id", id)); got != "killed: "+id+"\n" {
		t.Errorf("got %q", got)
	}
	if got := sleepers(t, env); got != "0" {
		t.Errorf("%s processes are left", got)
	}
	refused(t, env, "BashOutput", args(t, "shell_id", id), fault.NotFound)
}

func TestWriteStdin(t *testing.T) {
	env := coding(t, "w")
	id := start(t, env, "Bash", `{"command":"read x; echo got $x; cat","run_in_background":true}`)
	until := func(got, want string) {
		t.Helper()
		for end := time.Now().Add(patience); !strings.Contains(got, want) && time.Now().Before(end); {
			got += ok(t, env, "write_stdin", args(t, "shell_id", id))
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	until(ok(t, env, "write_stdin", args(t, "shell_id", id, "chars", "hello", "append_newline", true)), "got hello\n")
	until(ok(t, env, "write_stdin", args(t, "shell_id", id, "chars", "end", "eof", true)), "end\n(it has ended)\n")
}

func TestLargeOutput(t *testing.T) {
	env := coding(t, "w")
	got := ok(t, env, "Bash", `{"command":"echo first; yes | head -c 20000000; echo last"}`)
	atEnd := regexp.MustCompile(`\nlast\n\.\.\. \(\d+ bytes in the middle were elided; BashOutput with shell_id "\S+" and offset \d+ reads them\)\n$`)
	if len(got) > 31_000 || !strings.HasPrefix(got, "first\n") || !atEnd.MatchString(got) {
		t.Errorf("%d bytes: %.40q ... %q", len(got), got, got[len(got)-200:])
	}
	m := regexp.MustCompile(`\((?:output truncated, )(\d+) bytes elided; BashOutput with shell_id "(\S+)" and offset (\d+) reads them\)`).FindStringSubmatch(got)
	if m == nil {
		t.Fatalf("it does not say what was left out: %.200q", got[14_000:])
	}
	var off int
	fmt.Sscan(m[3], &off)
	if got := ok(t, env, "BashOutput", args(t, "shell_id", m[2], "offset", off, "limit", 4)); !strings.HasPrefix(got, "y\ny\n") && !strings.HasPrefix(got, "\ny\ny") {
		t.Errorf("what was left out begins with %q", got)
	}
}

func TestLargeAnswerHasAHandle(t *testing.T) {
	env := newEnv(t, tool.Config{Tools: tool.Coding(), Workspaces: newSet(t, "w"), MaxText: 1000})
	for i := range 150 {
		put(t, env, "w", fmt.Sprintf("file-%03d", i), "")
	}
	res, err := env.Run(t.Context(), tool.Request{Tool: "list", Args: json.RawMessage(`{}`)})
	if err != nil || res.Handle == "" || len(res.Text) > 1200 {
		t.Fatalf("text of %d bytes, data of %d, handle %q, %v", len(res.Text), len(res.Structured), res.Handle, err)
	}
	whole, err := env.Kept(t.Context(), "", res.Handle)
	if err != nil || !strings.Contains(whole, "\nfile-149") {
		t.Errorf("Kept = %.20q, %v", whole, err)
	}
	got := ok(t, env, "BashOutput", args(t, "shell_id", res.Handle, "offset", len(whole)-9))
	if got != "file-149\n" {
		t.Errorf("got %q", got)
	}
}

// TestAnswersFitTheirReader: no text is longer than agents show to a model, each is cut at a
// line, and says how to go on; what follows is all of the rest.
func TestAnswersFitTheirReader(t *testing.T) {
	env := coding(t, "w")
	var lines strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&lines, "line %d of the file\n", i+1)
	}
	put(t, env, "w", "f", lines.String())
	const most = tool.DefaultMaxText + 200 // with the note

	var all strings.Builder
	more := regexp.MustCompile(`\.\.\. \(\d+ more lines; Read with offset=(\d+) shows them\)\n$`)
	for off := "1"; off != ""; {
		got := ok(t, env, "Read", `{"file_path":"f","limit":100000,"offset":`+off+`}`)
		if len(got) > most {
			t.Fatalf("Read from %s has %d bytes", off, len(got))
		}
		off = ""
		if m := more.FindStringSubmatch(got); m != nil {
			off, got = m[1], strings.TrimSuffix(got, m[0])
		}
		all.WriteString(regexp.MustCompile(`(?m)^\d+\t`).ReplaceAllString(got, ""))
	}
	if all.String() != lines.String() {
		t.Errorf("the parts of Read have %d bytes, not %d, of the file", all.Len(), lines.Len())
	}

	for name, call := range map[string][2]string{
		"Bash": {"Bash", `{"command":"cat f"}`}, "BashOutput": {"BashOutput", ""},
	} {
		if name == "BashOutput" {
			id := regexp.MustCompile(`shell_id: (\S+)`).FindStringSubmatch(ok(t, env, "Bash", `{"command":"cat f","run_in_background":true}`))[1]
			ok(t, env, "write_stdin", args(t, "shell_id", id, "eof", true, "yield_time_ms", 30000))
			call[1] = args(t, "shell_id", id)
		}
		got := ok(t, env, call[0], call[1])
		note := regexp.MustCompile(`(?m)\n\.\.\. \(output truncated, \d+ bytes elided; .*offset (\d+) reads them\)\n`).FindStringSubmatch(got)
		if len(got) > most || note == nil {
			t.Errorf("%s answers with %d bytes: %.60q ... %q", name, len(got), got, got[max(0, len(got)-60):])
		}
	}
}

func TestWatchProcess(t *testing.T) {
	env := coding(t, "w")
	id := start(t, env, "watch_process", `{"command":"echo Error: not here; echo 'Error: bad' >&2; printf 'panic: end' >&2; exit 4","description":"x"}`)
	wait(t, env, id)
	got := ok(t, env, "watch_process_events", args(t, "shell_id", id))
	got = regexp.MustCompile(`\d{4}-\S+Z`).ReplaceAllString(got, "TS")
	_, got, _ = strings.Cut(got, "\n\n")
	want := "--- events (4) ---\n[1] TS  started\n[2] TS  error  (matched \"^Error:\")  Error: bad\n[3] TS  error  (matched \"^panic:\")  panic: end\n[4] TS  exited  exit=4\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ok(t, env, "watch_process_events", args(t, "shell_id", id, "since_event_id", 3)); !strings.Contains(got, "--- events (1) ---\n[4]") {
		t.Errorf("got %q", got)
	}
	idle := start(t, env, "watch_process", `{"command":"sleep 60","idle_timeout_seconds":1,"error_patterns":[]}`)
	wait(t, env, idle)
	if got := ok(t, env, "watch_process_events", args(t, "shell_id", idle)); !strings.Contains(got, "idle_timeout  no output for 1s (configured idle_timeout=1s)") {
		t.Errorf("got %q", got)
	}
	plain := start(t, env, "Bash", `{"command":"true","run_in_background":true}`)
	if got := refused(t, env, "watch_process_events", args(t, "shell_id", plain), fault.NotFound); got != "shell_id "+plain+" was not started by watch_process; use BashOutput instead" {
		t.Errorf("got %q", got)
	}
	for args, want := range map[string]string{
		`{"command":"true","error_patterns":["("]}`: "error_patterns[0] \"(\" failed to compile: error parsing regexp: missing closing ): `(`",
		`{"command":"true","error_patterns":[""]}`:  "error_patterns[0] is empty",
		`{"command":"true","error_patterns":"x"}`:   "error_patterns must be an array of strings, not a string",
	} {
		if got := refused(t, env, "watch_process", args, fault.InvalidArgument); got != want {
			t.Errorf("watch_process(%s) = %q, want %q", args, got, want)
		}
	}
}

func TestCancelStopsTheCommand(t *testing.T) {
	env := coding(t, "w")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := env.Run(ctx, tool.Request{Tool: "Bash", Args: json.RawMessage(args(t, "command", "touch started; setsid "+asleep()+"; touch ended"))})
		done <- err
	}()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if _, err := call(t, env, "Read", `{"file_path":"started"}`); err == nil {
			break
		}
		if time.Now().After(end) || len(done) > 0 {
			t.Fatal("the command does not start")
		}
	}
	cancel()
	if err := <-done; fault.Of(err) != fault.Canceled {
		t.Errorf("err = %v, want canceled", err)
	}
	if got := sleepers(t, env); got != "0" {
		t.Errorf("%s processes are left", got)
	}
	if got := ok(t, env, "list", `{}`); got != "started\n" {
		t.Errorf("left: %q", got)
	}
}
