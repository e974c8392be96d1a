package jupyter

import (
	"context"
	"errors"
	"fmt"
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
	Idle    time.Duration // unused contexts end after this time; 0 is 30 minutes
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
	wg     sync.WaitGroup     // kernels that end because they are idle
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

// Close ends all kernels.
func (k *Kernels) Close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	live := k.live
	k.live = map[string]*kernel{}
	k.mu.Unlock()
	var errs []error
	for _, kn := range live {
		if kn != nil {
			errs = append(errs, kn.close(ctx))
		}
	}
	k.wg.Wait()
	return errors.Join(errs...)
}

func (k *Kernels) createContext(ctx context.Context, language string, opts *driver.ContextOptions) (driver.CodeContext, error) {
	kn, err := k.startKernel(ctx, language, opts.Dir, opts.Env)
	if err != nil {
		return driver.CodeContext{}, err
	}
	return kn.info, nil
}

// maxLanguage bounds the length of the name of a language or kernel.
const maxLanguage = 100

// startKernel starts a kernel and registers it under a new id.
func (k *Kernels) startKernel(ctx context.Context, language, dir string, env map[string]string) (*kernel, error) {
	if language == "" {
		language = DefaultLanguage
	}
	if len(language) > maxLanguage {
		return nil, fmt.Errorf("jupyter: language %.80q: %w: the name has %d bytes; at most %d are allowed", language, fault.InvalidArgument, len(language), maxLanguage)
	}
	id := driver.NewID()
	if err := k.reserveID(id); err != nil {
		return nil, err
	}
	kn, err := k.launchBridge(ctx, strings.ToLower(language), dir, env)
	k.mu.Lock()
	closed := k.closed
	if err != nil || closed {
		delete(k.live, id)
	} else {
		kn.info = driver.CodeContext{ID: id, Language: language, Dir: dir, Created: time.Now().UTC()}
		kn.idle = time.AfterFunc(k.opts.Idle, func() { k.removeIdle(id) })
		k.live[id] = kn
	}
	k.mu.Unlock()
	if err == nil && closed {
		err = errors.Join(fmt.Errorf("jupyter: start a kernel: %w: the workspace is closed", fault.WrongState), kn.close(ctx))
	}
	if err != nil {
		return nil, err
	}
	return kn, nil
}

func (k *Kernels) reserveID(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fmt.Errorf("jupyter: start a kernel: %w: the workspace is closed", fault.WrongState)
	}
	for id, kn := range k.live {
		if kn != nil && kn.hasEnded() {
			kn.idle.Stop()
			delete(k.live, id)
		}
	}
	if len(k.live) >= k.opts.Most {
		return fmt.Errorf("jupyter: start a kernel: %w: the workspace has %d contexts, which is the maximum; delete one", fault.ResourceExhausted, len(k.live))
	}
	k.live[id] = nil
	return nil
}

// kernelOf returns the kernel of a context.
func (k *Kernels) kernelOf(id string) (*kernel, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if kn := k.live[id]; kn != nil && !kn.hasEnded() {
		return kn, nil
	}
	return nil, contextNotFound(id)
}

// acquireKernel returns the kernel of a context for a call. The kernel does not count as idle
// until done is called.
func (k *Kernels) acquireKernel(id string) (kn *kernel, done func(), err error) {
	kn, err = k.kernelOf(id)
	if err != nil {
		return nil, nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live[id] != kn {
		return nil, nil, contextNotFound(id) // removed meanwhile
	}
	kn.users++
	return kn, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		kn.users--
		if k.live[id] == kn {
			kn.idle.Reset(k.opts.Idle)
		}
	}, nil
}

func contextNotFound(id string) error {
	return fmt.Errorf("jupyter: context %.80q: %w: the context was deleted, was idle for too long, or never existed", id, fault.NotFound)
}

func (k *Kernels) listContexts(context.Context) ([]driver.CodeContext, error) {
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
	kn, err := k.kernelOf(id)
	if err != nil {
		return err
	}
	k.mu.Lock()
	delete(k.live, id)
	k.mu.Unlock()
	return kn.close(ctx)
}

// closeBound bounds the time to end an idle kernel.
const closeBound = 20 * time.Second

// removeIdle ends an idle context.
func (k *Kernels) removeIdle(id string) {
	k.mu.Lock()
	kn := k.live[id]
	if kn == nil || k.closed {
		k.mu.Unlock()
		return
	}
	if kn.users > 0 {
		kn.idle.Reset(k.opts.Idle)
		k.mu.Unlock()
		return
	}
	delete(k.live, id)
	k.wg.Add(1)
	k.mu.Unlock()
	defer k.wg.Done()
	ctx, cancel := context.WithTimeout(kn.life, closeBound)
	defer cancel()
	_ = kn.close(ctx) // best effort; the session ends with the workspace at the latest
}

func (k *Kernels) interruptContext(ctx context.Context, id string) error {
	kn, done, err := k.acquireKernel(id)
	if err != nil {
		return err
	}
	defer done()
	return kn.sendRequest(ctx, bridgeRequest{Op: "interrupt"})
}

func (k *Kernels) restartContext(ctx context.Context, id string) error {
	kn, done, err := k.acquireKernel(id)
	if err != nil {
		return err
	}
	defer done()
	return kn.restart(ctx, k.opts.Start)
}

// RunCode runs code in its context, or in a new kernel.
func (k *Kernels) RunCode(ctx context.Context, code driver.Code) (driver.CodeResult, error) {
	if code.Timeout <= 0 {
		code.Timeout = k.opts.Timeout
	}
	id := code.Context
	if id == "" {
		kn, err := k.startKernel(ctx, code.Language, code.Dir, code.Env)
		if err != nil {
			return driver.CodeResult{}, err
		}
		id = kn.info.ID
		defer func() { _ = k.removeContext(context.WithoutCancel(ctx), id) }() // it may have been closed with the workspace
	}
	kn, done, err := k.acquireKernel(id)
	if err != nil {
		return driver.CodeResult{}, err
	}
	defer done()
	if code.Language != "" && !strings.EqualFold(code.Language, kn.info.Language) {
		return driver.CodeResult{}, fmt.Errorf("jupyter: context %s: %w: the context runs %s, not %.80q", kn.info.ID, fault.InvalidArgument, kn.info.Language, code.Language)
	}
	return kn.run(ctx, code, k.opts)
}
