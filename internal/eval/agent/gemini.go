package agent

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"

	"github.com/croft-run/croft/eval/session"
)

// gemini is Gemini CLI.
type gemini struct{ program }

func (gemini) Type() string { return "gemini" }

const geminiHome = "gemini-home"

// Prepare sets the home of Gemini CLI by GEMINI_CLI_HOME, with the user's credentials,
// settings and memory.
func (c gemini) Prepare(_ context.Context, in Input) (Invocation, error) {
	files := []string{"oauth_creds.json", "google_accounts.json", "settings.json", "GEMINI.md", ".env", "installation_id"}
	d, err := in.openHome(".gemini", files, filepath.Join(geminiHome, ".gemini"))
	if err != nil {
		return Invocation{}, err
	}
	defer d.Close() //nolint:errcheck // only read from
	if _, err := offerTools(c.Type(), d, in, nil); err != nil {
		return Invocation{}, err
	}
	args := []string{"--model", c.cfg.Model, "--yolo", "--output-format", "stream-json"}
	if in.Resume != "" {
		args = append(args, "--resume", in.Resume)
	}
	argv := append([]string{c.commandName("gemini")}, c.cfg.CommandArgs...)
	argv = append(argv, args...)
	// A prompt that looks like an option is joined to its flag.
	if strings.HasPrefix(in.Prompt, "-") {
		argv = append(argv, "--prompt="+in.Prompt)
	} else {
		argv = append(argv, "-p", in.Prompt)
	}
	env := c.envUnder(map[string]string{"GEMINI_CLI_HOME": d.path(geminiHome), "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true"})
	return Invocation{Argv: argv, Env: env, Dir: in.Dir, user: d.user,
		Hosts: c.modelHosts("GOOGLE_GEMINI_BASE_URL", "generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com")}, nil
}

// Steps counts rounds with the model. A round is streamed in pieces, and ends with a tool
// result.
func (gemini) Steps() func([]byte) int {
	steps, open := 0, false
	return func(line []byte) int {
		r := parseRecord(line)
		switch k := r.kind(); {
		case k == "tool_use", k == "message" && r.str("role") == "assistant":
			if !open {
				steps++
			}
			open = true
		case k == "tool_result":
			open = false
		}
		return steps
	}
}

// Rejected looks for an error about the model, in a session without an answer of a model.
func (gemini) Rejected(_ context.Context, _ Runner, _ Input, out Output) bool {
	refused := false
	for _, r := range readRecords(out.Stdout) {
		switch k := r.kind(); {
		case k == "tool_use", k == "message" && r.str("role") == "assistant":
			return false
		case k == "error":
			refused = refused || isGeminiModelError(r.str("message"))
		case k == "result":
			e := r.obj("error")
			refused = refused || e.kind() == "ModelNotFoundError" || isGeminiModelError(e.str("message"))
		}
	}
	return refused || bytes.Contains(out.Stderr, []byte("ModelNotFoundError"))
}

func isGeminiModelError(message string) bool {
	return isModelError(message) || strings.Contains(message, "Requested entity was not found") ||
		(strings.Contains(message, "models/") && strings.Contains(message, "is not found"))
}

// Collect keeps the stream, and finds the session file of Gemini CLI, which has data that
// is not in the stream.
func (gemini) Collect(_ context.Context, _ Runner, in Input, out Output) (Raw, error) {
	raw, err := saveStream(in, out, func(r record) (string, bool) {
		id, ok := r.text("session_id")
		return id, ok && r.kind() == "init"
	})
	if err != nil {
		return Raw{}, err
	}
	d, err := openDir(in.homeDir())
	if err != nil {
		return raw, err
	}
	defer d.Close() //nolint:errcheck // only read from
	for _, ext := range []string{".jsonl", ".json"} {
		kept := d.newestFile(filepath.Join(geminiHome, ".gemini", "tmp"), ext, out.Started)
		if !strings.Contains(filepath.ToSlash(kept), "/chats/") {
			continue
		}
		text, err := d.read(kept)
		if err != nil {
			return raw, err
		}
		raw.Telemetry, raw.SessionPath = text, d.path(kept)
		break
	}
	return raw, nil
}

// Normalize reads the stream.
func (gemini) Normalize(in Input, raw Raw) (*session.Report, error) {
	n := geminiReader{dir: in.Dir, calls: map[string]toolCall{}, saved: readGemini(raw.Telemetry)}
	n.b.Fallback = raw.Stdout
	for _, r := range readRecords(raw.Session) {
		at := r.str("timestamp")
		switch r.kind() {
		case "message":
			n.readMessage(r, at)
		case "tool_use":
			n.readCall(r, at)
		case "tool_result":
			n.readResult(r, at)
		case "result":
			n.readStats(r.obj("stats"))
		}
	}
	n.flushMessage()
	return n.b.Report(in.Runner, in.Prompt), nil
}
