package lsp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
	"github.com/croft-run/croft/internal/tool/verify"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// A client is one running language server.
type client struct {
	*conn
	spec    *server
	ws      *workspace.Workspace
	root    string
	started time.Time
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	stdin   io.WriteCloser
	caps    capabilities
	stderr  tail.Buffer

	announces bool // the server reports when it begins to load the project

	docMu sync.Mutex
	docs  map[string]*document // open in the server, by name; guarded by docMu

	stateMu      sync.Mutex
	busy         map[string]bool          // running progress tokens; guarded by stateMu
	begun        bool                     // progress was reported once; guarded by stateMu
	stateChanged chan struct{}            // closed and replaced at each change of state; guarded by stateMu
	found        map[string]*publishedSet // published diagnostics by URI; guarded by stateMu
	result       *workspace.Result        // how the process ended; guarded by stateMu
}

// capabilities are the server capabilities that this client uses.
type capabilities struct {
	Diagnostic json.RawMessage `json:"diagnosticProvider"`
	Rename     json.RawMessage `json:"renameProvider"`
}

// A publishedSet is one publication of diagnostics for a file.
type publishedSet struct {
	version int // -1 if unknown
	serial  int // sequence number of the publication
	at      time.Time
	list    []wireDiagnostic
}

// startServer starts and initializes a server. The server outlives ctx.
func startServer(ctx context.Context, ws *workspace.Workspace, spec *server) (*client, error) {
	root := ws.Traits().Root
	if root == "" {
		return nil, fmt.Errorf("lsp: start %s: %w: the workspace has no root path", spec.name, fault.Unsupported)
	}
	c := &client{
		spec: spec, ws: ws, root: root, started: time.Now(), announces: spec.announcesLoading(ctx, ws),
		docs: map[string]*document{}, busy: map[string]bool{}, stateChanged: make(chan struct{}), found: map[string]*publishedSet{},
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	cmd := ws.Script(life, spec.startScript())
	cmd.Env, cmd.Stderr = spec.env, &c.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("lsp: start %s: %w", spec.name, err)
	}
	c.stdin = stdin
	c.conn = newConn(stdin, c.handleServer)
	c.wg.Go(func() { c.readLoop(stdout); stdout.Close() })
	c.wg.Go(c.writeLoop)
	c.wg.Go(func() {
		_ = cmd.Wait() // the exit status is in the result
		c.stateMu.Lock()
		c.result = cmd.Result
		c.stateMu.Unlock()
	})
	if err := c.initialize(ctx); err != nil {
		c.kill()
		return nil, c.explainStart(err)
	}
	return c, nil
}

// explainStart distinguishes a server that is not installed from one that fails.
func (c *client) explainStart(err error) error {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	switch {
	case c.result != nil && c.result.ExitCode == notFound && c.result.Cause == "":
		return &Error{c.spec.missingText() + verify.MissingHint(c.ws, c.spec.commands[0][0]), fault.Unavailable}
	case errors.Is(err, errDied) && c.stderr.String() != "":
		said := append([]string{c.stderr.String()}, verify.Hints(c.ws, c.refused(), c.stderr.String())...)
		return fmt.Errorf("%w: it said: %s", err, strings.Join(said, "\n"))
	}
	return err
}

// refused returns the hosts that the server did not reach, once it ended; stateMu is held.
func (c *client) refused() []driver.Refusal {
	if c.result == nil {
		return nil
	}
	return c.result.Refused
}

func (c *client) initialize(ctx context.Context) error {
	params := map[string]any{
		"processId": nil, // the server is in another PID namespace, and would watch a wrong process
		"rootUri":   uriOf(c.root, ""), "rootPath": c.root,
		"workspaceFolders": []any{map[string]any{"uri": uriOf(c.root, ""), "name": "workspace"}},
		"clientInfo":       map[string]any{"name": "croft"},
		"capabilities": map[string]any{
			"general": map[string]any{"positionEncodings": []string{"utf-16"}},
			"window":  map[string]any{"workDoneProgress": true},
			"workspace": map[string]any{
				"configuration": true, "workspaceFolders": true, "symbol": map[string]any{},
				"didChangeWatchedFiles": map[string]any{"dynamicRegistration": true},
				"workspaceEdit":         map[string]any{"documentChanges": true},
			},
			"textDocument": map[string]any{
				"synchronization": map[string]any{"didSave": true}, "hover": map[string]any{"contentFormat": []string{"markdown", "plaintext"}},
				"definition": map[string]any{"linkSupport": true}, "references": map[string]any{}, "rename": map[string]any{},
				"documentSymbol":     map[string]any{"hierarchicalDocumentSymbolSupport": true},
				"publishDiagnostics": map[string]any{"versionSupport": true}, "diagnostic": map[string]any{},
			},
		},
		"initializationOptions": c.spec.options,
	}
	var result struct {
		Capabilities capabilities `json:"capabilities"`
	}
	if err := c.call(ctx, "initialize", params, &result); err != nil {
		return err
	}
	c.caps = result.Capabilities
	return c.notify("initialized", struct{}{})
}

// handleServer answers requests of the server and records its notifications.
func (c *client) handleServer(method string, params json.RawMessage) (any, error) {
	switch method {
	case "textDocument/publishDiagnostics":
		var p publishParams
		if err := json.Unmarshal(params, &p); err == nil {
			c.storeDiagnostics(p)
		}
	case "$/progress":
		c.noteProgress(params)
	case "workspace/configuration":
		return c.answerConfiguration(params), nil
	case "workspace/applyEdit":
		return map[string]bool{"applied": false}, nil // a server must not change files by itself
	case "workspace/workspaceFolders":
		return []any{map[string]any{"uri": uriOf(c.root, ""), "name": "workspace"}}, nil
	}
	return nil, nil // null answers all other requests
}

func (c *client) answerConfiguration(params json.RawMessage) []any {
	var p struct {
		Items []struct {
			Section string `json:"section"`
		} `json:"items"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	out := make([]any, len(p.Items))
	for i, item := range p.Items {
		value := c.spec.settings
		for key := range strings.SplitSeq(item.Section, ".") {
			if m, ok := value.(map[string]any); ok && item.Section != "" {
				value = m[key]
			}
		}
		out[i] = value
	}
	return out
}

// signalChangeLocked wakes the goroutines that wait for a change of state. The caller holds
// c.stateMu.
func (c *client) signalChangeLocked() {
	close(c.stateChanged)
	c.stateChanged = make(chan struct{})
}

func (c *client) storeDiagnostics(p publishParams) {
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	set := &publishedSet{version: -1, list: p.Diagnostics, at: time.Now()}
	if p.Version != nil {
		set.version = *p.Version
	}
	if before := c.found[p.URI]; before != nil {
		set.serial = before.serial
	}
	set.serial++
	c.found[p.URI] = set
	c.signalChangeLocked()
}

func (c *client) noteProgress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage `json:"token"`
		Value struct {
			Kind string `json:"kind"`
		} `json:"value"`
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	c.stateMu.Lock()
	defer c.stateMu.Unlock()
	switch p.Value.Kind {
	case "begin":
		c.busy[string(p.Token)], c.begun = true, true
	case "end":
		delete(c.busy, string(p.Token))
	default:
		return
	}
	c.signalChangeLocked()
}

// waitLoaded waits until the server has loaded the project. A server that is still loading
// answers incompletely: a rename would miss files. Before the first request it also waits
// for loading to begin, longer for servers that report it.
func (c *client) waitLoaded(ctx context.Context, first bool) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	for {
		c.stateMu.Lock()
		changed, busy, begun := c.stateChanged, len(c.busy) > 0, c.begun
		c.stateMu.Unlock()
		var calm <-chan time.Time // ends the wait; nil while the server is busy
		if !busy {
			delay := time.Duration(0)
			switch {
			case first && begun:
				delay = calmTime
			case first && c.announces:
				delay = announceTime
			case first:
				delay = beginTime
			}
			calm = time.After(delay)
		}
		select {
		case <-changed:
		case <-calm:
			return
		case <-c.done:
			return
		case <-ctx.Done():
			return
		}
	}
}

// stop shuts the server down, and kills it after a timeout.
func (c *client) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if c.call(ctx, "shutdown", nil, nil) == nil {
		_ = c.notify("exit", nil)
		select {
		case <-c.done:
		case <-ctx.Done():
		}
	}
	c.kill()
}

// kill kills the process and waits for its goroutines.
func (c *client) kill() {
	c.cancel() // first, so that no goroutine waits for the server
	c.stdin.Close()
	c.wg.Wait()
}

// isAlive reports whether the server can be read from and written to.
func (c *client) isAlive() bool {
	c.outMu.Lock()
	writeFailed := c.outErr != nil
	c.outMu.Unlock()
	if writeFailed {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// An Error has a text for the agent; Unwrap returns its code.
type Error struct {
	Text string
	Code fault.Code
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }
