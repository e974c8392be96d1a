package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-run/croft/internal/lazyregexp"
)

// codex is OpenAI's Codex.
type codex struct{ program }

func (codex) Type() string { return "codex" }

const codexHome = "codex-home"

// Prepare sets the home of Codex by CODEX_HOME, with the user's credentials, settings and
// memory.
func (c codex) Prepare(_ context.Context, in Input) (Invocation, error) {
	sqlite := filepath.Join(codexHome, "sqlite")
	d, err := in.openHome(".codex", []string{"auth.json", "config.toml", "version.json", "AGENTS.md", ".codex-global-state.json"}, codexHome, sqlite)
	if err != nil {
		return Invocation{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	tools, err := offerTools(c.Type(), d, in, nil)
	if err != nil {
		return Invocation{}, err
	}
	env := c.envOver(map[string]string{"CODEX_HOME": d.path(codexHome), "CODEX_SQLITE_HOME": d.path(sqlite)})
	hosts := c.modelHosts("OPENAI_BASE_URL", "api.openai.com", "chatgpt.com", "auth.openai.com")
	if provider, base, err := CodexModel(c.cfg); err == nil && provider != "" { // Codex reports wrong settings itself
		hosts = []string{base.Host}
	}
	return Invocation{Argv: c.execArgv(in, tools), Env: env, Dir: in.Dir, user: d.user, Hosts: hosts}, nil
}

// execArgv returns the command line. The default program npx needs the argument codex; a
// program that is codex itself does not.
func (c codex) execArgv(in Input, tools []string) []string {
	var args []string
	if program := c.commandName("npx"); strings.TrimSuffix(filepath.Base(program), ".js") != "codex" {
		args = append(args, "codex")
	}
	args = slices.Concat(args, []string{"exec"}, c.cfg.execArgs, tools)
	if in.Sandboxed {
		args = append(args, "--dangerously-bypass-approvals-and-sandbox")
	}
	args = append(args, "--model", c.cfg.Model) // a session that is resumed does not remember it
	if in.Resume != "" {
		args = append(args, "--skip-git-repo-check", "resume")
		if strings.HasPrefix(in.Prompt, "-") {
			return c.buildArgv("npx", in.Prompt, append(args, "--json", in.Resume)...)
		}
		return append(c.buildArgv("npx", in.Prompt, append(args, in.Resume)...), "--json")
	}
	return c.buildArgv("npx", in.Prompt, append(args, "--json", "--skip-git-repo-check", "-C", in.Dir)...)
}

// Steps counts messages of the agent.
func (codex) Steps() func([]byte) int {
	seen, steps := map[string]bool{}, 0
	return func(line []byte) int {
		r := parseRecord(line)
		if r.kind() != "item.completed" || r.obj("item").kind() != "agent_message" {
			return steps
		}
		if id, ok := r.obj("item").text("id"); ok {
			if seen[id] {
				return steps
			}
			seen[id] = true
		}
		steps++
		return steps
	}
}

// Rejected looks for an error of the API about the model, in a session without an answer
// of a model.
func (codex) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	refused := false
	for _, r := range readRecords(out.Stdout) {
		switch r.kind() {
		case "item.completed":
			if k := r.obj("item").kind(); k != "error" {
				return false
			}
		case "error":
			refused = refused || isModelError(r.str("message"))
		case "turn.failed":
			refused = refused || isModelError(r.obj("error").str("message"))
		}
	}
	return refused
}

// isModelError reports whether a message of an API says that a model is not available.
func isModelError(message string) bool {
	for _, said := range []string{"model is not supported", "model_not_found", "Model not found", "Cannot use this model:",
		"does not exist or you do not have access"} {
		if strings.Contains(message, said) {
			return true
		}
	}
	return false
}

// Collect takes the newest session file that Codex wrote since its start, else its
// standard output.
func (codex) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	raw := Raw{Output: out, Session: out.Stdout}
	d, err := openDir(in.homeDir())
	if err != nil {
		return raw, err
	}
	defer d.Close() //nolint:errcheck // only read from
	kept := d.newestFile(filepath.Join(codexHome, "sessions"), ".jsonl", out.Started)
	if kept != "" {
		text, err := d.read(kept)
		if err != nil {
			return raw, err
		}
		raw.Session, raw.SessionPath = text, d.path(kept)
	}
	raw.SessionID = codexSession(allRecords(out.Stdout), raw)
	if kept == "" && len(bytes.TrimSpace(out.Stdout)) == 0 {
		return raw, nil
	}
	a, err := openDir(in.Artifacts)
	if err != nil {
		return raw, err
	}
	defer a.Close() //nolint:errcheck // only read from
	raw.ExportPath = a.path("session.jsonl")
	return raw, a.write("session.jsonl", raw.Session, 0o600)
}

// newestFile returns the most recently changed file below a directory, "" if none was
// changed since the given time.
func (d *agentDir) newestFile(below, ext string, since time.Time) string {
	found, changed := "", since.Add(-time.Second)
	walk := func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.HasSuffix(name, ext) {
			return nil // unreadable entries are skipped
		}
		if info, err := e.Info(); err == nil && !info.ModTime().Before(changed) {
			found, changed = name, info.ModTime()
		}
		return nil
	}
	_ = fs.WalkDir(d.root.FS(), filepath.ToSlash(below), walk) // walk returns no error
	return filepath.FromSlash(found)
}

var uuidAtEnd = lazyregexp.New(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// codexSession returns the session id from the stream, else from the session file, else
// from its name.
func codexSession(stdout []record, raw Raw) string {
	for _, r := range stdout {
		switch r.kind() {
		case "thread.started":
			if id, ok := r.text("thread_id"); ok {
				return id
			}
		case "session_meta":
			if id, ok := r.firstText("thread_id", "session_id"); ok {
				return id
			}
		}
	}
	if raw.SessionPath == "" {
		return ""
	}
	for _, r := range readRecords(raw.Session) {
		if id, ok := r.obj("payload").text("id"); ok && r.kind() == "session_meta" {
			return id
		}
	}
	name := strings.TrimSuffix(path.Base(filepath.ToSlash(raw.SessionPath)), ".jsonl")
	if id := uuidAtEnd.FindString(name); id != "" {
		return id
	}
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		return name[i+1:]
	}
	return ""
}

// shellCommand returns the command of a call of one of Codex's shell tools: a script, or
// the words of a command line.
func shellCommand(args record) (string, bool) {
	if s, ok := args.firstText("cmd", "command"); ok {
		return s, true
	}
	for _, key := range []string{"command", "cmd"} {
		var words []string
		if json.Unmarshal(args[key], &words) != nil || len(words) == 0 {
			continue
		}
		if len(words) == 3 && (words[1] == "-lc" || words[1] == "-c") {
			return words[2], true
		}
		return strings.Join(words, " "), true
	}
	return "", false
}
