package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// A NodeProcess is a running Node.
type NodeProcess struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr func() string // the end of its standard error
	Close  func() error  // kills it and waits for its end
}

// nodeEngine runs a suite in Node, in the place of the built-in engine. Files and the
// workspace are still reached through the host object of a vm, so that both engines
// have the same rules.
type nodeEngine struct {
	proc   *NodeProcess
	host   *vm
	limits Limit

	sending sync.Mutex // orders the lines of Stdin

	mu       sync.Mutex
	next     int                     // guarded by mu; the last id of a request
	requests map[int]*nodeRequest    // guarded by mu; under way
	ended    error                   // guarded by mu; why no more requests are answered
	pongs    map[int]chan<- struct{} // guarded by mu
}

// A nodeRequest is one request to Node, on behalf of an execution.
type nodeRequest struct {
	ex     *execution
	answer chan nodeAnswer // has room for one
}

// nodeAnswer is a line that Node wrote.
type nodeAnswer struct {
	Result  int             `json:"result"`
	Exports json.RawMessage `json:"exports"`
	Verdict *Outcome        `json:"verdict"`
	Class   *FailureClass   `json:"class"`
	Exit    *int            `json:"exit"`
	Thrown  *nodeError      `json:"thrown"`

	Call      int             `json:"call"`
	Name      string          `json:"name"`
	Args      json.RawMessage `json:"args"`
	Execution int             `json:"execution"`
	Log       *Log            `json:"log"`
	Pong      int             `json:"pong"`

	err error
}

type nodeError struct {
	ErrorInfo
	Code string `json:"code"`
}

// nodeRequestLine is a request as Node reads it.
type nodeRequestLine struct {
	Request int             `json:"request"`
	Verb    string          `json:"verb"`
	Case    string          `json:"case,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Bundle  string          `json:"bundle,omitempty"`
	Facts   *nodeFacts      `json:"facts,omitempty"`
}

// nodeFacts are what a suite is given of the host.
type nodeFacts struct {
	Environ any `json:"environ"`
	Cwd     any `json:"cwd"`
	TmpDir  any `json:"tmpdir"`
	HomeDir any `json:"homedir"`
}

// nodeDir is the directory of the engine and the bundle, below the temporary directory.
const nodeDir = ".croft-node"

// writeNodeEngine writes the engine and the bundle of a suite where Node can read them.
func writeNodeEngine(tmp string, bundle []byte) (engine, suite string, err error) {
	sources := map[string]string{}
	names, err := fs.Glob(scripts, "js/*.js")
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		text, err := fs.ReadFile(scripts, name)
		if err != nil {
			return "", "", err
		}
		sources[strings.TrimSuffix(filepath.Base(name), ".js")] = string(text)
	}
	boot := sources["node-engine"]
	delete(sources, "node-engine")
	quoted, err := json.Marshal(sources)
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(tmp, nodeDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", err
	}
	engine, suite = filepath.Join(dir, "engine.cjs"), filepath.Join(dir, "suite.cjs")
	if err := os.WriteFile(engine, []byte("const sources = "+string(quoted)+";\n"+boot), 0o644); err != nil {
		return "", "", err
	}
	return engine, suite, os.WriteFile(suite, bundle, 0o644)
}

// newNodeRealm starts Node, evaluates the suite there, and reads its exports.
func (s *Suite) newNodeRealm(ctx context.Context) (*realm, *Suite, error) {
	v, err := s.loader.newVM(s.dirs)
	if err != nil {
		return nil, nil, err
	}
	r := &realm{vm: v, cases: map[string]*goja.Object{}}
	read := &Suite{Path: s.Path, Dir: s.Dir}
	engine, bundle, err := writeNodeEngine(s.loader.TmpDir, s.nodeBundle)
	if err == nil {
		r.node, err = startNodeEngine(ctx, s.loader, v, engine)
	}
	if err != nil {
		return nil, nil, joinErrors(fmt.Errorf("suite: start Node: %w: %w", fault.Of(err), err), r.close())
	}
	ex := &execution{}
	var bad error
	err = v.runExecution(ctx, ex, func() error {
		fact := func(name string) any { return v.host.Get(name).Export() }
		facts := &nodeFacts{fact("environ"), fact("cwd"), fact("tmpdir"), fact("homedir")}
		r.node.request(ex, nodeRequestLine{Verb: "load", Bundle: bundle, Facts: facts}, func(a nodeAnswer) error {
			bad = s.readNodeExports(r, read, a)
			return nil
		})
		return nil
	}, func() error { return v.loadError("load", s.Path, ex) })
	read.Logs = ex.logs
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, nil, joinErrors(err, r.close())
	}
	return r, read, nil
}

// readNodeExports reads the exports of a suite from what Node says of them.
func (s *Suite) readNodeExports(r *realm, into *Suite, a nodeAnswer) error {
	if a.Exit != nil {
		return &Error{Verb: "load", File: s.Path, Code: fault.Failed, Message: fmt.Sprintf("the suite called process.exit(%d)", *a.Exit)}
	}
	if err := a.thrownError("load", s.Path); err != nil {
		return err
	}
	m, err := r.vm.require("serve")
	if err != nil {
		return err
	}
	revive, _ := goja.AssertFunction(m.ToObject(r.vm.rt).Get("revive"))
	ns, err := revive(goja.Undefined(), r.vm.rt.ToValue(string(a.Exports)))
	if err != nil {
		return fmt.Errorf("suite: load %s: %w: %w", s.Path, fault.Internal, err)
	}
	return into.readExports(r, ns.ToObject(r.vm.rt))
}

// thrownError is what a suite threw, nil for nothing.
func (a nodeAnswer) thrownError(verb, path string) error {
	if a.Thrown == nil {
		return nil
	}
	code, ok := fault.Parse(a.Thrown.Code)
	if !ok {
		code = fault.InvalidArgument
	}
	return &Error{Verb: verb, File: path, Code: code, Message: a.Thrown.headline(), Info: &a.Thrown.ErrorInfo}
}

// startNodeEngine starts Node on the engine's script.
func startNodeEngine(ctx context.Context, l *Loader, host *vm, script string) (*nodeEngine, error) {
	proc, err := l.Node(ctx, []string{"--enable-source-maps", fmt.Sprintf("--max-old-space-size=%d", l.Limit.memoryLimit()>>20), script})
	if err != nil {
		return nil, err
	}
	n := &nodeEngine{proc: proc, host: host, limits: l.Limit, requests: map[int]*nodeRequest{}, pongs: map[int]chan<- struct{}{}}
	go n.readLines(l)
	return n, nil
}

// close ends Node.
func (n *nodeEngine) close() error {
	n.end(fmt.Errorf("suite: %w: the suite was closed", fault.WrongState))
	return n.proc.Close()
}

// end fails the requests that are under way, and all later ones.
func (n *nodeEngine) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil {
		n.ended = err
	}
	for id, r := range n.requests {
		r.answer <- nodeAnswer{err: n.ended}
		delete(n.requests, id)
	}
}

// send writes a line to Node.
func (n *nodeEngine) send(line any) error {
	raw, err := json.Marshal(line)
	if err != nil {
		return err
	}
	n.sending.Lock()
	defer n.sending.Unlock()
	_, err = n.proc.Stdin.Write(append(raw, '\n'))
	return err
}

// request sends a request for an execution, and calls back with its answer as a task of
// the execution. It is called on the goroutine of host.
func (n *nodeEngine) request(ex *execution, line nodeRequestLine, back func(nodeAnswer) error) {
	n.host.runOutside(func(ctx context.Context) (any, error) {
		r := &nodeRequest{ex: ex, answer: make(chan nodeAnswer, 1)}
		n.mu.Lock()
		if n.ended != nil {
			n.mu.Unlock()
			return nil, errEngineLost
		}
		n.next++
		line.Request = n.next
		n.requests[line.Request] = r
		n.mu.Unlock()
		if err := n.send(line); err != nil {
			n.end(fmt.Errorf("suite: %w: Node can't be reached: %w", fault.Unavailable, err))
		}
		return n.await(ctx, r)
	}, func(value any, err error) error {
		ex.settled = true
		if err != nil {
			return err
		}
		return back(value.(nodeAnswer))
	})
}

// await waits for the answer to a request. While it waits, Node must answer pings within
// the time of a turn: a suite that never pauses is ended with its Node.
func (n *nodeEngine) await(ctx context.Context, r *nodeRequest) (any, error) {
	for {
		pong := make(chan struct{}, 1)
		n.mu.Lock()
		n.next++
		id := n.next
		n.pongs[id] = pong
		n.mu.Unlock()
		if n.send(map[string]int{"ping": id}) != nil { // the reader finds out why
			pong = nil
		}
		late := time.NewTimer(n.limits.turnLimit())
		for waiting := true; waiting; {
			select {
			case a := <-r.answer:
				late.Stop()
				return a, a.err
			case <-ctx.Done():
				late.Stop()
				return nil, ctx.Err()
			case <-pong:
				pong = nil
			case <-late.C:
				if pong != nil {
					n.end(fmt.Errorf("suite: %w: it ran for %v without a pause", fault.DeadlineExceeded, n.limits.turnLimit()))
					return nil, errors.Join(n.ended, n.proc.Close())
				}
				waiting = false
			}
		}
	}
}

// maxNodeLine bounds a line that Node writes.
const maxNodeLine = 256 << 20

// readLines reads what Node writes until its end.
func (n *nodeEngine) readLines(l *Loader) {
	lines := bufio.NewScanner(n.proc.Stdout)
	lines.Buffer(nil, maxNodeLine)
	for lines.Scan() {
		var a nodeAnswer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			n.end(fmt.Errorf("suite: %w: Node wrote what is not an answer: %.200s", fault.Unavailable, lines.Bytes()))
			return
		}
		n.handle(l, a)
	}
	n.end(fmt.Errorf("suite: %w: Node ended: %s", fault.Unavailable, n.proc.Stderr()))
}

func (n *nodeEngine) handle(l *Loader, a nodeAnswer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case a.Pong != 0:
		if pong, ok := n.pongs[a.Pong]; ok {
			pong <- struct{}{}
			delete(n.pongs, a.Pong)
		}
	case a.Result != 0:
		if r, ok := n.requests[a.Result]; ok {
			r.answer <- a
			delete(n.requests, a.Result)
		}
	case a.Call != 0:
		n.serveCall(n.requests[a.Execution], a)
	case a.Log != nil:
		if r, ok := n.requests[a.Execution]; ok {
			n.host.submit(r.ex, func() error { n.host.writeLog(l, *a.Log); return nil })
		}
	}
}

// serveCall answers a call of a suite, as a task of its execution.
func (n *nodeEngine) serveCall(r *nodeRequest, a nodeAnswer) {
	refuse := func(text string) {
		go n.send(map[string]any{"answer": a.Call, "error": map[string]string{"name": "Error", "message": text}}) //nolint:errcheck // the reader finds out
	}
	if r == nil {
		refuse("the execution is over")
		return
	}
	ok := n.host.submit(r.ex, func() error {
		m, err := n.host.require("serve")
		if err != nil {
			return err
		}
		serve, _ := goja.AssertFunction(m.ToObject(n.host.rt).Get("serve"))
		promise, err := serve(goja.Undefined(), n.host.rt.ToValue(a.Name), n.host.rt.ToValue(string(a.Args)))
		if err != nil {
			return err
		}
		then, _ := goja.AssertFunction(promise.ToObject(n.host.rt).Get("then"))
		_, err = then(promise, n.host.rt.ToValue(func(answer string) error {
			var line map[string]json.RawMessage
			if err := json.Unmarshal([]byte(answer), &line); err != nil {
				return err
			}
			line["answer"] = fmt.Append(nil, a.Call)
			return n.send(line)
		}))
		return err
	})
	if !ok {
		refuse("the suite was closed")
	}
}

// outcomeInNode is readOutcome for an answer of Node.
func outcomeInNode(ex *execution, a nodeAnswer) *Outcome {
	out := a.Verdict
	if a.Exit != nil {
		out = &Outcome{Origin: OriginHook, Error: &ErrorInfo{Name: "Error", Message: fmt.Sprintf("the suite called process.exit(%d)", *a.Exit)}}
	}
	out.Logs, out.Judged = ex.logs, ex.judged
	return out
}
