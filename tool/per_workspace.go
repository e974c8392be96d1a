package tool

import (
	"context"
	"errors"
	"reflect"
	"sync"
)

// A closer is a value that must be closed.
type closer interface {
	Close(ctx context.Context) error
}

type valueKey struct {
	workspace string // id
	kind      reflect.Type
}

type workspaceValue struct {
	once  sync.Once
	value any
	err   error
}

// workspaceValues holds the per-workspace values of an Env.
type workspaceValues struct {
	mu      sync.Mutex
	entries map[valueKey]*workspaceValue // guarded by mu
}

// PerWorkspace returns the T of the call's workspace, and makes it at the first call;
// concurrent callers share one make (singleflight). There is one value for each type and
// workspace, so T should be a type of the family's own. A T with a method Close(ctx) error
// is closed with the Env, or when the workspace is forgotten. After an error the next call
// makes it again.
func PerWorkspace[T any](c *Call, make func() (T, error)) (T, error) {
	k := &c.Env.perWorkspace
	key := valueKey{c.Workspace.ID(), reflect.TypeFor[T]()}
	k.mu.Lock()
	if k.entries == nil {
		k.entries = map[valueKey]*workspaceValue{}
	}
	e := k.entries[key]
	if e == nil {
		e = &workspaceValue{}
		k.entries[key] = e
	}
	k.mu.Unlock()
	e.once.Do(func() {
		v, err := make()
		e.value, e.err = v, err
	})
	if e.err != nil {
		k.remove(key, e)
		var zero T
		return zero, e.err
	}
	return e.value.(T), nil
}

func (k *workspaceValues) remove(key valueKey, e *workspaceValue) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries[key] == e {
		delete(k.entries, key)
	}
}

// closeWorkspace closes the values of a workspace; "" is all workspaces.
func (k *workspaceValues) closeWorkspace(ctx context.Context, workspace string) error {
	k.mu.Lock()
	var ended []*workspaceValue
	for key, e := range k.entries {
		if workspace == "" || key.workspace == workspace {
			ended = append(ended, e)
			delete(k.entries, key)
		}
	}
	k.mu.Unlock()
	var errs []error
	for _, e := range ended {
		e.once.Do(func() {}) // wait for a make that is running
		if c, ok := e.value.(closer); ok && e.err == nil {
			errs = append(errs, c.Close(ctx))
		}
	}
	return errors.Join(errs...)
}
