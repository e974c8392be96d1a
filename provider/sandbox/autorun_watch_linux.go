package sandbox

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/host/wsdir"
	"github.com/croft-run/croft/workspace/driver"
)

// autorunSection says what directories of the user's held when the guest started.
const autorunSection = wsdir.Section[autorunState]("watched")

// writeTo puts what was found into a state that is being changed.
func (w *autorunState) writeTo(m *wsdir.State) error {
	if len(w.Dirs) == 0 {
		w = nil
	}
	return autorunSection.Set(m, w)
}

// autorunWatch paces the looks at directories of the user's.
type autorunWatch struct {
	mu    sync.Mutex
	next  time.Time     // not before
	found *autorunState // of a throw-away workspace, whose guest no other process finds; nil is that the state tells
}

// setFound remembers what was there when the guest started.
func (l *autorunWatch) setFound(w *autorunState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = w
}

// scanPause is how many times as long as a look takes is the pause after it.
const scanPause = 10

// maxReported bounds what one look tells of one directory.
const maxReported = 100

// autorunChanges looks for what others run later and was made, or changed, in a directory
// of the user's since the guest started or the last look. Each is told once: by an
// event and to the caller. Looks cost at most a tenth of the time, but for the one
// that must be.
func (h *handle) autorunChanges(must bool) []string {
	if h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return nil
	}
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	start := time.Now()
	if start.Before(h.autorun.next) && !must {
		return nil
	}
	w := h.autorun.found
	if w == nil {
		m, err := h.att.Dir.Read()
		if err == nil {
			w, err = autorunSection.Get(m)
		}
		if err != nil || w == nil {
			return nil // no guest has started yet, or all is read-only
		}
	}
	var found []string
	for _, at := range slices.Sorted(maps.Keys(w.Dirs)) {
		s, err := scanAutorun(at)
		if err != nil {
			h.emitAutorunChange(at, err)
			found = append(found, at)
			delete(w.Dirs, at) // it is told once
			continue
		}
		news := s.changedSince(w.Dirs[at])
		for _, name := range news[:min(len(news), maxReported)] {
			found = append(found, filepath.Join(at, name))
			h.emitAutorunChange(filepath.Join(at, name), fault.SandboxViolation)
		}
		if len(news) > maxReported { // the directory stands for the rest
			found = append(found, at)
			h.emitAutorunChange(at, fault.SandboxViolation)
		}
		w.Dirs[at] = s.stamps
	}
	if len(found) > 0 && h.autorun.found == nil {
		if _, err := h.att.Dir.Update(context.WithoutCancel(h.p.ctx), false, w.writeTo); err != nil {
			h.p.log.Warn("sandbox: what was told can't be noted", "workspace", h.id, "error", err)
		}
	}
	h.autorun.next = time.Now().Add(scanPause * time.Since(start))
	return found
}

// emitAutorunChange emits the event of one that was found.
func (h *handle) emitAutorunChange(name string, err error) {
	if h.p.cfg.Events == nil {
		return
	}
	h.p.cfg.Events.Emit(event.NewSandboxViolation(h.id, "", event.Violation{Tool: "run", Path: name, Err: fmt.Errorf(
		"sandbox: %s was made or changed while the workspace could write there, and others run what it says: %w: look at it before you use it", name, err)}))
}

// reportAutorun makes the result of a session say what was planted.
func (h *handle) reportAutorun(s *driver.Session, err error) (*driver.Session, error) {
	if err != nil || h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return s, err
	}
	told := *s
	told.Process = autorunProcess{s.Process, h}
	return &told, nil
}

type autorunProcess struct {
	driver.Process
	h *handle
}

// Wait waits for the session, and looks then.
func (t autorunProcess) Wait(ctx context.Context) (driver.Result, error) {
	res, err := t.Process.Wait(ctx)
	if err == nil {
		res.AutorunChanges = t.h.autorunChanges(false)
	}
	return res, err
}
