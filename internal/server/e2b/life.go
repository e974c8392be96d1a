package e2b

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// setTimeout ends a sandbox that many seconds from now, sooner or later than before.
func (s *Server) setTimeout(r *http.Request) (answer, error) {
	var in struct {
		Timeout *int `json:"timeout"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	if in.Timeout == nil {
		return answer{}, fmt.Errorf("timeout: %w: give the seconds from now", fault.InvalidArgument)
	}
	return s.moveEnd(r, *in.Timeout, false)
}

// refresh keeps a sandbox alive for at least that many seconds.
func (s *Server) refresh(r *http.Request) (answer, error) {
	var in struct {
		Duration *int `json:"duration"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	seconds := defaultTimeoutV1
	if in.Duration != nil {
		seconds = *in.Duration
	}
	return s.moveEnd(r, seconds, true)
}

func (s *Server) moveEnd(r *http.Request, seconds int, later bool) (answer, error) {
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	if seconds, err = checkTimeout(&seconds, 0); err != nil {
		return answer{}, err
	}
	if box.state() == paused {
		return answer{}, fmt.Errorf("sandbox %s: %w: it is paused, so it has no time-out; connect to it first", box.ID, fault.WrongState)
	}
	if err := s.extend(r.Context(), box.ID, seconds, later); err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, nil
}

// extend sets the end of a sandbox; with later it is only moved to a later time.
func (s *Server) extend(ctx context.Context, id string, seconds int, later bool) error {
	end := endAfter(seconds)
	_, err := s.cfg.Registry.SetAttributes(ctx, id, func(a *registry.Attributes) error {
		if !later || a.EndAt.Before(end) {
			a.EndAt = end
		}
		return nil
	})
	return err
}

// connectBody is the body of connect and resume.
type connectBody struct {
	Timeout   *int  `json:"timeout"`
	Memory    *bool `json:"memory"`    // false ends the processes of a paused sandbox
	AutoPause *bool `json:"autoPause"` // of resume
}

// connect returns a sandbox, and resumes it if it is paused. Its end is only moved to a
// later time.
func (s *Server) connect(timeout int) handler {
	return func(r *http.Request) (answer, error) {
		var in connectBody
		if err := decode(r, &in); err != nil {
			return answer{}, err
		}
		box, err := s.findRequested(r)
		if err != nil {
			return answer{}, err
		}
		seconds, err := checkTimeout(in.Timeout, timeout)
		if err != nil {
			return answer{}, err
		}
		status := http.StatusOK
		if box.state() == paused {
			status = http.StatusCreated
			if err := s.resumeSandbox(r.Context(), box, seconds, in.Memory == nil || *in.Memory); err != nil {
				return answer{}, err
			}
		} else if err := s.extend(r.Context(), box.ID, seconds, true); err != nil {
			return answer{}, err
		}
		return answer{status: status, body: s.describe(box)}, nil
	}
}

// resume is the older form of connect, for paused sandboxes only.
func (s *Server) resume(r *http.Request) (answer, error) {
	var in connectBody
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	seconds, err := checkTimeout(in.Timeout, defaultTimeoutV1)
	if err != nil {
		return answer{}, err
	}
	if box.state() != paused {
		return answer{}, fmt.Errorf("sandbox %s: %w: it is running already", box.ID, fault.WrongState)
	}
	if err := s.resumeSandbox(r.Context(), box, seconds, in.Memory == nil || *in.Memory); err != nil {
		return answer{}, err
	}
	if in.AutoPause != nil {
		_, err = s.cfg.Registry.SetAttributes(r.Context(), box.ID, func(a *registry.Attributes) error {
			a.OnEnd = registry.DestroyOnEnd
			if *in.AutoPause {
				a.OnEnd = registry.PauseOnEnd
			}
			return nil
		})
		if err != nil {
			return answer{}, err
		}
	}
	return answer{status: http.StatusCreated, body: s.describe(box)}, nil
}

// resumeSandbox continues the processes of a paused sandbox or, without memory, ends them.
// Another request may have resumed it meanwhile.
func (s *Server) resumeSandbox(ctx context.Context, box sandbox, seconds int, memory bool) error {
	// The end comes first: a crash in between must not leave a running sandbox without one.
	if err := s.extend(ctx, box.ID, seconds, true); err != nil {
		return err
	}
	if err := s.cfg.Registry.Resume(ctx, box.ID); err != nil && fault.Of(err) != fault.WrongState {
		return err
	}
	if memory {
		return nil
	}
	ws, err := s.cfg.Registry.Acquire(ctx, box.ID)
	if err != nil {
		return err
	}
	if err := endProcesses(ctx, ws); err != nil {
		return err
	}
	return s.start(ctx, ws, box.details)
}

// endProcesses ends all commands of a workspace.
func endProcesses(ctx context.Context, ws *workspace.Workspace) error {
	list, err := ws.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, info := range list {
		session, err := ws.Attach(ctx, info.ID)
		if err == nil {
			err = session.Kill(ctx, 0)
		}
		if err != nil && fault.Of(err) != fault.NotFound {
			return err
		}
	}
	return nil
}

// pause freezes a sandbox. Its memory is kept, also if the client asks for its files alone:
// they are then dropped when it is resumed.
func (s *Server) pause(r *http.Request) (answer, error) {
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	if box.state() == paused {
		return answer{}, fmt.Errorf("sandbox %s: %w: it is paused already", box.ID, fault.WrongState)
	}
	ctx, cancel := cleanup(r.Context())
	defer cancel()
	if in.Memory != nil && !*in.Memory {
		ws, err := s.cfg.Registry.Acquire(ctx, box.ID)
		if err == nil {
			err = endProcesses(ctx, ws)
		}
		if err != nil {
			return answer{}, err
		}
	}
	if err := s.cfg.Registry.Pause(ctx, box.ID); err != nil {
		return answer{}, err
	}
	_, err = s.cfg.Registry.SetAttributes(ctx, box.ID, func(a *registry.Attributes) error {
		a.EndAt = time.Time{}
		return nil
	})
	return answer{status: http.StatusNoContent}, err
}

// maxForks bounds the sandboxes of one fork.
const maxForks = 100

// forkResult is one sandbox of a fork, or why it could not be started.
type forkResult struct {
	Sandbox *sandboxAnswer `json:"sandbox,omitempty"`
	Error   *problem       `json:"error,omitempty"`
}

// fork starts sandboxes with the files that another one has now. Processes are not copied.
func (s *Server) fork(r *http.Request) (answer, error) {
	var in struct {
		Timeout *int `json:"timeout"`
		Count   *int `json:"count"`
	}
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	seconds, err := checkTimeout(in.Timeout, defaultTimeout)
	if err != nil {
		return answer{}, err
	}
	count := 1
	if in.Count != nil {
		count = *in.Count
	}
	if count < 1 || count > maxForks {
		return answer{}, fmt.Errorf("count %d: %w: give 1 to %d", count, fault.InvalidArgument, maxForks)
	}
	box, err := s.findRequested(r)
	if err != nil {
		return answer{}, err
	}
	info, err := s.snapshotOf(r.Context(), box, &driver.SnapshotOptions{Labels: map[string]string{snapshot.CauseLabel: "fork"}})
	if err != nil {
		return answer{}, err
	}
	spec := box.Spec
	spec.ID, spec.Name, spec.From = "", "", driver.Source{Snapshot: info.ID, CrossSession: true}
	d := box.details
	d.Timeout = seconds
	results := make([]forkResult, count)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range results {
		group.Go(func() error {
			child, err := s.open(r.Context(), spec, d, box.OnEnd == registry.PauseOnEnd)
			if err != nil {
				p := newProblem(err)
				results[i].Error = &p
				return nil
			}
			a := s.describe(child)
			results[i].Sandbox = &a
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	return answer{status: http.StatusCreated, body: results}, nil
}

// snapshotOf takes a snapshot of a sandbox that runs.
func (s *Server) snapshotOf(ctx context.Context, box sandbox, opts *driver.SnapshotOptions) (driver.SnapshotInfo, error) {
	if box.state() == paused {
		return driver.SnapshotInfo{}, fmt.Errorf("sandbox %s: %w: it is paused; connect to it first", box.ID, fault.WrongState)
	}
	ws, err := s.cfg.Registry.Acquire(ctx, box.ID)
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	return ws.Snapshot(ctx, opts)
}
