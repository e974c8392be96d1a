package jupyter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Options configure the kernels of a workspace.
type Options struct {
	Timeout time.Duration // default time-out of code; 0 is 2 minutes
	Idle    time.Duration // unused contexts end after this time, in which the workspace is not paused; 0 is 30 minutes
	Start   time.Duration // maximum start time of a kernel; 0 is a minute
	Output  int64         // bytes of output in a result; 0 is 4 MiB
	Most    int           // maximum contexts of a workspace; 0 is 8
}

func (o *Options) setDefaults() {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Idle <= 0 {
		o.Idle = 30 * time.Minute
	}
	if o.Start <= 0 {
		o.Start = time.Minute
	}
	if o.Output <= 0 {
		o.Output = 4 << 20
	}
	if o.Most <= 0 {
		o.Most = 8
	}
}

// DefaultLanguage is the default language of code.
const DefaultLanguage = "python"

// Kernels are the kernels of one workspace.
type Kernels struct {
	shell *driver.Shell
	opts  Options

	mu     sync.Mutex
	live   map[string]*kernel // guarded by mu; nil entries are starting
	closed bool               // guarded by mu
}

// New returns the kernels of the workspace with this shell. No kernel is started yet.
func New(shell *driver.Shell, opts *Options) *Kernels {
	k := &Kernels{shell: shell, live: map[string]*kernel{}}
	if opts != nil {
		k.opts = *opts
	}
	k.opts.setDefaults()
	return k
}

// Module returns the Code module.
func (k *Kernels) Module() *driver.Interpreter {
	return &driver.Interpreter{
		Coder:         k,
		Languages:     []string{DefaultLanguage, driver.OtherLanguages},
		CreateContext: k.createContext,
		Contexts:      k.listContexts,
		Restart:       k.restartContext,
		Interrupt:     k.interruptContext,
		DeleteContext: k.removeContext,
	}
}

// Close lets go of the kernels: those of contexts live on in the workspace, and the next handle
// on it finds them.
func (k *Kernels) Close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	return k.Disconnect(ctx)
}

// Disconnect ends the connections to the kernels. The next use of one connects again.
func (k *Kernels) Disconnect(ctx context.Context) error {
	k.mu.Lock()
	live := slices.Collect(maps.Values(k.live))
	k.mu.Unlock()
	var errs []error
	for _, kn := range live {
		if kn != nil {
			errs = append(errs, kn.disconnect(ctx))
		}
	}
	return errors.Join(errs...)
}

// outlives reports whether the workspace has sessions that outlive the handle.
func (k *Kernels) outlives() bool { return k.shell.Sessions != nil && k.shell.Attach != nil }

func (k *Kernels) createContext(ctx context.Context, language string, opts *driver.ContextOptions) (driver.CodeContext, error) {
	kn, err := k.startKernel(ctx, language, opts, k.outlives())
	if err != nil {
		return driver.CodeContext{}, err
	}
	return kn.info, nil
}

// maxLanguage bounds the length of the name of a language or kernel.
const maxLanguage = 100

// startKernel starts a kernel and registers it under a new id.
func (k *Kernels) startKernel(ctx context.Context, language string, opts *driver.ContextOptions, detached bool) (*kernel, error) {
	if language == "" {
		language = DefaultLanguage
	}
	if len(language) > maxLanguage {
		return nil, fmt.Errorf("jupyter: language %.80q: %w: the name has %d bytes; at most %d are allowed", language, fault.InvalidArgument, len(language), maxLanguage)
	}
	if err := k.refresh(ctx); err != nil {
		return nil, err
	}
	info := driver.CodeContext{ID: driver.NewID(), Language: language, Dir: opts.Dir, Created: time.Now().UTC()}
	if err := k.reserveID(info.ID); err != nil {
		return nil, err
	}
	kn, err := k.launchBridge(ctx, info, opts, detached)
	k.mu.Lock()
	closed := k.closed
	if err != nil || closed {
		delete(k.live, info.ID)
	} else {
		k.live[info.ID] = kn
	}
	k.mu.Unlock()
	if err == nil && closed {
		err = errors.Join(closedError(), kn.end(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return nil, err
	}
	return kn, nil
}

func closedError() error {
	return fmt.Errorf("jupyter: start a kernel: %w: the workspace is closed", fault.WrongState)
}

func (k *Kernels) reserveID(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return closedError()
	}
	if len(k.live) >= k.opts.Most {
		return fmt.Errorf("jupyter: start a kernel: %w: the workspace has %d contexts, which is the maximum; delete one", fault.ResourceExhausted, len(k.live))
	}
	k.live[id] = nil
	return nil
}

// refresh finds the kernels that other handles and processes have started, and drops those that
// have ended.
func (k *Kernels) refresh(ctx context.Context) error {
	var found []driver.SessionInfo
	if k.outlives() {
		all, err := k.shell.Sessions(ctx)
		if err != nil {
			return fmt.Errorf("jupyter: list the kernels: %w", err)
		}
		found = slices.DeleteFunc(all, func(i driver.SessionInfo) bool { return !i.Running || i.Labels[driver.ContextLabel] == "" })
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, kn := range k.live {
		if kn != nil && kn.hasEnded() {
			delete(k.live, id)
		}
	}
	for _, info := range found {
		if _, known := k.live[info.Labels[driver.ContextLabel]]; known {
			continue
		}
		kn, err := k.adopt(ctx, info)
		if err != nil && fault.Of(err) != fault.NotFound { // it has ended meanwhile
			return fmt.Errorf("jupyter: attach to context %s: %w", info.Labels[driver.ContextLabel], err)
		}
		if err == nil {
			k.live[kn.info.ID] = kn
		}
	}
	return nil
}

// kernelOf returns the kernel of a context.
func (k *Kernels) kernelOf(ctx context.Context, id string) (*kernel, error) {
	if kn := k.knownKernel(id); kn != nil {
		return kn, nil
	}
	if err := k.refresh(ctx); err != nil {
		return nil, err
	}
	if kn := k.knownKernel(id); kn != nil {
		return kn, nil
	}
	return nil, k.missingError(ctx, id)
}

func (k *Kernels) knownKernel(id string) *kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kn := k.live[id]; kn != nil && !kn.hasEnded() {
		return kn
	}
	return nil
}

// missingError says whether a context has lost its kernel.
func (k *Kernels) missingError(ctx context.Context, id string) error {
	if k.outlives() {
		all, err := k.shell.Sessions(ctx)
		if err == nil && slices.ContainsFunc(all, func(i driver.SessionInfo) bool { return i.Labels[driver.ContextLabel] == id }) {
			return lostError(id)
		}
	}
	return fmt.Errorf("jupyter: context %.80q: %w: the context was deleted, was idle for too long, or never existed", id, fault.NotFound)
}

func lostError(id string) error {
	return fmt.Errorf("jupyter: context %.80q: %w: its kernel has ended, because it was idle for too long or was killed, and its state is lost; create another context", id, fault.NotFound)
}

func (k *Kernels) listContexts(ctx context.Context) ([]driver.CodeContext, error) {
	if err := k.refresh(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	list := []driver.CodeContext{}
	for _, kn := range k.live {
		if kn != nil && !kn.hasEnded() {
			list = append(list, kn.info)
		}
	}
	slices.SortFunc(list, func(a, b driver.CodeContext) int {
		return a.Created.Compare(b.Created)
	})
	return list, nil
}

func (k *Kernels) removeContext(ctx context.Context, id string) error {
	kn, err := k.kernelOf(ctx, id)
	if err != nil {
		return err
	}
	k.mu.Lock()
	delete(k.live, id)
	k.mu.Unlock()
	return kn.end(ctx)
}

func (k *Kernels) interruptContext(ctx context.Context, id string) error {
	c, err := k.connectTo(ctx, id)
	if err != nil {
		return err
	}
	return c.sendRequest(ctx, bridgeRequest{Op: "interrupt"})
}

func (k *Kernels) restartContext(ctx context.Context, id string) error {
	c, err := k.connectTo(ctx, id)
	if err != nil {
		return err
	}
	return c.restart(ctx, id, k.opts.Start)
}

func (k *Kernels) connectTo(ctx context.Context, id string) (*conn, error) {
	kn, err := k.kernelOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return kn.connect(ctx)
}

// RunCode runs code in its context, or in a new kernel.
func (k *Kernels) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	if code.Timeout <= 0 {
		code.Timeout = k.opts.Timeout
	}
	if code.Context == "" {
		// It ends with the run, and with the handle at the latest.
		kn, err := k.startKernel(ctx, code.Language, &driver.ContextOptions{Dir: code.Dir, Env: code.Env}, false)
		if err != nil {
			return driver.CodeResult{}, err
		}
		defer func() { _ = k.removeContext(context.WithoutCancel(ctx), kn.info.ID) }() // it may have been closed with the workspace
		return kn.run(ctx, code, k.opts)
	}
	kn, err := k.kernelOf(ctx, code.Context)
	if err != nil {
		return driver.CodeResult{}, err
	}
	if code.Language != "" && !strings.EqualFold(code.Language, kn.info.Language) {
		return driver.CodeResult{}, fmt.Errorf("jupyter: context %s: %w: the context runs %s, not %.80q", kn.info.ID, fault.InvalidArgument, kn.info.Language, code.Language)
	}
	return kn.run(ctx, code, k.opts)
}
