package tool

import (
	"context"
	"errors"
	"reflect"
	"sync"
)

// A closer is a kept value that has something to let go of.
type closer interface {
	Close(ctx context.Context) error
}

type keepKey struct {
	workspace string // id
	kind      reflect.Type
}

type kept struct {
	once  sync.Once
	value any
	err   error
}

// keeper holds what families keep for workspaces.
type keeper struct {
	mu   sync.Mutex
	held map[keepKey]*kept // guarded by mu
}

// PerWorkspace returns the T that is kept for the workspace of a call, and makes it where
// there is none yet; calls at the same time share one. T is a type of the
// family's own, since there is one value for each type and workspace. One that
// has a method Close(ctx) error is closed with the Env, or when the workspace is
// forgotten. An error is not kept.
func PerWorkspace[T any](c *Call, make func() (T, error)) (T, error) {
	k := &c.Env.keeper
	key := keepKey{c.Workspace.ID(), reflect.TypeFor[T]()}
	k.mu.Lock()
	if k.held == nil {
		k.held = map[keepKey]*kept{}
	}
	e := k.held[key]
	if e == nil {
		e = &kept{}
		k.held[key] = e
	}
	k.mu.Unlock()
	e.once.Do(func() {
		v, err := make()
		e.value, e.err = v, err
	})
	if e.err != nil {
		k.drop(key, e)
		var zero T
		return zero, e.err
	}
	return e.value.(T), nil
}

func (k *keeper) drop(key keepKey, e *kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[key] == e {
		delete(k.held, key)
	}
}

// forget closes what is kept for a workspace; "" is all of them.
func (k *keeper) forget(ctx context.Context, workspace string) error {
	k.mu.Lock()
	var ended []*kept
	for key, e := range k.held {
		if workspace == "" || key.workspace == workspace {
			ended = append(ended, e)
			delete(k.held, key)
		}
	}
	k.mu.Unlock()
	var errs []error
	for _, e := range ended {
		e.once.Do(func() {}) // wait for one that is being made
		if c, ok := e.value.(closer); ok && e.err == nil {
			errs = append(errs, c.Close(ctx))
		}
	}
	return errors.Join(errs...)
}
