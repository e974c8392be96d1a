package workspacetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

const (
	jobEnv       = "CROFT_WORKSPACETEST_JOB" // a job as JSON: this process is a child
	answerPrefix = "workspacetest-answer: "  // before a line on standard output that is for the parent
)

// A job is what a child process does.
type job struct {
	Test   string        // name of the test that called Run
	Dir    string        //
	Verb   string        // open, resolve, destroy, update, write, start
	Spec   driver.Spec   //
	Ref    *driver.Ref   // of the workspace, for all but open
	Policy driver.Policy // for update
	KillAt int           // die at this step, the first is 1; 0 never, -1 when the verb is done
	Seed   int64         // for write
	Script string        // for start
}

// An answer is a line from a child.
type answer struct {
	Ref   *driver.Ref `json:",omitempty"`
	Steps []string    `json:",omitempty"` // that were passed
	Err   *fault.Wire `json:",omitempty"`
	Name  string      `json:",omitempty"` // a write that was acknowledged, or a session
	Gen   int         `json:",omitempty"`
	Done  bool        `json:",omitempty"` // the verb is done
}

// inChild does the job if this process is a child, and reports whether it is.
func inChild(t testing.TB, h Harness) bool {
	data := os.Getenv(jobEnv)
	if data == "" {
		return false
	}
	var j job
	if err := json.Unmarshal([]byte(data), &j); err != nil {
		t.Fatalf("decode job: %v", err)
	}
	if j.Test == t.Name() {
		j.do(t, h)
	}
	return true
}

func (j job) do(t testing.TB, h Harness) {
	var a answer
	ctx := driver.WithSteps(t.Context(), func(step string) {
		a.Steps = append(a.Steps, step)
		if len(a.Steps) == j.KillAt {
			die()
		}
	})
	p := h.Provider(t, j.Dir)
	if err := j.run(ctx, p, &a); err != nil {
		wire := fault.Encode(err)
		a.Err = &wire
	}
	a.Done = true
	a.send()
	if j.KillAt != 0 {
		die()
	}
}

func (j job) run(ctx context.Context, p driver.Provider, a *answer) error {
	var d *driver.Workspace
	var err error
	if j.Ref == nil {
		d, err = p.Open(ctx, j.Spec)
	} else {
		d, err = p.Resolve(ctx, *j.Ref)
	}
	if err != nil {
		return err
	}
	switch j.Verb {
	case "destroy":
		return d.Life.Destroy(ctx)
	case "update":
		ref, err := d.Life.Update(ctx, j.Policy)
		a.Ref = &ref
		return err
	case "start":
		session, err := d.Shell.Start(ctx, driver.Command{Script: j.Script, Detached: true})
		if err == nil {
			a.Name = session.ID()
		}
		return err
	case "write":
		return writeForever(ctx, d, j.Seed)
	default:
		a.Ref = &d.Ref
		return nil
	}
}

func (a answer) send() {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // answers are our own
	}
	// One write, so that a kill leaves the whole line or nothing.
	os.Stdout.WriteString("\n" + answerPrefix + string(data) + "\n") // the parent notices
}

// die ends this process as a crash does: nothing is flushed, nothing deferred.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	panic(fmt.Sprint("still alive after SIGKILL: ", err))
}

// A child is a process that does a job.
type child struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
	noise  strings.Builder // what else it printed, for the message when it fails
}

// start starts a child over the directory of the check.
func (e *Env) start(t testing.TB, j job) *child {
	t.Helper()
	j.Test, j.Dir = e.test, e.Dir
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatalf("encode job: %v", err)
	}
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run="+exactly(e.test), "-test.count=1")}
	c.cmd.Env = append(os.Environ(), jobEnv+"="+string(data))
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("child: %v", err)
	}
	c.lines = bufio.NewScanner(out)
	return c
}

// exactly is the -test.run pattern for one test or subtest.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// next returns the child's next answer; false means that it is dead.
func (c *child) next(t testing.TB) (answer, bool) {
	t.Helper()
	for c.lines.Scan() {
		line, ok := strings.CutPrefix(c.lines.Text(), answerPrefix)
		if !ok {
			c.noise.WriteString(c.lines.Text() + "\n")
			continue
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("child answered %q: %v", line, err)
		}
		return a, true
	}
	return answer{}, false
}

// kill ends the child without warning.
func (c *child) kill() {
	c.cmd.Process.Kill() // it may be dead already
	c.cmd.Wait()         // it was killed
}

// do runs a job to its end, which is the child's death. It returns the last
// answer; Done is false if the child died at the step that it was told to.
func (e *Env) do(t testing.TB, j job) answer {
	t.Helper()
	c := e.start(t, j)
	var last answer
	for {
		a, ok := c.next(t)
		if !ok {
			break
		}
		last = a
	}
	err := c.cmd.Wait()
	if killed(err) || err == nil && j.KillAt == 0 && last.Done {
		return last
	}
	t.Fatalf("child: %s: %v, want it to end by SIGKILL or by itself with an answer\n%s%s", j.Verb, err, c.noise.String(), c.stderr.String())
	return last
}

func killed(err error) bool {
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // Wait returns it bare
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// fail turns a child's error into a message.
func (a answer) fail() error {
	if a.Err == nil {
		return nil
	}
	return fmt.Errorf("in the child: %w", a.Err.Err())
}
