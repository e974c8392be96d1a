package command

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/croft-run/croft/daemon/system"
	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/workspace"
)

// A fence is the ground of an evaluation behind a fence, which is put up and tried
// while the suite is read.
type fence struct {
	done chan struct{} // closed when what is below is set

	ground   *system.EvalGround // nil where there is none
	requests *eval.Requests
	places   *eval.Sandbox
	err      error

	once sync.Once
}

// beginFence begins to put up a fence.
func (a *app) beginFence(ctx context.Context, p *evalPlace) *fence {
	b := &fence{done: make(chan struct{}), requests: new(eval.Requests)}
	settings, err := a.settings()
	if err != nil {
		b.err = err
		close(b.done)
		return b
	}
	log := a.logger(slog.LevelError)
	go func() { // ends by itself; whoever began waits for it, at the latest in end
		defer close(b.done)
		inside := &eval.Inside{Base: system.EvalInside}
		b.ground, b.err = system.OpenEval(ctx, system.EvalConfig{Settings: settings, Events: b.requests, Inside: inside.Handler, Log: log})
		if b.err == nil {
			b.places = &eval.Sandbox{Provider: b.ground.Provider, Isolation: workspace.Isolation(p.isolation), Inside: inside}
			b.err = b.places.Ready(ctx)
		}
	}()
	return b
}

// beginEarly begins to put up a fence before it is known whether the configuration
// asks for one, as nearly all do, and returns what to call in the end.
func (a *app) beginEarly(ctx context.Context, p *evalPlace) func(err *error) {
	if a.server != "" || p.provider != "" && p.provider != fenced {
		return func(*error) {}
	}
	p.begun = a.beginFence(ctx, p)
	return func(err *error) { *err = errors.Join(*err, p.begun.end(ctx)) }
}

// end takes the fence down, once.
func (b *fence) end(ctx context.Context) (err error) {
	<-b.done
	b.once.Do(func() {
		if b.ground != nil {
			err = b.ground.Close(ctx)
		}
	})
	return err
}
