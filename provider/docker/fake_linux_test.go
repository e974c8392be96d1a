package docker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/croft-run/croft/fault"
)

// A fake is an engine that records what it is asked for, and fails on command. It
// passes calls on to another engine or, without one, keeps containers and images
// in memory, where nothing runs.
type fake struct {
	inner Engine // nil is none

	mu    sync.Mutex
	calls []string
	hooks map[string]func(ctx context.Context) error // by the name of a method: what it answers instead, nil to go on
	units map[string]*State
	image map[string]Image
	kept  map[string]Volume
}

var _ Engine = (*fake)(nil)

func newFake(inner Engine) *fake {
	return &fake{inner: inner, hooks: map[string]func(context.Context) error{}, units: map[string]*State{}, image: map[string]Image{}, kept: map[string]Volume{}}
}

// on makes a method answer what hook does; nil takes that back.
func (f *fake) on(method string, hook func(ctx context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[method] = hook
}

// hang waits for the end of a context, as an engine does that is stuck.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("fake: %w", ctx.Err())
}

// givenUp hangs as well, for a caller who gives up as soon as the engine is asked.
func givenUp(cancel context.CancelFunc) func(context.Context) error {
	return func(ctx context.Context) error {
		cancel()
		return hang(ctx)
	}
}

// called returns the calls so far, of one method or, with "", of all.
func (f *fake) called(method string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(c string) bool { return method != "" && !strings.HasPrefix(c, method+" ") })
}

// enter records a call and returns what a hook answers.
func (f *fake) enter(ctx context.Context, method, what string) error {
	f.mu.Lock()
	f.calls = append(f.calls, method+" "+what)
	hook := f.hooks[method]
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx)
	}
	return nil
}

func (f *fake) Ping(ctx context.Context) error {
	if err := f.enter(ctx, "Ping", ""); err != nil || f.inner == nil {
		return err
	}
	return f.inner.Ping(ctx)
}

func (f *fake) Info(ctx context.Context) (Info, error) {
	if err := f.enter(ctx, "Info", ""); err != nil {
		return Info{}, err
	}
	if f.inner == nil {
		return Info{ID: "fake", Name: "Fake 1", Architecture: "amd64", Runtimes: []string{"runc"}, Memory: true, Swap: true, PIDs: true, CPU: true}, nil
	}
	return f.inner.Info(ctx)
}

func (f *fake) Create(ctx context.Context, u ContainerSpec) (string, error) {
	if err := f.enter(ctx, "Create", u.Name); err != nil {
		return "", err
	}
	if f.inner != nil {
		return f.inner.Create(ctx, u)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.units[u.Name] != nil {
		return "", fmt.Errorf("fake: create %s: %w", u.Name, fault.AlreadyExists)
	}
	f.units[u.Name] = &State{ID: u.Name, Name: u.Name, Labels: u.Labels}
	return u.Name, nil
}

// change does something to a container in memory.
func (f *fake) change(id string, do func(*State)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.units[id]
	if s == nil {
		return fmt.Errorf("fake: container %s: %w", id, fault.NotFound)
	}
	do(s)
	return nil
}

func (f *fake) Start(ctx context.Context, id string) error {
	if err := f.enter(ctx, "Start", id); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Start(ctx, id)
	}
	return f.change(id, func(s *State) { s.Running = true })
}

func (f *fake) Attach(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	if err := f.enter(ctx, "Attach", id); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Attach(ctx, id)
	}
	return nil, fmt.Errorf("fake: attach: %w", fault.Unsupported)
}

func (f *fake) Exec(ctx context.Context, id, user string, argv ...string) (io.ReadWriteCloser, error) {
	if err := f.enter(ctx, "Exec", id); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Exec(ctx, id, user, argv...)
	}
	return nil, fmt.Errorf("fake: exec: %w", fault.Unsupported)
}

func (f *fake) Put(ctx context.Context, id, dir string, files io.Reader) error {
	if err := f.enter(ctx, "Put", id); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Put(ctx, id, dir, files)
	}
	_, err := io.Copy(io.Discard, files)
	return err
}

func (f *fake) CreateVolume(ctx context.Context, name string, uid int, labels map[string]string) error {
	if err := f.enter(ctx, "CreateVolume", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.CreateVolume(ctx, name, uid, labels)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept[name] = Volume{name, labels}
	return nil
}

func (f *fake) Volume(ctx context.Context, name string) error {
	if err := f.enter(ctx, "Volume", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Volume(ctx, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.kept[name]; !ok {
		return fmt.Errorf("fake: volume %s: %w", name, fault.NotFound)
	}
	return nil
}

func (f *fake) Volumes(ctx context.Context, labels map[string]string) ([]Volume, error) {
	if err := f.enter(ctx, "Volumes", fmt.Sprint(labels)); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Volumes(ctx, labels)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Volume
	for _, v := range f.kept {
		if fits(v.Labels, labels) {
			list = append(list, v)
		}
	}
	return list, nil
}

func (f *fake) RemoveVolume(ctx context.Context, name string) error {
	if err := f.enter(ctx, "RemoveVolume", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.RemoveVolume(ctx, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kept, name)
	return nil
}

// fits reports whether there are all labels; one with the value "" need only be there.
func fits(has, labels map[string]string) bool {
	for k, v := range labels {
		if is, ok := has[k]; !ok || v != "" && is != v {
			return false
		}
	}
	return true
}

func (f *fake) Remove(ctx context.Context, id string) error {
	if err := f.enter(ctx, "Remove", id); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Remove(ctx, id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.units, id)
	return nil
}

func (f *fake) Inspect(ctx context.Context, id string) (State, error) {
	if err := f.enter(ctx, "Inspect", id); err != nil {
		return State{}, err
	}
	if f.inner != nil {
		return f.inner.Inspect(ctx, id)
	}
	var state State
	err := f.change(id, func(s *State) { state = *s })
	return state, err
}

func (f *fake) Usage(ctx context.Context, id string) (Usage, error) {
	if err := f.enter(ctx, "Usage", id); err != nil {
		return Usage{}, err
	}
	if f.inner != nil {
		return f.inner.Usage(ctx, id)
	}
	return Usage{}, f.change(id, func(*State) {})
}

func (f *fake) List(ctx context.Context, labels map[string]string) ([]State, error) {
	if err := f.enter(ctx, "List", fmt.Sprint(labels)); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.List(ctx, labels)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []State
	for _, name := range slices.Sorted(maps.Keys(f.units)) {
		if s := f.units[name]; fits(s.Labels, labels) {
			list = append(list, *s)
		}
	}
	return list, nil
}

func (f *fake) Pause(ctx context.Context, id string) error {
	if err := f.enter(ctx, "Pause", id); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Pause(ctx, id)
	}
	return f.change(id, func(s *State) { s.Paused = true })
}

func (f *fake) Unpause(ctx context.Context, id string) error {
	if err := f.enter(ctx, "Unpause", id); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Unpause(ctx, id)
	}
	return f.change(id, func(s *State) { s.Paused = false })
}

func (f *fake) Image(ctx context.Context, name string) (Image, error) {
	if err := f.enter(ctx, "Image", name); err != nil {
		return Image{}, err
	}
	if f.inner != nil {
		return f.inner.Image(ctx, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	img, ok := f.image[name]
	if !ok {
		return Image{}, fmt.Errorf("fake: image %s: %w", name, fault.NotFound)
	}
	return img, nil
}

func (f *fake) Images(ctx context.Context) ([]Image, error) {
	if err := f.enter(ctx, "Images", ""); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Images(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.image)), nil
}

// have adds an image in memory.
func (f *fake) have(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.image[name] = Image{ID: name, Names: []string{name}}
	return nil
}

func (f *fake) Pull(ctx context.Context, name string) error {
	if err := f.enter(ctx, "Pull", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Pull(ctx, name)
	}
	return f.have(name)
}

func (f *fake) Load(ctx context.Context, archive io.Reader) ([]string, error) {
	if err := f.enter(ctx, "Load", ""); err != nil {
		return nil, err
	}
	if f.inner != nil {
		return f.inner.Load(ctx, archive)
	}
	_, err := io.Copy(io.Discard, archive)
	return []string{"loaded:1"}, err
}

func (f *fake) Import(ctx context.Context, files io.Reader, name string, c Commit) error {
	if err := f.enter(ctx, "Import", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Import(ctx, files, name, c)
	}
	if _, err := io.Copy(io.Discard, files); err != nil {
		return err
	}
	return f.have(name)
}

func (f *fake) Build(ctx context.Context, files io.Reader, dockerfile, name string, labels map[string]string) error {
	if err := f.enter(ctx, "Build", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Build(ctx, files, dockerfile, name, labels)
	}
	if _, err := io.Copy(io.Discard, files); err != nil {
		return err
	}
	return f.have(name)
}

func (f *fake) Commit(ctx context.Context, id, name string, labels map[string]string) error {
	if err := f.enter(ctx, "Commit", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.Commit(ctx, id, name, labels)
	}
	return f.have(name)
}

func (f *fake) RemoveImage(ctx context.Context, name string) error {
	if err := f.enter(ctx, "RemoveImage", name); err != nil {
		return err
	}
	if f.inner != nil {
		return f.inner.RemoveImage(ctx, name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.image, name)
	return nil
}

func (f *fake) Close() error {
	if f.inner != nil {
		return f.inner.Close()
	}
	return nil
}
