package jupyter

import (
	"bytes"
	"context"
	_ "embed" // the bridge
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/outputs"
	"github.com/croft-run/croft/workspace/driver"
)

//go:embed bridge.py
var bridge string

// relay connects a session to the socket of a bridge.
//
//go:embed connect.py
var relay string

// launcher finds a Python with jupyter_client: the first on the path, which may be
// that of a virtual environment, or the system's.
const launcher = `for py in python3 /usr/bin/python3 python; do
	command -v "$py" >/dev/null 2>&1 || continue
	"$py" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("jupyter_client") is None)' >/dev/null 2>&1 && exec "$py" -u -c "$0" "$1"
done
echo '{"t":"failed","kind":"jupyter","message":"no Python with jupyter_client"}'`

// languageLabel is a label of the session of a bridge, beside driver.ContextLabel.
const languageLabel = "croft.kernel"

// A kernel is a context: a bridge process with the Jupyter kernel behind it. The bridge is a session
// of the workspace that lives on when the handle is closed; the connection to it is not.
type kernel struct {
	info    driver.CodeContext
	shell   *driver.Shell
	session *driver.Session // of the bridge
	gone    <-chan struct{} // closed when the bridge, or the handle on the workspace, has ended

	sem chan struct{} // semaphore of the one run or restart of this handle

	mu    sync.Mutex
	conn  *conn         // guarded by mu; nil until it is needed
	ready bridgeMessage // guarded by mu; how the bridge is reached
}

// launchBridge starts a bridge and waits until its kernel is ready. One that is not detached ends
// with the handle.
func (k *Kernels) launchBridge(ctx context.Context, info driver.CodeContext, opts *driver.ContextOptions, detached bool) (*kernel, error) {
	language := strings.ToLower(info.Language)
	want, _ := json.Marshal(map[string]any{ // plain values
		"language": language, "startSeconds": int(k.opts.Start / time.Second), "idleSeconds": k.opts.Idle.Seconds(),
	})
	labels := map[string]string{languageLabel: info.Language}
	if detached {
		labels[driver.ContextLabel] = info.ID
	}
	maps.Copy(labels, opts.Labels)
	boot, err := startConn(ctx, k.shell, driver.Command{
		Argv: []string{"bash", "-c", launcher, bridge, string(want)}, Dir: opts.Dir, Env: opts.Env, Detached: detached, Labels: labels,
	})
	if err != nil {
		return nil, fmt.Errorf("jupyter: start a %q kernel: %w", language, err)
	}
	kn := &kernel{info: info, shell: k.shell, session: boot.session, gone: boot.gone, sem: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(ctx, k.opts.Start)
	defer cancel()
	kn.ready, err = boot.nextMessage(ctx)
	boot.leave()
	if err == nil && kn.ready.T != "ready" {
		err = startError(language, kn.ready)
	}
	if err == nil {
		_, err = kn.connect(ctx)
	}
	if err != nil {
		_ = kn.end(context.WithoutCancel(ctx)) // the first error is returned
		return nil, fmt.Errorf("jupyter: start a %q kernel: %w", language, err)
	}
	return kn, nil
}

// adopt returns the kernel of a bridge that an earlier handle, or another process, has started.
func (k *Kernels) adopt(ctx context.Context, info driver.SessionInfo) (*kernel, error) {
	session, err := k.shell.Attach(ctx, info.ID)
	if err != nil {
		return nil, err
	}
	gone, life := make(chan struct{}), context.WithoutCancel(ctx)
	go func() {
		defer close(gone)
		_, _ = session.Wait(life) // as in startConn
	}()
	return &kernel{
		info:  driver.CodeContext{ID: info.Labels[driver.ContextLabel], Language: info.Labels[languageLabel], Dir: info.Dir, Created: info.Started},
		shell: k.shell, session: session, gone: gone, sem: make(chan struct{}, 1),
	}, nil
}

// connect returns the connection to the bridge, and makes one if there is none.
func (kn *kernel) connect(ctx context.Context) (*conn, error) {
	kn.mu.Lock()
	defer kn.mu.Unlock()
	if kn.conn != nil && !kn.conn.hasEnded() {
		return kn.conn, nil
	}
	if kn.ready.Socket == "" {
		if err := kn.readReady(ctx); err != nil {
			return nil, err
		}
	}
	// What the bridge says of itself is used inside the workspace alone.
	c, err := startConn(ctx, kn.shell, driver.Command{
		Argv:        []string{"bash", "-c", `exec "$KERNEL_PYTHON" -I -S -u -c "$0"`, relay},
		Env:         map[string]string{"KERNEL_PYTHON": kn.ready.Python, "KERNEL_SOCKET": kn.ready.Socket},
		Interactive: true, Labels: map[string]string{languageLabel: kn.info.Language},
	})
	if err != nil {
		return nil, fmt.Errorf("jupyter: connect to context %s: %w", kn.info.ID, err)
	}
	m, err := c.nextMessage(ctx)
	if err == nil && m.T != "connected" {
		err = fmt.Errorf("%w: the kernel gave an unexpected answer", fault.Unavailable)
	}
	if err != nil {
		_ = c.close(context.WithoutCancel(ctx)) // the first error is returned
		if errors.Is(err, errGone) && kn.hasEnded() {
			return nil, lostError(kn.info.ID)
		}
		return nil, fmt.Errorf("jupyter: connect to context %s: %w", kn.info.ID, err)
	}
	kn.conn = c
	return c, nil
}

// readReady reads how the bridge is reached from its log.
func (kn *kernel) readReady(ctx context.Context) error {
	if kn.session.Log == nil {
		return fmt.Errorf("jupyter: context %s: %w: the log of its session can't be read", kn.info.ID, fault.Unsupported)
	}
	chunk, err := kn.session.Log(ctx, driver.Stdout, 0, maxTail)
	if err != nil {
		return fmt.Errorf("jupyter: context %s: %w", kn.info.ID, err)
	}
	line, _, _ := bytes.Cut(chunk.Data, []byte("\n"))
	var m bridgeMessage
	if json.Unmarshal(line, &m) != nil || m.T != "ready" || m.Socket == "" || m.Python == "" {
		return fmt.Errorf("jupyter: context %s: %w: its kernel did not start; delete it and create another", kn.info.ID, fault.NotFound)
	}
	kn.ready = m
	return nil
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

// acquire takes the semaphore of the kernel.
func (kn *kernel) acquire(ctx context.Context) error {
	select {
	case kn.sem <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasEnded reports whether the bridge, or the handle on the workspace, has ended.
func (kn *kernel) hasEnded() bool {
	select {
	case <-kn.gone:
		return true
	default:
		return false
	}
}

// disconnect ends the connection; the kernel lives on.
func (kn *kernel) disconnect(ctx context.Context) error {
	kn.mu.Lock()
	c := kn.conn
	kn.conn = nil
	kn.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.close(ctx)
}

// closeGrace is how long a kernel may take to end by itself.
const closeGrace = 2 * time.Second

// end ends the kernel.
func (kn *kernel) end(ctx context.Context) error {
	kn.mu.Lock()
	c := kn.conn
	kn.mu.Unlock()
	if c != nil {
		c.leave()
		if c.sendRequest(ctx, bridgeRequest{Op: "restart"}) == nil && c.sendRequest(ctx, bridgeRequest{Op: "quit"}) == nil {
			select {
			case <-kn.gone:
			case <-time.After(closeGrace):
			case <-ctx.Done():
			}
		}
	}
	return errors.Join(kn.disconnect(ctx), kn.session.Close(ctx))
}

// run runs code in the kernel.
func (kn *kernel) run(ctx context.Context, code driver.Code, opts Options) (driver.CodeResult, error) {
	if err := kn.acquire(ctx); err != nil {
		return driver.CodeResult{}, fmt.Errorf("jupyter: wait for context %s: %w", kn.info.ID, err)
	}
	defer func() { <-kn.sem }()
	c, err := kn.connect(ctx)
	if err != nil {
		return driver.CodeResult{}, err
	}
	c.last++
	if err := c.sendRequest(ctx, bridgeRequest{Op: "run", ID: c.last, Code: code.Source, Limit: opts.Output}); err != nil {
		return driver.CodeResult{}, err
	}
	r := &codeRun{conn: c, kernel: kn, id: c.last, out: &outputs.Collector{Limit: opts.Output, OnOutput: code.OnOutput}, began: time.Now()}
	return r.collectOutput(ctx, code.Timeout), nil
}
