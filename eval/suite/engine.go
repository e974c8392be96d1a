package suite

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
)

// The JavaScript that runs in Node: engine.js, and the modules that it gives to suites. Each
// of those is a function body of (exports, require, module, host).
//
//go:embed js/*.js
var scripts embed.FS

// A Limit bounds what a suite may take.
type Limit struct {
	Turn   time.Duration // time without giving control back to Node; 0 is 10 s
	Memory uint64        // heap of its Node; 0 is 1 GiB
}

func (l Limit) turnLimit() time.Duration {
	if l.Turn == 0 {
		return 10 * time.Second
	}
	return l.Turn
}

func (l Limit) memoryLimit() uint64 {
	if l.Memory == 0 {
		return 1 << 30
	}
	return l.Memory
}

// An engine is a Node that evaluates modules and runs their functions. It asks this process
// for files, the workspace and judges. Requests and answers are lines of JSON.
type engine struct {
	proc   *NodeProcess
	loader *Loader
	files  *fileModule

	sending sync.Mutex // orders the lines of Stdin

	mu       sync.Mutex
	next     int                     // guarded by mu; the last id of a request or a ping
	requests map[int]*execution      // guarded by mu; under way
	pongs    map[int]chan<- struct{} // guarded by mu
	plan     *yamlPlan               // guarded by mu; of the suite, if that is YAML
	ended    error                   // guarded by mu; why no more requests are answered
}

// An execution is one request to Node: the call of a function of the user, with what it logs
// and what it may reach.
type execution struct {
	env    AssertEnv
	info   EnvInfo
	report json.RawMessage

	decode    sync.Once
	data      reportData // of report, for checks; set by decode
	badReport error      // set by decode

	ctx    context.Context
	answer chan nodeAnswer // has room for one
	calls  sync.WaitGroup  // calls of the function to this process

	mu      sync.Mutex
	logs    []Log       // guarded by mu
	written int         // guarded by mu; bytes of logs
	judged  []Judgement // guarded by mu
	exit    *int        // guarded by mu; status with which it called process.exit
}

// nodeRequest is a request as Node reads it.
type nodeRequest struct {
	Request int             `json:"request"`
	Verb    string          `json:"verb"`
	Module  string          `json:"module"`
	Name    string          `json:"name,omitempty"` // of a case or a hook
	Data    json.RawMessage `json:"data,omitempty"`
	Keys    []string        `json:"keys,omitempty"` // of objects, also where they are inherited
}

// nodeAnswer is a line that Node wrote.
type nodeAnswer struct {
	Result  int             `json:"result"`
	Exports json.RawMessage `json:"exports"`
	Verdict *Outcome        `json:"verdict"`
	Class   *FailureClass   `json:"class"`
	Thrown  *nodeError      `json:"thrown"`

	Call      int               `json:"call"`
	Name      string            `json:"name"`
	Args      []json.RawMessage `json:"args"`
	Execution int               `json:"execution"`
	Log       *Log              `json:"log"`
	Exit      *int              `json:"exit"`
	Pong      int               `json:"pong"`

	err error
}

type nodeError struct {
	ErrorInfo
	Code string `json:"code"`
}

// A lostError says that Node ended during a request.
type lostError struct {
	cause  error
	shared bool // other requests were under way, any of which may have ended it
}

func (e *lostError) Error() string { return e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

// nodeDir is the directory of the engine and the bundles, below the temporary directory.
const nodeDir = ".croft-node"

// startEngine starts Node for files in the directories, and waits until it answers.
func (l *Loader) startEngine(ctx context.Context, dirs []string) (*engine, error) {
	script, err := l.writeNodeFile("engine.cjs", engineScript())
	if err != nil {
		return nil, fmt.Errorf("suite: start Node: %w: %w", fault.Of(err), err)
	}
	start := l.Node
	if start == nil {
		start = StartNode
	}
	proc, err := start(ctx, NodeStart{Tmp: l.TmpDir, Dirs: dirs,
		Args: []string{"--enable-source-maps", fmt.Sprintf("--max-old-space-size=%d", l.Limit.memoryLimit()>>20), script}})
	if err != nil {
		return nil, fmt.Errorf("suite: start Node: %w", err)
	}
	n := &engine{proc: proc, loader: l, files: newFiles(append(slices.Clone(dirs), l.TmpDir)), requests: map[int]*execution{},
		pongs: map[int]chan<- struct{}{}}
	go n.readLines()
	ready := n.ping()
	if err := n.send(map[string]any{"prepare": hostFacts(l)}); err == nil {
		select {
		case <-ready:
		case <-ctx.Done():
			return nil, joinErrors(fmt.Errorf("suite: start Node: %w", fault.Of(ctx.Err())), n.close())
		}
	}
	return n, nil
}

// engineScript is engine.js, with the sources of the other modules.
func engineScript() []byte {
	sources := map[string]string{}
	names, err := fs.Glob(scripts, "js/*.js")
	for _, name := range names {
		var text []byte
		text, err = fs.ReadFile(scripts, name)
		sources[strings.TrimSuffix(filepath.Base(name), ".js")] = string(text)
	}
	boot := sources["engine"]
	delete(sources, "engine")
	quoted, bad := json.Marshal(sources)
	if err = errors.Join(err, bad); err != nil {
		panic(err) // they are embedded
	}
	return []byte("const sources = " + string(quoted) + ";\n" + boot)
}

// writeNodeFile writes a file where Node can read it, and returns its path.
func (l *Loader) writeNodeFile(name string, data []byte) (string, error) {
	dir := filepath.Join(l.TmpDir, nodeDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, data, 0o644)
}

// hostFacts are what a suite is told of the host.
func hostFacts(l *Loader) map[string]any {
	environ := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			environ[name] = value
		}
	}
	environ["TMPDIR"] = filepath.Clean(l.TmpDir)
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "/"
	}
	return map[string]any{"environ": environ, "cwd": cwd}
}

// broken reports whether the engine has ended.
func (n *engine) broken() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended != nil
}

// close ends Node.
func (n *engine) close() error {
	n.end(fmt.Errorf("suite: %w: the suite was closed", fault.WrongState))
	return joinErrors(n.proc.Close(), n.files.close())
}

// end fails the requests that are under way, and all later ones.
func (n *engine) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended == nil {
		n.ended = err
	}
	shared := len(n.requests) > 1
	for id, ex := range n.requests {
		ex.answer <- nodeAnswer{err: &lostError{n.ended, shared}}
		delete(n.requests, id)
	}
	for id, pong := range n.pongs {
		close(pong)
		delete(n.pongs, id)
	}
}

// send writes a line to Node.
func (n *engine) send(line any) error {
	raw, err := json.Marshal(line)
	if err != nil {
		return err
	}
	n.sending.Lock()
	defer n.sending.Unlock()
	_, err = n.proc.Stdin.Write(append(raw, '\n'))
	return err
}

// request sends a request for an execution, and waits for its answer. Afterwards the
// function of the user can call this process no more.
func (n *engine) request(ctx context.Context, ex *execution, line nodeRequest) (*nodeAnswer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer ex.calls.Wait()
	defer cancel()
	ex.ctx, ex.answer = ctx, make(chan nodeAnswer, 1)
	n.mu.Lock()
	if n.ended != nil {
		defer n.mu.Unlock()
		return nil, &lostError{n.ended, true}
	}
	n.next++
	line.Request = n.next
	n.requests[line.Request] = ex
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.requests, line.Request)
		n.mu.Unlock()
	}()
	if err := n.send(line); err != nil {
		n.end(fmt.Errorf("suite: %w: Node can't be reached: %w", fault.Unavailable, err))
	}
	return n.await(ctx, ex)
}

// ping asks Node for an answer, which closes the channel.
func (n *engine) ping() <-chan struct{} {
	pong := make(chan struct{})
	n.mu.Lock()
	n.next++
	id := n.next
	if n.ended != nil {
		close(pong)
	} else {
		n.pongs[id] = pong
	}
	n.mu.Unlock()
	_ = n.send(map[string]int{"ping": id}) // the reader finds out why it failed
	return pong
}

// await waits for the answer to a request. While it waits, Node must answer pings within
// the time of a turn: a suite that never pauses is ended with its Node.
func (n *engine) await(ctx context.Context, ex *execution) (*nodeAnswer, error) {
	for {
		pong := n.ping()
		late := time.NewTimer(n.loader.Limit.turnLimit())
		for waiting := true; waiting; {
			select {
			case a := <-ex.answer:
				late.Stop()
				return &a, a.err
			case <-ctx.Done():
				late.Stop()
				return nil, fmt.Errorf("suite: %w", fault.Of(ctx.Err()))
			case <-pong:
				pong = nil
			case <-late.C:
				waiting = false
			}
		}
		if pong != nil {
			n.end(fmt.Errorf("suite: %w: it ran for %v without a pause", fault.DeadlineExceeded, n.loader.Limit.turnLimit()))
			_ = n.proc.Close() // it is killed
		}
	}
}

// maxNodeLine bounds a line that Node writes.
const maxNodeLine = 256 << 20

// readLines reads what Node writes until its end.
func (n *engine) readLines() {
	lines := bufio.NewScanner(n.proc.Stdout)
	lines.Buffer(nil, maxNodeLine)
	for lines.Scan() {
		var a nodeAnswer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			n.end(fmt.Errorf("suite: %w: Node wrote what is not an answer: %.200s", fault.Unavailable, lines.Bytes()))
			return
		}
		n.handle(a)
	}
	switch text := n.proc.Stderr(); {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		n.end(fmt.Errorf("suite: %w: it wrote more than %d MiB at once", fault.ResourceExhausted, maxNodeLine>>20))
	case strings.Contains(text, "JavaScript heap out of memory"):
		n.end(fmt.Errorf("suite: %w: it took more than %d MiB of memory", fault.ResourceExhausted, n.loader.Limit.memoryLimit()>>20))
	default:
		n.end(fmt.Errorf("suite: %w: Node ended: %s", fault.Unavailable, text))
	}
}

func (n *engine) handle(a nodeAnswer) {
	n.mu.Lock()
	if a.Pong != 0 {
		if pong, ok := n.pongs[a.Pong]; ok {
			close(pong)
			delete(n.pongs, a.Pong)
		}
		n.mu.Unlock()
		return
	}
	ex := n.requests[max(a.Result, a.Execution)]
	switch {
	case ex == nil:
		n.mu.Unlock()
		if a.Call != 0 {
			go n.reply(a.Call, nil, fmt.Errorf("suite: %w: the execution is over", fault.WrongState))
		}
		return
	case a.Result != 0:
		ex.answer <- a
		delete(n.requests, a.Result)
	case a.Call != 0:
		ex.calls.Go(func() {
			value, err := n.serve(ex, a.Name, a.Args)
			n.reply(a.Call, value, err)
		})
	}
	n.mu.Unlock()
	switch {
	case a.Log != nil:
		ex.writeLog(n.loader, *a.Log)
	case a.Exit != nil:
		ex.mu.Lock()
		ex.exit = a.Exit
		ex.mu.Unlock()
	}
}

// reply answers a call of Node. That Node is gone is found by the reader.
func (n *engine) reply(call int, value any, err error) {
	line := map[string]any{"answer": call, "value": value}
	if err != nil {
		line = map[string]any{"answer": call, "error": newNodeFailure(err)}
	}
	_ = n.send(line)
}

// nodeFailure is an error of this process as Node throws it.
type nodeFailure struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	Code    string `json:"code"`
	Syscall string `json:"syscall,omitempty"`
	Path    string `json:"path,omitempty"`
}

// newNodeFailure has the code of the fault, or Node's errno for a file.
func newNodeFailure(err error) nodeFailure {
	f := nodeFailure{Name: "Error", Message: err.Error(), Code: fault.Of(err).Wire()}
	if e := new(fileError); errors.As(err, &e) && e.errno != "" {
		f.Code, f.Syscall, f.Path = e.errno, e.op, e.path
	}
	if fault.Of(err) == fault.SandboxViolation {
		f.Name = "SandboxViolation"
	}
	return f
}

// serve runs a call of Node.
func (n *engine) serve(ex *execution, name string, args []json.RawMessage) (any, error) {
	switch name {
	case "fs":
		var c fileOp
		if err := readArgs(args, &c.op, &c.path, &c.arg, &c.opts); err != nil {
			return nil, err
		}
		return n.files.run(ex, &c)
	case "env":
		return ex.askEnv(args)
	case "check":
		n.mu.Lock()
		plan := n.plan
		n.mu.Unlock()
		return plan.check(ex, args)
	case "parseCommand":
		var line string
		err := readArgs(args, &line)
		return parseCommand(line), err
	}
	return nil, fmt.Errorf("suite: %s: %w: there is no such call", name, fault.Internal)
}

// readArgs reads the arguments of a call.
func readArgs(args []json.RawMessage, to ...any) error {
	for i := range min(len(args), len(to)) {
		if err := json.Unmarshal(args[i], to[i]); err != nil {
			return fmt.Errorf("suite: argument %d: %w: %w", i+1, fault.InvalidArgument, err)
		}
	}
	return nil
}

// maxLogBytes bounds the console output of an execution.
const maxLogBytes = 1 << 20

func (ex *execution) writeLog(l *Loader, line Log) {
	ex.mu.Lock()
	ex.written += len(line.Text)
	keep := ex.written <= maxLogBytes
	if keep {
		ex.logs = append(ex.logs, line)
	}
	ex.mu.Unlock()
	if keep && l.Log != nil {
		l.Log(line)
	}
}

// A module is a file of the user that an engine has evaluated.
type module struct {
	engine *engine
	path   string // of the bundle
	logs   []Log
	tmp    string // removed by close; "" for none
}

func (m *module) close() error { return joinErrors(m.engine.close(), removeTmp(m.tmp)) }

// evaluate evaluates a bundle of the file at path, and returns what it exports. verb is for
// errors.
func (n *engine) evaluate(ctx context.Context, verb, path string, bundle []byte, keys ...string) (*module, *dataObject, error) {
	n.mu.Lock()
	n.next++
	name := fmt.Sprintf("%d.cjs", n.next)
	n.mu.Unlock()
	file, err := n.loader.writeNodeFile(name, bundle)
	if err != nil {
		return nil, nil, fmt.Errorf("suite: %s %s: %w: %w", verb, path, fault.Of(err), err)
	}
	ex := &execution{}
	a, err := n.request(ctx, ex, nodeRequest{Verb: "load", Module: file, Keys: keys})
	if err := ex.failure(verb, path, a, err); err != nil {
		return nil, nil, err
	}
	exports, ok := readExported(a.Exports).(*dataObject)
	if !ok {
		return nil, nil, fmt.Errorf("suite: %s %s: %w: Node described no exports", verb, path, fault.Internal)
	}
	return &module{engine: n, path: file, logs: ex.logs}, exports, nil
}

// failure is why a request has no result, nil if it has one.
func (ex *execution) failure(verb, path string, a *nodeAnswer, err error) error {
	lost := new(lostError)
	switch {
	case ex.exit != nil && (err == nil || errors.As(err, &lost)):
		return &Error{Verb: verb, File: path, Code: fault.Failed, Message: ex.exitMessage()}
	case errors.As(err, &lost):
		return &Error{Verb: verb, File: path, Code: fault.Of(err), Message: withoutCode(err)}
	case err != nil:
		return err
	case a.Thrown == nil:
		return nil
	}
	code, ok := fault.Parse(a.Thrown.Code)
	if !ok {
		code = fault.InvalidArgument
	}
	return &Error{Verb: verb, File: path, Code: code, Message: a.Thrown.headline(), Info: &a.Thrown.ErrorInfo}
}

func (ex *execution) exitMessage() string {
	return fmt.Sprintf("the suite called process.exit(%d)", *ex.exit)
}

func (e ErrorInfo) headline() string {
	text := e.Name + ": " + e.Message
	if e.Frame != nil {
		text = fmt.Sprintf("%s:%d:%d: %s", e.Frame.File, e.Frame.Line, e.Frame.Column, text)
	}
	return text
}

// withoutCode is the sentence after "suite: code: ".
func withoutCode(err error) string {
	_, rest, ok := strings.Cut(err.Error(), fault.Of(err).Error()+": ")
	if !ok {
		return err.Error()
	}
	return rest
}

// A NodeStart says how to start Node.
type NodeStart struct {
	Args []string
	Tmp  string   // the temporary directory, with the files that Args name
	Dirs []string // of the files of the user that it will run
}

// A NodeProcess is a running Node.
type NodeProcess struct {
	Stdin  io.WriteCloser
	Stdout io.Reader
	Stderr func() string // the end of its standard error
	Close  func() error  // kills it and waits for its end; may be called again
}
