package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/shellword"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// scratch is the placeholder of a temporary directory in arguments. The directory exists
// while a job runs and is outside the workspace tree; files in its "report" directory are
// returned as reports.
const scratch = "{croft-scratch}"

// A job is one command, with how to read its output.
type job struct {
	argv  []string
	dir   string            // relative to the workspace
	env   map[string]string // values may contain scratch
	files map[string]string // written into scratch first: name to content
	merge bool              // redirect standard error to standard output

	// assigns is shell text before the command: assignments of variables, with a space at its end.
	assigns string

	// collect are patterns of reports that the tool writes into the tree; those written by
	// this run are returned.
	collect []reportPattern
}

// reportPattern matches reports in the tree.
type reportPattern struct{ dir, name string }

// A jobResult is the result of a job.
type jobResult struct {
	workspace.Result
	reports [][]byte
	lost    bool // reports exceeded maxReports
}

// Bounds of what is read.
const (
	maxReports = 64 << 20
	cleanTime  = 30 * time.Second // enough for a busy machine
)

// run runs a job. stdout and stderr receive the output of the tool, without reports.
func (j *job) run(ctx context.Context, ws *workspace.Workspace, o *Options, stdout, stderr func([]byte)) (jobResult, error) {
	mark, err := newMarker()
	if err != nil {
		return jobResult{}, err
	}
	cmd := driver.Command{Argv: j.argv, Dir: j.dir, Env: map[string]string{}, Timeout: o.Timeout, MaxOutput: int64(o.maxOutput())}
	maps.Copy(cmd.Env, plainEnv)
	scripted := j.merge || j.assigns != "" || j.usesScratch()
	if scripted {
		cmd.Argv, cmd.Script = nil, j.buildScript(mark)
	} else {
		maps.Copy(cmd.Env, j.env)
	}
	split := &splitter{mark: []byte("\n" + mark + "\n"), text: stdout}
	cmd.OnStdout = func(data []byte) error { split.write(data); return nil }
	cmd.OnStderr = func(data []byte) error { stderr(data); return nil }
	res, err := ws.Run(ctx, cmd)
	split.flush()
	if scripted && (err != nil || res.Cause != "") {
		j.finishInterrupted(ctx, ws, mark, split)
	}
	if err != nil {
		return jobResult{}, fmt.Errorf("verify: run %s: %w", strings.Join(j.argv, " "), err)
	}
	return jobResult{Result: res, reports: split.reports(mark), lost: split.lost}, nil
}

// plainEnv disables colours and prompts of tools, and npm's question for a newer npm, which
// the network of a workspace refuses.
var plainEnv = map[string]string{"NO_COLOR": "1", "TERM": "dumb", "CARGO_TERM_COLOR": "never", "npm_config_update_notifier": "false"}

func (o *Options) maxOutput() int {
	if o.MaxOutput > 0 {
		return o.MaxOutput
	}
	return DefaultMaxOutput
}

func newMarker() (string, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("verify: random name: %w: %w", fault.Internal, err)
	}
	return "croft-verify-" + hex.EncodeToString(b[:]), nil
}

func (j *job) usesScratch() bool {
	has := func(s string) bool { return strings.Contains(s, scratch) }
	return len(j.files) > 0 || len(j.collect) > 0 || slices.ContainsFunc(j.argv, has) || slices.ContainsFunc(slices.Collect(maps.Values(j.env)), has)
}

// buildScript returns a script that runs the command with a temporary directory and prints
// the reports after a marker, so that no file is left in the tree and no file outside the
// workspace needs to be read.
func (j *job) buildScript(mark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "d=\"${TMPDIR:-/tmp}/%s\"\nmkdir -p -m 700 \"$d/report\" || exit 125\ntrap 'rm -rf \"$d\"' EXIT\n", mark)
	for _, name := range slices.Sorted(maps.Keys(j.files)) {
		fmt.Fprintf(&b, "printf %%s %s > \"$d/%s\"\n", shellQuote(j.files[name]), name)
	}
	for _, key := range slices.Sorted(maps.Keys(j.env)) {
		fmt.Fprintf(&b, "export %s=%s", key, shellQuote(j.env[key]))
		if key == "PYTHONPATH" || key == "NODE_OPTIONS" { // to what is set already
			sep := map[string]string{"PYTHONPATH": ":", "NODE_OPTIONS": " "}[key]
			fmt.Fprintf(&b, "\"${%[1]s:+%[2]s$%[1]s}\"", key, sep)
		}
		b.WriteByte('\n')
	}
	if len(j.collect) > 0 {
		b.WriteString(": > \"$d/start\"\n")
	}
	b.WriteString(j.assigns)
	for i, a := range j.argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(shellQuote(a))
	}
	b.WriteString(" < /dev/null")
	if j.merge {
		b.WriteString(" 2>&1")
	}
	b.WriteString("\ns=$?\n")
	b.WriteString(j.emitScript(mark))
	b.WriteString("exit $s\n")
	return b.String()
}

// emitScript returns the part of a script that prints the marker and the reports.
func (j *job) emitScript(mark string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "printf '\\n%%s\\n' %s\n", mark)
	const emit = "while IFS= read -r -d '' f; do printf '%s %s\\n' " + "MARK" + " \"$(wc -c < \"$f\")\"; cat \"$f\"; done"
	each := strings.ReplaceAll(emit, "MARK", mark)
	fmt.Fprintf(&b, "find \"$d/report\" -type f -print0 | %s\n", each)
	for _, c := range j.collect {
		fmt.Fprintf(&b, "find . -type f -path %s -newer \"$d/start\" -print0 2>/dev/null | %s\n", shellQuote("*/"+c.dir+"/"+c.name), each)
	}
	return b.String()
}

// finishInterrupted reads the reports that an interrupted script left, such as those of a
// runner that hangs at its end, and removes its temporary directory.
func (j *job) finishInterrupted(ctx context.Context, ws *workspace.Workspace, mark string, split *splitter) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	script := fmt.Sprintf("d=\"${TMPDIR:-/tmp}/%s\"\ntrap 'rm -rf \"$d\"' EXIT\n", mark)
	if !split.found {
		script += j.emitScript(mark)
	}
	cmd := driver.Command{Script: script, Dir: j.dir}
	cmd.OnStdout = func(data []byte) error { split.write(data); return nil }
	// Best effort: the directory is below TMPDIR, and the workspace may be gone.
	_, _ = ws.Run(ctx, cmd)
	split.flush()
}

// shellQuote quotes a word for bash; scratch becomes the variable of the directory.
func shellQuote(word string) string {
	parts := strings.Split(word, scratch)
	for i, p := range parts {
		parts[i] = shellword.Quote(p)
	}
	return strings.Join(parts, `"$d"`)
}

// A splitter passes on text up to a marker and keeps what follows.
type splitter struct {
	mark    []byte
	text    func([]byte)
	pending []byte // the last bytes, which may be the beginning of the marker
	found   bool
	rest    []byte
	lost    bool
}

func (s *splitter) write(data []byte) {
	if s.found {
		s.keepReport(data)
		return
	}
	s.pending = append(s.pending, data...)
	if i := bytes.Index(s.pending, s.mark); i >= 0 {
		s.found = true
		s.passText(s.pending[:i+1])
		s.keepReport(s.pending[i+len(s.mark):])
		s.pending = nil
		return
	}
	if n := len(s.pending) - len(s.mark) + 1; n > 0 {
		s.passText(s.pending[:n])
		s.pending = append(s.pending[:0], s.pending[n:]...)
	}
}

func (s *splitter) passText(data []byte) {
	if len(data) > 0 {
		s.text(data)
	}
}

func (s *splitter) keepReport(data []byte) {
	if len(s.rest)+len(data) > maxReports {
		s.lost = true
		return
	}
	s.rest = append(s.rest, data...)
}

func (s *splitter) flush() {
	s.passText(s.pending)
	s.pending = nil
}

// reports splits what follows the marker: each report has a line with its length before it.
func (s *splitter) reports(mark string) [][]byte {
	var out [][]byte
	data := s.rest
	for {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		size, isHead := strings.CutPrefix(string(line), mark+" ")
		n, err := strconv.Atoi(strings.TrimSpace(size))
		if !ok || !isHead || err != nil || n < 0 || n > len(rest) {
			return out
		}
		out = append(out, rest[:n])
		data = rest[n:]
	}
}
