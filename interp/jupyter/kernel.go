package jupyter

import (
	"bytes"
	"context"
	_ "embed" // the bridge
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/outputs"
	"github.com/croft-run/croft/workspace/driver"
)

//go:embed bridge.py
var bridge string

// launcher finds a Python with jupyter_client: the first on the path, which may be
// that of a virtual environment, or the system's.
const launcher = `for py in python3 /usr/bin/python3 python; do
	command -v "$py" >/dev/null 2>&1 || continue
	"$py" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("jupyter_client") is None)' >/dev/null 2>&1 && exec "$py" -u -c "$0" "$1"
done
echo '{"t":"failed","kind":"jupyter","message":"no Python with jupyter_client"}'`

const (
	maxLine = 64 << 20 // maximum length of a line of the bridge
	maxTail = 4 << 10  // bytes of its standard error to keep
)

// A bridgeRequest is a line to the bridge.
type bridgeRequest struct {
	Op    string `json:"op"`
	ID    int    `json:"id,omitempty"`
	Code  string `json:"code"` // may be empty
	Limit int64  `json:"limit,omitempty"`
}

// A bridgeMessage is a line from the bridge.
type bridgeMessage struct {
	T         string            `json:"t"`
	ID        int               `json:"id"`
	Kind      string            `json:"kind"`
	Message   string            `json:"message"`
	Installed []string          `json:"installed"`
	Text      string            `json:"text"`
	Data      map[string][]byte `json:"data"`
	Status    string            `json:"status"`
	Name      string            `json:"ename"`
	Value     string            `json:"evalue"`
	Traceback []string          `json:"traceback"`
	Count     int               `json:"count"`
	Dropped   int64             `json:"dropped"`
}

// A kernel is a bridge process and the kernel behind it.
type kernel struct {
	info    driver.CodeContext
	session *driver.Session
	life    context.Context // without a deadline; for work that outlives a call
	idle    *time.Timer
	users   int // number of calls that use it; guarded by Kernels.mu

	messages chan bridgeMessage // to start or run, whichever waits
	restarts chan int           // ids of completed restarts
	gone     chan struct{}      // closed when the bridge has ended

	sem  chan struct{} // semaphore of the one run or restart
	last int           // id of the last run; guarded by turn

	restarting  sync.Mutex
	lastRestart int // guarded by restarting

	mu    sync.Mutex
	input []byte // guarded by mu; an incomplete line
	tail  []byte // guarded by mu; the end of its standard error
}

// launchBridge starts a bridge and waits until its kernel is ready.
func (k *Kernels) launchBridge(ctx context.Context, language, dir string, env map[string]string) (*kernel, error) {
	kn := &kernel{
		life: context.WithoutCancel(ctx), messages: make(chan bridgeMessage, 64), restarts: make(chan int, 64), gone: make(chan struct{}), sem: make(chan struct{}, 1),
	}
	want, _ := json.Marshal(map[string]any{"language": language, "startSeconds": int(k.opts.Start / time.Second)}) // plain values
	session, err := k.shell.Start(kn.life, driver.Command{
		Argv: []string{"bash", "-c", launcher, bridge, string(want)}, Dir: dir, Env: env, Interactive: true, MaxOutput: 1,
		OnStdout: kn.readStdout, OnStderr: kn.readStderr, Labels: map[string]string{"croft.kernel": language},
	})
	if err != nil {
		return nil, fmt.Errorf("jupyter: start a %q kernel: %w", language, err)
	}
	kn.session = session
	go func() {
		defer close(kn.gone)
		_, _ = session.Wait(kn.life) // close waits for this
	}()
	ctx, cancel := context.WithTimeout(ctx, k.opts.Start)
	defer cancel()
	m, err := kn.nextMessage(ctx)
	if err == nil && m.T != "ready" {
		err = startError(language, m)
	}
	if err != nil {
		_ = kn.close(kn.life) // the first error is returned
		return nil, fmt.Errorf("jupyter: start a %q kernel: %w", language, err)
	}
	return kn, nil
}

// startError returns an error that says what is missing and how to install it.
func startError(language string, m bridgeMessage) error {
	hint := fmt.Sprintf("install a Jupyter kernel for %q where the workspace's commands run", language)
	if language == DefaultLanguage {
		hint = "install ipykernel where the workspace's commands run: Debian's python3-ipykernel, or pip install ipykernel; a container needs an image that has it"
	}
	switch m.Kind {
	case "jupyter":
		return fmt.Errorf("%w: no Python with jupyter_client was found; %s", fault.Unsupported, hint)
	case "kernel":
		have := strings.Join(m.Installed, ", ")
		if have == "" {
			have = "none"
		}
		return fmt.Errorf("%w: no kernel for this language is installed (installed: %s); %s", fault.Unsupported, have, hint)
	default:
		return fmt.Errorf("%w: %s", fault.Unavailable, m.Message)
	}
}

// readStdout parses output of the bridge. The bridge blocks meanwhile, so a slow consumer
// slows the bridge instead of filling memory.
func (kn *kernel) readStdout(data []byte) error {
	kn.mu.Lock()
	defer kn.mu.Unlock()
	kn.input = append(kn.input, data...)
	if len(kn.input) > maxLine {
		kn.input = nil
	}
	if bytes.IndexByte(data, '\n') < 0 {
		return nil // the line is incomplete; what came before is not searched again
	}
	rest := kn.input
	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			kn.input = bytes.Clone(rest)
			return nil
		}
		rest = after
		var m bridgeMessage
		switch err := json.Unmarshal(line, &m); {
		case err != nil:
		case m.T == "restarted":
			select {
			case kn.restarts <- m.ID:
			default: // no receiver waits for it
			}
		default:
			kn.messages <- m
		}
	}
}

func (kn *kernel) readStderr(data []byte) error {
	kn.mu.Lock()
	defer kn.mu.Unlock()
	kn.tail = append(kn.tail, data...)
	if n := len(kn.tail); n > maxTail {
		kn.tail = bytes.Clone(kn.tail[n-maxTail:])
	}
	return nil
}

var errGone = errors.New("the kernel has ended")

// nextMessage waits for a message.
func (kn *kernel) nextMessage(ctx context.Context) (bridgeMessage, error) {
	select {
	case m := <-kn.messages:
		return m, nil
	case <-ctx.Done():
		return bridgeMessage{}, ctx.Err()
	case <-kn.gone:
	}
	select { // messages before the end
	case m := <-kn.messages:
		return m, nil
	default:
	}
	kn.mu.Lock()
	defer kn.mu.Unlock()
	return bridgeMessage{}, fmt.Errorf("%w: %w: %s", fault.Unavailable, errGone, bytes.TrimSpace(kn.tail))
}

// sendRequest sends a request to the bridge.
func (kn *kernel) sendRequest(ctx context.Context, r bridgeRequest) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("jupyter: %s: %w: %w", r.Op, fault.InvalidArgument, err)
	}
	if err := kn.session.Write(ctx, append(line, '\n')); err != nil {
		return fmt.Errorf("jupyter: %s: %w: %w", r.Op, fault.NotFound, err) // the kernel of the context has ended
	}
	return nil
}

// acquire takes the semaphore of the kernel.
func (kn *kernel) acquire(ctx context.Context) error {
	select {
	case kn.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasEnded reports whether the bridge has ended, for example because the workspace was
// paused.
func (kn *kernel) hasEnded() bool {
	select {
	case <-kn.gone:
		return true
	default:
		return false
	}
}

// close ends the kernel.
func (kn *kernel) close(ctx context.Context) error {
	if kn.idle != nil {
		kn.idle.Stop()
	}
	done := make(chan struct{})
	go func() { // callbacks must not block on a reader that has ended
		defer close(done)
		for {
			select {
			case <-kn.messages:
			case <-kn.gone:
				return
			}
		}
	}()
	// The end of its input ends the bridge and its kernel orderly.
	_ = kn.session.CloseStdin(ctx)
	select {
	case <-kn.gone:
	case <-time.After(closeGrace):
	case <-ctx.Done():
	}
	err := kn.session.Close(ctx)
	select {
	case <-done:
	case <-ctx.Done():
		return errors.Join(err, ctx.Err())
	}
	return err
}

// closeGrace is how long a kernel may take to end by itself.
const closeGrace = 2 * time.Second

// restart restarts the kernel of the context; a running run ends.
func (kn *kernel) restart(ctx context.Context, limit time.Duration) error {
	kn.restarting.Lock()
	defer kn.restarting.Unlock()
	kn.lastRestart++
	if err := kn.sendRequest(ctx, bridgeRequest{Op: "restart", ID: kn.lastRestart}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		select {
		case id := <-kn.restarts:
			if id == kn.lastRestart {
				return nil
			}
		case <-kn.gone:
			return fmt.Errorf("jupyter: restart %s: %w: %w", kn.info.ID, fault.NotFound, errGone)
		case <-ctx.Done():
			return fmt.Errorf("jupyter: restart %s: %w", kn.info.ID, ctx.Err())
		}
	}
}

// run runs code in the kernel.
func (kn *kernel) run(ctx context.Context, code driver.Code, opts Options) (driver.CodeResult, error) {
	if err := kn.acquire(ctx); err != nil {
		return driver.CodeResult{}, fmt.Errorf("jupyter: wait for context %s: %w", kn.info.ID, err)
	}
	defer func() { <-kn.sem }()
	kn.last++
	if err := kn.sendRequest(ctx, bridgeRequest{Op: "run", ID: kn.last, Code: code.Source, Limit: opts.Output}); err != nil {
		return driver.CodeResult{}, err
	}
	r := &codeRun{kernel: kn, id: kn.last, out: &outputs.Collector{Limit: opts.Output, OnOutput: code.OnOutput}, began: time.Now()}
	return r.collectOutput(ctx, code.Timeout), nil
}
