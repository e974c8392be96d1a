package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// opencode is the agent opencode.
type opencode struct{ program }

func (opencode) Type() string { return "opencode" }

const opencodeHome = "opencode-xdg"

// Prepare sets the homes of opencode by the XDG variables, with the user's credentials.
func (c opencode) Prepare(_ context.Context, in Input) (Invocation, error) {
	d, err := in.openHome(".local/share/opencode", []string{"auth.json"}, filepath.Join(xdgDir("data"), "opencode"), xdgDir("config"), xdgDir("state"), xdgDir("cache"))
	if err != nil {
		return Invocation{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	args := []string{"run", "--model", c.cfg.Model}
	if in.Resume != "" {
		args = append(args, "--session", in.Resume)
	}
	args = append(args, "--format", "json", "--thinking")
	env := c.homeEnv(in)
	if _, err := offerTools(c.Type(), d, in, env); err != nil {
		return Invocation{}, err
	}
	return Invocation{Argv: c.buildArgv("opencode", in.Prompt, args...), Env: env, Dir: in.Dir, user: d.user, Hosts: c.providerHosts()}, nil
}

func xdgDir(kind string) string { return filepath.Join(opencodeHome, kind) }

func (c opencode) homeEnv(in Input) map[string]string {
	own := map[string]string{}
	if in.Sandboxed {
		maps.Copy(own, map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"})
	}
	for _, kind := range []string{"data", "config", "state", "cache"} {
		own["XDG_"+strings.ToUpper(kind)+"_HOME"] = filepath.Join(in.homeDir(), xdgDir(kind))
	}
	return c.envOver(own)
}

// providerHosts returns the host of the model's provider, which is the first part of the
// model's name: of the endpoint in its configuration, or the known one.
func (c opencode) providerHosts() []string {
	cfg := c.cfg
	cfg.Env = mergeEnv(cfg.Env, nil) // which is changed
	if _, up, err := redirectOpencode(cfg, ""); err == nil {
		return []string{up.Host}
	}
	if id, _, _ := strings.Cut(c.cfg.Model, "/"); id == "github-copilot" {
		return []string{"api.githubcopilot.com"}
	}
	return nil // opencode reports it
}

// Steps counts step_finish records.
func (opencode) Steps() func([]byte) int {
	steps := 0
	return func(line []byte) int {
		if parseRecord(line).kind() == "step_finish" {
			steps++
		}
		return steps
	}
}

// Rejected looks for an error about the model in a session without a step. After an
// unknown error the list of models decides.
func (c opencode) Rejected(ctx context.Context, r Runner, in Input, out Output) bool {
	refused, unknown := false, false
	for _, rec := range readRecords(out.Stdout) {
		switch rec.kind() {
		case "text", "tool_use", "reasoning", "step_finish":
			return false
		case "error":
			name, message := opencodeError(rec)
			refused = refused || name == "ProviderModelNotFoundError" || strings.HasPrefix(message, "Model not found:")
			unknown = unknown || name == "UnknownError"
		}
	}
	if refused || bytes.Contains(out.Stderr, []byte("ProviderModelNotFoundError")) {
		return true
	}
	return unknown && c.lacksModel(ctx, r, in)
}

// lacksModel reports whether the configured model is not in the list of models that
// opencode prints.
func (c opencode) lacksModel(ctx context.Context, r Runner, in Input) bool {
	var models, errs limitedBuffer
	argv := slices.Concat([]string{c.commandName("opencode")}, c.cfg.CommandArgs, []string{"models"})
	exit, err := r.Run(ctx, Invocation{Argv: argv, Env: c.homeEnv(in), Dir: in.Dir, Timeout: salvageTimeout, Stdout: &models, Stderr: &errs})
	known := strings.Fields(models.String())
	return err == nil && exit.OK() && len(known) > 0 && !slices.Contains(known, c.cfg.Model)
}

// A limitedBuffer keeps the first megabyte that is written to it.
type limitedBuffer struct{ bytes.Buffer }

func (l *limitedBuffer) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, 1<<20-l.Len()))])
	return len(p), nil
}

// opencodeError returns the name and the message of an error in the stream.
func opencodeError(r record) (name, message string) {
	e := r.obj("error")
	message = e.str("message")
	if message == "" {
		message = e.obj("data").str("message")
	}
	return e.str("name"), message
}

var sessionID = lazyregexp.New(`\b(ses_[A-Za-z0-9]+)\b`)

// Collect exports the session with "opencode export".
func (c opencode) Collect(ctx context.Context, r Runner, in Input, out Output) (Raw, error) {
	raw := Raw{Output: out}
	for _, text := range [][]byte{out.Stdout, out.Stderr} {
		for _, rec := range readRecords(text) {
			if _, message := opencodeError(rec); rec.kind() == "error" && message != "" {
				return raw, skillgymError("OpenCode run failed: " + message)
			}
		}
	}
	d, err := openDir(in.homeDir())
	if err != nil {
		return raw, err
	}
	defer d.Close() //nolint:errcheck // only read from
	raw.SessionID = opencodeSession(d, out)
	if raw.SessionID == "" {
		return raw, skillgymError("OpenCode run did not emit a session id; cannot export structured session data.")
	}
	exported, err := c.exportSession(ctx, r, in, raw.SessionID, out.Exit.OK())
	if err != nil {
		return raw, err
	}
	a, err := openDir(in.Artifacts)
	if err != nil {
		return raw, err
	}
	defer a.Close() //nolint:errcheck // only read from
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, exported, "", "  "); err != nil {
		return raw, skillgymError("OpenCode export returned invalid JSON: " + err.Error())
	}
	if err := a.write("session.export.json", append(pretty.Bytes(), '\n'), 0o600); err != nil {
		return raw, err
	}
	if err := a.write("raw-run.jsonl", out.Stdout, 0o600); err != nil {
		return raw, err
	}
	raw.Session, raw.ExportPath = exported, a.path("session.export.json")
	if id, ok := parseRecord(exported).obj("info").text("id"); ok {
		raw.SessionID = id
	}
	return raw, nil
}

// opencodeSession returns the session id: of a record of the stream, else of a match in
// the output, else in the newest log.
func opencodeSession(d *agentDir, out Output) string {
	for _, r := range readRecords(out.Stdout) {
		if id := r.str("sessionID"); sessionID.MatchString(id) {
			return id
		}
	}
	texts := [][]byte{out.Stdout, out.Stderr}
	if log := d.newestFile(filepath.Join(xdgDir("data"), "opencode", "log"), ".log", out.Started); log != "" {
		if text, err := d.read(log); err == nil {
			texts = append(texts, text)
		}
	}
	for _, text := range texts {
		if m := sessionID.FindSubmatch(text); m != nil {
			return string(m[1])
		}
	}
	return ""
}

// exportPauses are the pauses (backoff) between attempts to export: opencode may answer
// before it has written the session.
var exportPauses = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}

// salvageTimeout bounds the export of a failed session.
const salvageTimeout = 20 * time.Second

// exportSession runs "opencode export" until it prints a session. A failed session is
// exported once.
func (c opencode) exportSession(ctx context.Context, r Runner, in Input, id string, well bool) (json.RawMessage, error) {
	inv := Invocation{Env: c.homeEnv(in), Dir: in.Dir, Timeout: in.Timeout}
	pauses := exportPauses
	if !well {
		inv.Timeout, pauses = salvageTimeout, nil
	}
	inv.Argv = append([]string{c.commandName("opencode")}, c.cfg.CommandArgs...)
	inv.Argv = append(inv.Argv, "export", id)
	d, err := openDir(filepath.Join(in.Artifacts, "export-command"))
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // only read from
	none := func([]byte) int { return 0 }
	for try := 0; ; try++ {
		o, _, err := runLogged(ctx, r, d, inv, in, none)
		if err != nil {
			return nil, startFailure(inv, err)
		}
		if !o.Exit.OK() {
			return nil, exitFailure(inv, in, o)
		}
		exported, err := parseExport(o.Stdout)
		if err == nil || try >= len(pauses) {
			return exported, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("agent: export %s: %w: %w", id, fault.Canceled, context.Cause(ctx))
		case <-time.After(pauses[try]):
		}
	}
}

// parseExport finds the session in the output of the export, which may have other text
// around it.
func parseExport(text []byte) (json.RawMessage, error) {
	if i, j := bytes.IndexByte(text, '{'), bytes.LastIndexByte(text, '}'); i >= 0 && j > i {
		text = text[i : j+1]
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, skillgymError("OpenCode export returned invalid JSON: " + err.Error())
	}
	raw := b.Bytes()
	if r := parseRecord(raw); r.obj("info") == nil || len(r["messages"]) == 0 || r["messages"][0] != '[' {
		return nil, skillgymError("OpenCode export was missing required session fields.")
	}
	return raw, nil
}

// Normalize reads the export.
func (opencode) Normalize(in Input, raw Raw) (*session.Report, error) {
	whole := parseRecord(raw.Session)
	if whole.obj("info") == nil {
		return nil, skillgymError("OpenCode artifacts did not include a structured export session.")
	}
	var n opencodeReader
	for _, m := range whole.list("messages") {
		info := m.obj("info")
		n.role, n.at = session.Role(info.str("role")), info.obj("time").timeText("created")
		n.dir = cmp.Or(info.obj("path").str("cwd"), in.Dir)
		n.addUsage(info)
		for _, part := range m.list("parts") {
			n.readPart(part)
		}
	}
	if n.b.Tokens.Input != nil {
		n.b.Tokens.Input = new(*n.b.Tokens.Input + valueOrZero(n.b.Tokens.Cache))
	}
	return n.b.Report(in.Runner, in.Prompt), nil
}

type opencodeReader struct {
	b    session.Builder
	role session.Role
	dir  string
	at   string
}

// addUsage adds the token counts and cost of one message.
func (n *opencodeReader) addUsage(info record) {
	tokens, t := info.obj("tokens"), &n.b.Tokens
	t.Input = addCounts(t.Input, tokens.num("input"))
	t.Output = addCounts(t.Output, tokens.num("output"))
	t.Reasoning = addCounts(t.Reasoning, tokens.num("reasoning"))
	t.Cache = addCounts(t.Cache, tokens.obj("cache").num("read"))
	if usd := info.num("cost"); usd != nil {
		if n.b.Cost == nil {
			n.b.Cost = &session.Cost{}
		}
		n.b.Cost.USD += *usd
	}
}

// addCounts adds counts; nil is unknown.
func addCounts(a, b *float64) *float64 {
	if b == nil {
		return a
	}
	return new(valueOrZero(a) + *b)
}

func (n *opencodeReader) readPart(p record) {
	state := p.obj("state")
	at := n.at
	if at == "" {
		at = state.obj("time").timeText("start")
	}
	switch text, isText := p.text("text"); {
	case p.kind() == "reasoning" && isText:
		n.b.Say(session.Thinking, text, at)
	case p.kind() == "text" && isText && n.role == session.Assistant:
		phase := session.Final
		if strings.Contains(text, "I'm") || strings.Contains(text, "I’m") {
			phase = session.Commentary
		}
		n.b.Say(phase, text, at)
	case p.kind() == "text" && isText && n.role == session.User:
		n.b.Add(session.Event{Type: session.Message, Role: session.User, Text: text, At: at})
	case p.kind() == "tool":
		if tool, ok := p.text("tool"); ok {
			n.readTool(tool, state, at)
		}
	}
}

func (n *opencodeReader) readTool(tool string, state record, at string) {
	input := state.obj("input")
	if skill, ok := input.text("name"); ok && tool == "skill" {
		n.b.Skill(skill, "Loaded via skill tool", at)
	}
	n.b.Add(session.Event{Type: session.ToolCall, Tool: tool, Args: state.raw("input"), At: at})
	if output := state.textOrJSON("output"); output != "" {
		end := cmp.Or(state.obj("time").timeText("end"), at)
		n.b.Add(session.Event{Type: session.ToolResult, Tool: tool, Output: output, At: end})
	}
	dir := n.dir
	if d, ok := input.firstText("workdir", "cwd"); ok {
		dir = d
	}
	if command, ok := input.text("command"); ok {
		cmd := n.b.Run(command, dir, at)
		if code := state.obj("metadata").num("exit"); code != nil {
			cmd.ExitCode = new(int(*code))
		}
		if from, to := state.obj("time").num("start"), state.obj("time").num("end"); from != nil && to != nil {
			cmd.DurationMs = new(*to - *from)
		}
	}
	if tool == "read" {
		n.b.Read(input.str("filePath"), dir, at)
	}
}
