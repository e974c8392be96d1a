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
	jobEnv       = "CROFT_WORKSPACETEST_JOB" // a job as JSON; set in a child process
	answerPrefix = "workspacetest-answer: "  // prefix of lines on standard output for the parent
)

// A childJob is what a child process does.
type childJob struct {
	Test   string        // name of the test that called Run
	Dir    string        //
	Verb   string        // open, resolve, destroy, update, write, start
	Spec   driver.Spec   //
	Ref    *driver.Ref   // of the workspace, for all but open
	Policy driver.Policy // for update
	KillAt int           // crash at this step, from 1; 0 is never, -1 is after the verb
	Seed   int64         // for write
	Script string        // for start
}

// An childAnswer is a line from a child.
type childAnswer struct {
	Ref   *driver.Ref `json:",omitempty"`
	Steps []string    `json:",omitempty"` // steps that were passed
	Err   *fault.Wire `json:",omitempty"`
	Name  string      `json:",omitempty"` // an acknowledged write, or a session
	Gen   int         `json:",omitempty"`
	Done  bool        `json:",omitempty"` // the verb is done
}

// inChild runs the job if this process is a child, and reports whether it is.
func inChild(t testing.TB, h Harness) bool {
	data := os.Getenv(jobEnv)
	if data == "" {
		return false
	}
	var j childJob
	if err := json.Unmarshal([]byte(data), &j); err != nil {
		t.Fatalf("decode job: %v", err)
	}
	if j.Test == t.Name() {
		j.runInChild(t, h)
	}
	return true
}

func (j childJob) runInChild(t testing.TB, h Harness) {
	var a childAnswer
	ctx := driver.WithSteps(t.Context(), func(step string) {
		a.Steps = append(a.Steps, step)
		if len(a.Steps) == j.KillAt {
			crashProcess()
		}
	})
	p := h.Provider(t, j.Dir)
	if err := j.runVerb(ctx, p, &a); err != nil {
		wire := fault.Encode(err)
		a.Err = &wire
	}
	a.Done = true
	a.sendLine()
	if j.KillAt != 0 {
		crashProcess()
	}
}

func (j childJob) runVerb(ctx context.Context, p driver.Provider, a *childAnswer) error {
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

func (a childAnswer) sendLine() {
	data, err := json.Marshal(a)
	if err != nil {
		panic(err) // answers are plain structs
	}
	// One write, so that a kill leaves the whole line or nothing.
	os.Stdout.WriteString("\n" + answerPrefix + string(data) + "\n") // the parent detects a failure
}

// crashProcess ends this process like a crash: nothing is flushed, nothing deferred runs.
func crashProcess() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	panic(fmt.Sprint("still alive after SIGKILL: ", err))
}

// A child is a process that runs a job.
type child struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr bytes.Buffer
	noise  strings.Builder // other output, for the error message
}

// startChild starts a child with the directory of the check.
func (e *Env) startChild(t testing.TB, j childJob) *child {
	t.Helper()
	j.Test, j.Dir = e.test, e.Dir
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatalf("encode job: %v", err)
	}
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run="+testPattern(e.test), "-test.count=1")}
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

// testPattern returns the -test.run pattern for one test or subtest.
func testPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// nextAnswer returns the child's next answer; false means that the child has ended.
func (c *child) nextAnswer(t testing.TB) (childAnswer, bool) {
	t.Helper()
	for c.lines.Scan() {
		line, ok := strings.CutPrefix(c.lines.Text(), answerPrefix)
		if !ok {
			c.noise.WriteString(c.lines.Text() + "\n")
			continue
		}
		var a childAnswer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("child answered %q: %v", line, err)
		}
		return a, true
	}
	return childAnswer{}, false
}

// kill ends the child with SIGKILL.
func (c *child) kill() {
	c.cmd.Process.Kill() // it may be dead already
	c.cmd.Wait()         // it was killed
}

// runChild runs a job until the child has ended. It returns the last answer; Done is false
// if the child crashed at the given step.
func (e *Env) runChild(t testing.TB, j childJob) childAnswer {
	t.Helper()
	c := e.startChild(t, j)
	var last childAnswer
	for {
		a, ok := c.nextAnswer(t)
		if !ok {
			break
		}
		last = a
	}
	err := c.cmd.Wait()
	if wasKilled(err) || err == nil && j.KillAt == 0 && last.Done {
		return last
	}
	t.Fatalf("child: %s: %v, want it to end by SIGKILL or by itself with an answer\n%s%s", j.Verb, err, c.noise.String(), c.stderr.String())
	return last
}

func wasKilled(err error) bool {
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // Wait returns it bare
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// asError converts a child's error to an error.
func (a childAnswer) asError() error {
	if a.Err == nil {
		return nil
	}
	return fmt.Errorf("in the child: %w", a.Err.Err())
}
