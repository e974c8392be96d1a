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

// launcher finds a Python that can talk to kernels: the first on the path, which
// may be a virtual environment's, or the system's.
const launcher = `for py in python3 /usr/bin/python3 python; do
	command -v "$py" >/dev/null 2>&1 || continue
	"$py" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("jupyter_client") is None)' >/dev/null 2>&1 && exec "$py" -u -c "$0" "$1"
done
echo '{"t":"failed","kind":"jupyter","message":"no Python with jupyter_client"}'`

const (
	maxLine = 64 << 20 // of the bridge; what is longer is not its own
	maxTail = 4 << 10  // of what it says on standard error
)

// A request is a line to the bridge.
type request struct {
	Op    string `json:"op"`
	ID    int    `json:"id,omitempty"`
	Code  string `json:"code"` // which may be empty
	Limit int64  `json:"limit,omitempty"`
}

// A message is a line from the bridge.
type message struct {
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

// A kernel is a bridge with a kernel behind it.
type kernel struct {
	info    driver.CodeContext
	session *driver.Session
	life    context.Context // without a deadline; for what outlives a call
	idle    *time.Timer
	users   int // calls that use it; as live is of Kernels, under its mu

	messages chan message  // to whoever waits: start or run
	restarts chan int      // ids of restarts that were done
	gone     chan struct{} // closed when the bridge has ended

	turn chan struct{} // held by the one run or restart
	last int           // id of the last run; the holder's

	restarting  sync.Mutex
	lastRestart int // guarded by restarting

	mu    sync.Mutex
	input []byte // guarded by mu; the beginning of a line
	tail  []byte // guarded by mu; the end of its standard error
}

// launch starts a bridge and waits until its kernel is ready.
func (k *Kernels) launch(ctx context.Context, language, dir string, env map[string]string) (*kernel, error) {
	kn := &kernel{
		life: context.WithoutCancel(ctx), messages: make(chan message, 64), restarts: make(chan int, 64), gone: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	want, _ := json.Marshal(map[string]any{"language": language, "startSeconds": int(k.opts.Start / time.Second)}) // plain values
	session, err := k.shell.Start(kn.life, driver.Command{
		Argv: []string{"bash", "-c", launcher, bridge, string(want)}, Dir: dir, Env: env, Interactive: true, MaxOutput: 1,
		OnStdout: kn.read, OnStderr: kn.complain, Labels: map[string]string{"croft.kernel": language},
	})
	if err != nil {
		return nil, fmt.Errorf("jupyter: start a %q kernel: %w", language, err)
	}
	kn.session = session
	go func() {
		defer close(kn.gone)
		_, _ = session.Wait(kn.life) // however it ended, it has; close waits for this
	}()
	ctx, cancel := context.WithTimeout(ctx, k.opts.Start)
	defer cancel()
	m, err := kn.next(ctx)
	if err == nil && m.T != "ready" {
		err = refusal(language, m)
	}
	if err != nil {
		_ = kn.close(kn.life) // the error that counts is known
		return nil, fmt.Errorf("jupyter: start a %q kernel: %w", language, err)
	}
	return kn, nil
}

// refusal says what is missing and how to get it.
func refusal(language string, m message) error {
	hint := fmt.Sprintf("install a Jupyter kernel for %q where the workspace's commands run", language)
	if language == DefaultLanguage {
		hint = "install ipykernel where the workspace's commands run: Debian's python3-ipykernel, or pip install ipykernel; a container needs an image that has it"
	}
	switch m.Kind {
	case "jupyter":
		return fmt.Errorf("%w: there is no Python with jupyter_client; %s", fault.Unsupported, hint)
	case "kernel":
		have := strings.Join(m.Installed, ", ")
		if have == "" {
			have = "none"
		}
		return fmt.Errorf("%w: no kernel for it is installed (installed: %s); %s", fault.Unsupported, have, hint)
	default:
		return fmt.Errorf("%w: %s", fault.Unavailable, m.Message)
	}
}

// read takes output of the bridge apart. The bridge waits while it runs, so that
// whoever is slow to listen slows the bridge and not our memory.
func (kn *kernel) read(data []byte) error {
	kn.mu.Lock()
	defer kn.mu.Unlock()
	kn.input = append(kn.input, data...)
	if len(kn.input) > maxLine {
		kn.input = nil
	}
	if bytes.IndexByte(data, '\n') < 0 {
		return nil // the line goes on; what came before is not searched again
	}
	rest := kn.input
	for {
		line, after, ok := bytes.Cut(rest, []byte("\n"))
		if !ok {
			kn.input = bytes.Clone(rest)
			return nil
		}
		rest = after
		var m message
		switch err := json.Unmarshal(line, &m); {
		case err != nil:
		case m.T == "restarted":
			select {
			case kn.restarts <- m.ID:
			default: // nobody waits for so many
			}
		default:
			kn.messages <- m
		}
	}
}

func (kn *kernel) complain(data []byte) error {
	kn.mu.Lock()
	defer kn.mu.Unlock()
	kn.tail = append(kn.tail, data...)
	if n := len(kn.tail); n > maxTail {
		kn.tail = bytes.Clone(kn.tail[n-maxTail:])
	}
	return nil
}

var errGone = errors.New("the kernel has ended")

// next waits for a message.
func (kn *kernel) next(ctx context.Context) (message, error) {
	select {
	case m := <-kn.messages:
		return m, nil
	case <-ctx.Done():
		return message{}, ctx.Err()
	case <-kn.gone:
	}
	select { // what it said before it ended
	case m := <-kn.messages:
		return m, nil
	default:
	}
	kn.mu.Lock()
	defer kn.mu.Unlock()
	return message{}, fmt.Errorf("%w: %w: %s", fault.Unavailable, errGone, bytes.TrimSpace(kn.tail))
}

// order sends a line to the bridge.
func (kn *kernel) order(ctx context.Context, r request) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("jupyter: %s: %w: %w", r.Op, fault.InvalidArgument, err)
	}
	if err := kn.session.Write(ctx, append(line, '\n')); err != nil {
		return fmt.Errorf("jupyter: %s: %w: %w", r.Op, fault.NotFound, err) // the context's kernel is gone
	}
	return nil
}

// take waits for its turn to use the kernel.
func (kn *kernel) take(ctx context.Context) error {
	select {
	case kn.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended reports whether the bridge is gone, as when the workspace was paused.
func (kn *kernel) ended() bool {
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
	go func() { // the callbacks must not wait for a reader that is no more
		defer close(done)
		for {
			select {
			case <-kn.messages:
			case <-kn.gone:
				return
			}
		}
	}()
	// The end of its input ends the bridge and its kernel in order.
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

// closeGrace is what a kernel may take to end by itself.
const closeGrace = 2 * time.Second

// restart gives the context a fresh kernel; a run under way ends by it.
func (kn *kernel) restart(ctx context.Context, limit time.Duration) error {
	kn.restarting.Lock()
	defer kn.restarting.Unlock()
	kn.lastRestart++
	if err := kn.order(ctx, request{Op: "restart", ID: kn.lastRestart}); err != nil {
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
	if err := kn.take(ctx); err != nil {
		return driver.CodeResult{}, fmt.Errorf("jupyter: wait for context %s: %w", kn.info.ID, err)
	}
	defer func() { <-kn.turn }()
	kn.last++
	if err := kn.order(ctx, request{Op: "run", ID: kn.last, Code: code.Source, Limit: opts.Output}); err != nil {
		return driver.CodeResult{}, err
	}
	r := &running{kernel: kn, id: kn.last, out: &outputs.Collector{Limit: opts.Output, OnOutput: code.OnOutput}, began: time.Now()}
	return r.follow(ctx, code.Timeout), nil
}
