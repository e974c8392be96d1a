package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/auth"
	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/keylock"
	"github.com/croft-run/croft/internal/profile"
	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Config is what an Env is made of. Workspaces is required.
type Config struct {
	Tools      []*Tool
	Workspaces Workspaces

	// Sources provide further tools for each workspace, in addition to its extras that are
	// tool sources.
	Sources []Source

	// Commands returns the commands that replace the detected ones in the project of a
	// workspace, by the name and the id of the workspace; nil replaces none.
	Commands func(name, id string) profile.Commands

	// Profiled is called with each profile of a workspace that a tool looked at; nil is not.
	Profiled func(ws *workspace.Workspace, session string, p profile.Profile)

	Effects    []Effect      // run after files were changed
	EffectTime time.Duration // time limit of one effect; 0 is DefaultEffectTime
	EffectWait time.Duration // how long an answer waits for the effects; 0 is DefaultEffectWait

	// Around is called before each call of a tool that may change something, with the
	// subject of the call. If it fails, the call is refused. The returned function is
	// called after the call, whatever its result. Nil does nothing.
	Around func(ctx context.Context, c *Call, t *Tool, about string) (after func(context.Context) error, err error)

	// Records says what is recorded of the workspace with this id, for undo and diff. Nil
	// records nothing.
	Records func(ctx context.Context, id string) (Records, error)

	// Fork opens a workspace from a snapshot of the call's workspace and returns its name
	// for agents: name, or a generated one if name is empty. Nil disables forks.
	Fork func(ctx context.Context, c *Call, snapshot, name string) (string, error)

	Secrets *secret.Store // may be nil

	// SecretsOf maps the name and the id of a workspace to the name under which Secrets has
	// its set. Nil is the name itself.
	SecretsOf func(name, id string) string

	// Withheld lists the secrets that agents in the workspace with this id may not read,
	// because the egress proxy adds them to requests. Nil withholds none.
	Withheld func(ctx context.Context, id string) ([]string, error)

	Results  Results         // keeps long texts beyond this process; nil keeps them in memory only
	Finders  []secret.Finder // find secrets by their form
	Approval *Approval       // nil allows everything
	Events   event.Sink      // nil is event.Discard
	Log      *slog.Logger    // nil discards
	ReadOnly bool            // offer only read-only tools
	Readers  ReadScope       // the scope of a Read; "" is ReadProcess
	Missing  []string        // programs that the workspaces lack: tools that need one are not offered
	MaxText  int             // maximum bytes of one answer's text, and a note beside it; 0 is DefaultMaxText

	Heartbeat time.Duration // how often the client hears of a call that runs; 0 is DefaultHeartbeat
}

// An Env is the state that the calls of one server share. It is safe for concurrent use.
type Env struct {
	Config
	Reads    *Tracker
	Profiles *profile.Cache

	tools        map[string]*Tool
	results      resultStore
	scrubs       scrubbers
	perWorkspace workspaceValues
	changes      keylock.Locks[fileKey] // keyed mutexes of files
	shells       sync.Map               // id of a command -> name of its workspace
	effects      effectRuns
}

// NewEnv returns an Env. Two tools with one name are an error.
func NewEnv(cfg Config) (*Env, error) {
	e := &Env{Config: cfg, Reads: new(Tracker), Profiles: profile.NewCache(), tools: map[string]*Tool{}}
	if e.Events == nil {
		e.Events = event.Discard
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.MaxText == 0 {
		e.MaxText = DefaultMaxText
	}
	e.EffectTime = cmp.Or(cfg.EffectTime, DefaultEffectTime)
	e.Heartbeat = cmp.Or(cfg.Heartbeat, DefaultHeartbeat)
	e.EffectWait = cmp.Or(cfg.EffectWait, DefaultEffectWait)
	for _, t := range cfg.Tools {
		if _, dup := e.tools[t.Name]; dup {
			return nil, fmt.Errorf("tool: %s: %w: there are two tools of this name", t.Name, fault.AlreadyExists)
		}
		e.tools[t.Name] = t
	}
	return e, nil
}

// Close closes the per-workspace values of all workspaces.
func (e *Env) Close(ctx context.Context) error {
	e.effects.close("")
	return e.perWorkspace.closeWorkspace(ctx, "")
}

// Forget closes the per-workspace values of a workspace and drops what was recorded for it.
func (e *Env) Forget(ctx context.Context, id string) error {
	e.Reads.removeIf(func(k fileKey) bool { return k.workspace == id })
	e.Profiles.Forget(id)
	e.scrubs.remove(id)
	e.effects.close(id)
	return e.perWorkspace.closeWorkspace(ctx, id)
}

// EndSession drops the reads of a client that has disconnected for good.
func (e *Env) EndSession(session string) {
	if e.Readers == ReadSession {
		e.Reads.removeIf(func(k fileKey) bool { return k.reader == session })
	}
}

// Available lists the tools that can be called now, sorted by name: those for which a
// workspace has the capabilities and, in a read-only Env, those that change nothing. only
// is as in Request.
func (e *Env) Available(ctx context.Context, only string) ([]*Tool, error) {
	list, err := e.Scope(only).List(ctx)
	if err != nil {
		return nil, err
	}
	var out []*Tool
	for _, t := range e.Tools {
		if t.Family == Secrets && !e.hasSecrets(ctx, list) || t.Program != "" && slices.Contains(e.Missing, t.Program) {
			continue
		}
		if t.Name == watchEventsName && e.ReadOnly {
			continue // the tool that starts what it shows is not offered
		}
		if e.allowsTool(t) && (len(t.Needs) == 0 || slices.ContainsFunc(list, t.fitsWorkspace)) {
			out = append(out, t)
		}
	}
	for _, t := range e.workspaceTools(ctx, list) {
		if e.allowsTool(t) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, byName)
	return out, nil
}

// hasSecrets reports whether a workspace has a secret, or may have one.
func (e *Env) hasSecrets(ctx context.Context, list []Entry) bool {
	return e.Secrets != nil && slices.ContainsFunc(list, func(entry Entry) bool {
		names, err := e.Secrets.Names(ctx, e.secretScope(entry.Name, entry.ID))
		return len(names) > 0 || err != nil
	})
}

// allowsTool reports whether a read-only Env permits a tool.
func (e *Env) allowsTool(t *Tool) bool { return t.ReadOnly || !e.ReadOnly }

// fitsWorkspace reports whether a workspace has the needed capabilities, as far as known.
func (t *Tool) fitsWorkspace(entry Entry) bool {
	return entry.Capabilities == nil || len(t.missingCapabilities(entry.Capabilities)) == 0
}

func (t *Tool) missingCapabilities(has workspace.Capabilities) []workspace.Capability {
	var out []workspace.Capability
	for _, c := range t.Needs {
		if !has.Has(c) {
			out = append(out, c)
		}
	}
	return out
}

// A Request is one call as received from a client.
type Request struct {
	Tool    string
	Args    json.RawMessage
	Session string // of the client
	Only    string // the workspace that this client is bound to; "" is all

	MaxText int // as in Config, if it is less than that; 0 is that

	// Progress receives progress reports; may be nil.
	Progress func(Progress)

	// Ask asks the user for approval; nil if the client can't ask.
	Ask func(ctx context.Context, question string) (bool, error)
}

// A Result is the answer of a tool: text for the model, and the same as data.
type Result struct {
	Text       string
	Structured json.RawMessage // the data; nil for a TextOnly tool, see Data
	DataOnly   json.RawMessage // for a TextOnly tool: the data without the text
	Handle     string          // reads the whole text, if Text is head and tail
	Image      *Image          // may be nil

	content string // with DataOnly: the text in the data
}

// Data returns the complete data for any tool.
func (r Result) Data() json.RawMessage {
	if r.DataOnly == nil {
		return r.Structured
	}
	content, _ := encode(r.content) // a string can always be encoded
	return fmt.Appendf(nil, `%s,"content":%s}`, bytes.TrimSuffix(r.DataOnly, []byte("}")), content)
}

// maxErrorText bounds the text of an error, which may quote input of the client.
const maxErrorText = 16 << 10

// Run runs one call. An error has a code and a text for the model (ErrorText).
func (e *Env) Run(ctx context.Context, req Request) (Result, error) {
	res, err := e.run(ctx, req)
	if err != nil {
		if text := ErrorText(err); len(text) > maxErrorText {
			err = &textError{text: HeadTail(text, maxErrorText, ""), code: fault.Of(err), err: err}
		}
	}
	return res, err
}

func (e *Env) run(ctx context.Context, req Request) (_ Result, err error) {
	defer e.recoverPanic(req.Tool, &err)
	start := time.Now()
	t, err := e.findTool(ctx, req)
	if err != nil {
		return Result{}, err
	}
	args, err := splitArguments(req.Args)
	if err != nil {
		return Result{}, err
	}
	t.withoutAliases(args)
	name, err := workspaceArgument(args)
	if err != nil {
		return Result{}, err
	}
	if name == "" {
		name = e.shellWorkspace(ctx, req.Only, args)
	}
	chosen, err := e.chooseEntries(ctx, t, req.Only, name)
	if err != nil {
		if scrub, serr := e.scrubs.scrubberFor(ctx, e, ""); serr == nil {
			in, _ := t.decode(args) // as far as it goes
			e.emitCallEvent(ctx, req, "", scrub, t, primarySubject(t.subjects(in), ""), start, err)
		}
		return Result{}, err
	}
	if name == allWorkspaces {
		return e.fanOut(ctx, t, req, chosen, args, start)
	}
	return e.runInWorkspace(ctx, t, req, chosen[0], args, start)
}

// shellWorkspace returns the name of the workspace of the command or text that the argument
// shell_id names; "" if it is unknown or the client does not reach it.
func (e *Env) shellWorkspace(ctx context.Context, only string, args map[string]json.RawMessage) string {
	var id, name string
	if raw, ok := args["shell_id"]; !ok || json.Unmarshal(raw, &id) != nil {
		return ""
	}
	if kept, ok := e.results.get(id); ok {
		name = kept.workspace
	} else if owner, ok := e.shells.Load(id); ok {
		name = owner.(string)
	}
	if name != "" {
		if _, err := e.Scope(only).Find(ctx, name); err != nil {
			return ""
		}
	}
	return name
}

// findTool returns a tool by its name: a listed one, or one of a source.
func (e *Env) findTool(ctx context.Context, req Request) (*Tool, error) {
	name := req.Tool
	t, ok := e.tools[name]
	if !ok {
		list, err := e.Scope(req.Only).List(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range e.workspaceTools(ctx, list) {
			if s.Name == name {
				t, ok = s, true
			}
		}
	}
	switch {
	case !ok:
		for known := range e.tools {
			if strings.EqualFold(known, name) {
				return nil, Errorf(fault.NotFound, "unknown tool %q; there is %s", name, known)
			}
		}
		return nil, Errorf(fault.NotFound, "unknown tool %q", name)
	case !e.allowsTool(t):
		return nil, Errorf(fault.PermissionDenied, "%s changes things, and this server is read-only", name)
	}
	return t, nil
}

// runInWorkspace runs a call in one workspace and emits its event.
func (e *Env) runInWorkspace(ctx context.Context, t *Tool, req Request, entry Entry, args map[string]json.RawMessage, start time.Time) (res Result, err error) {
	defer e.recoverPanic(t.Name, &err)
	ws, err := e.Scope(req.Only).Get(ctx, entry.Name)
	if err != nil {
		return Result{}, err
	}
	scrub, err := e.scrubs.scrubberFor(ctx, e, e.secretScope(entry.Name, ws.ID()))
	if err != nil {
		return Result{}, fmt.Errorf("tool: secrets of %s: %w", entry.Name, err)
	}
	in, derr := t.decode(args)
	subjects := t.subjects(in)
	what := primarySubject(subjects, ws.Traits().Root)
	defer func() { e.emitCallEvent(ctx, req, ws.ID(), scrub, t, what, start, err) }()
	defer e.recoverPanic(t.Name, &err) // before the event, which has the error
	if missing := t.missingCapabilities(ws.Capabilities()); len(missing) > 0 {
		return Result{}, Errorf(fault.Unsupported, "%s needs the capability %s, which workspace %q does not have", t.Name, missing[0], entry.Name)
	}
	if derr != nil {
		return Result{}, &textError{text: scrub.String(ErrorText(derr)), code: fault.Of(derr), err: derr}
	}
	c := &Call{Env: e, Tool: t.Name, Name: entry.Name, Workspace: ws, Session: req.Session, Args: args, Workspaces: e.Scope(req.Only), only: req.Only, progress: req.Progress, maxText: req.MaxText, scrub: scrub}
	if err := e.checkApproval(ctx, c, req, t, subjects); err != nil {
		return Result{}, err
	}
	after, err := e.beforeCall(ctx, t, c, what.text)
	if err != nil {
		return e.finishCall(t, c, answer{}, "", err)
	}
	stop := c.heartbeat(ctx)
	a, err := e.callTool(ctx, t, c, in)
	stop()
	late := c.scrub.String(c.takeEffectNotes(pathSubjects(subjects)))
	return e.finishCall(t, c, a, late+after(), err)
}

// checkApproval checks the approval rules, if there are any.
func (e *Env) checkApproval(ctx context.Context, c *Call, req Request, t *Tool, subjects []subject) error {
	if e.Approval == nil {
		return nil
	}
	return e.Approval.checkCall(ctx, c, req, t, c.ruleTargets(ctx, subjects, e.Approval.hasSubjectRule(t.Name)))
}

// beforeCall calls Config.Around for a call that may change something. The returned
// function is called after the call and returns a note for the model.
func (e *Env) beforeCall(ctx context.Context, t *Tool, c *Call, what string) (after func() string, err error) {
	if e.Around == nil || t.ReadOnly {
		return func() string { return "" }, nil
	}
	title := t.Name
	if what != "" {
		title += " " + c.scrub.String(what)
	}
	end, err := e.Around(ctx, c, t, title)
	if err != nil {
		return nil, err
	}
	return func() string {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), aroundTimeout)
		defer cancel()
		if err := end(ctx); err != nil {
			e.Log.Warn("after a call", "tool", t.Name, "workspace", c.Name, "error", err)
			return "\n\nafter the call: " + c.scrub.String(ErrorText(err)) + "\n"
		}
		return ""
	}, nil
}

// aroundTimeout bounds the work after a call, which also runs if the client has gone.
const aroundTimeout = time.Minute

// callTool calls the function of a tool. A panic becomes the error of the call. An error
// without a code gets Failed.
func (e *Env) callTool(ctx context.Context, t *Tool, c *Call, in any) (a answer, err error) {
	defer e.recoverPanic(t.Name, &err)
	a, err = t.call(ctx, c, in)
	return a, fault.Default(err, fault.Failed)
}

// recoverPanic, deferred, makes a panic the error of the call.
func (e *Env) recoverPanic(tool string, err *error) {
	if p := recover(); p != nil {
		e.Log.Error("tool panicked", "tool", tool, "panic", p, "stack", string(debug.Stack()))
		*err = Errorf(fault.Internal, "%s: a defect of Croft ended this call; the server's log has it", tool)
	}
}

// finishCall scrubs and truncates the answer of a call.
func (e *Env) finishCall(t *Tool, c *Call, a answer, note string, err error) (Result, error) {
	if err != nil {
		if fault.Of(err) == fault.Internal || fault.IsPrivate(err) {
			e.Log.Error("tool failed", "tool", t.Name, "workspace", c.Name, "error", err)
		}
		return Result{}, &textError{text: c.scrubLearned(ErrorText(err)), code: fault.Of(err), err: err}
	}
	scrub := c.scrub
	if t.Unscrubbed {
		scrub = nil
	}
	res, err := a.toResult(scrub, c.learned)
	if err != nil {
		return Result{}, fmt.Errorf("tool: encode the answer: %w: %w", fault.Internal, err)
	}
	res.Text += note
	res.Image = a.image
	return c.truncateResult(t, res), nil
}

// secretScope returns the name under which the secret store has the workspace's set.
func (e *Env) secretScope(name, id string) string {
	if e.SecretsOf == nil {
		return name
	}
	return e.SecretsOf(name, id)
}

// fanOut runs a call in several workspaces concurrently.
func (e *Env) fanOut(ctx context.Context, t *Tool, req Request, list []Entry, args map[string]json.RawMessage, start time.Time) (Result, error) {
	results, errs := make([]Result, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for i, entry := range list {
		wg.Go(func() { results[i], errs[i] = e.runInWorkspace(ctx, t, req, entry, args, start) })
	}
	wg.Wait()
	return joinResults(list, results, errs)
}

// emitCallEvent emits the event of a call, scrubbed.
func (e *Env) emitCallEvent(ctx context.Context, req Request, id string, scrub *secret.Scrubber, t *Tool, what subject, start time.Time, err error) {
	if errors.Is(err, ErrPending) {
		return
	}
	fields := map[string]any{event.FieldTool: t.Name, event.FieldDuration: time.Since(start).Milliseconds()}
	if what.text != "" {
		field := event.FieldPath
		if what.kind == driver.ArgCommand {
			field = event.FieldCommand
		}
		fields[field] = event.Cut(scrub.String(what.text))
	}
	if err != nil {
		fields[event.FieldCode] = fault.Of(err).Wire()
		fields[event.FieldMessage] = event.Cut(scrub.String(ErrorText(err)))
	}
	e.Events.Emit(event.Event{Kind: event.ToolCall, Tenant: auth.Tenant(ctx), Workspace: id, Session: req.Session, Fields: fields})
}
