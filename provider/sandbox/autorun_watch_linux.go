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

// autorunSection is the section of the state with the autorun files that directories of
// the user contained when the guest started.
const autorunSection = wsdir.Section[autorunState]("autorun")

// writeTo sets the section in a state that is being changed.
func (w *autorunState) writeTo(m *wsdir.State) error {
	if len(w.Dirs) == 0 {
		w = nil
	}
	return autorunSection.Set(m, w)
}

// autorunWatch limits how often directories of the user are scanned for autorun files.
type autorunWatch struct {
	mu    sync.Mutex
	next  time.Time     // of the next scan, at the earliest
	found *autorunState // of a throwaway workspace; nil reads the section of the state

	hidden    []string          // directories that are hidden and not reported yet
	refs      map[string]string // digests of refs that were reported, by private copy
	nextCheck time.Time         // of the mounts, for calls of module FS, at the earliest
}

// setFound sets the autorun files that existed when the guest started.
func (l *autorunWatch) setFound(w *autorunState, throwaway bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if throwaway {
		l.found = w
	}
	l.hidden = append(l.hidden, w.Hidden...)
}

// takeHidden returns the hidden directories that were not reported yet. l is locked.
func (l *autorunWatch) takeHidden() []string {
	list := l.hidden
	l.hidden = nil
	return list
}

// scanPause is the pause after a scan, as a multiple of the scan's duration.
const scanPause = 10

// maxReported bounds the changes that one scan reports per directory.
const maxReported = 100

// autorunChanges scans the directories of the user for autorun files that were created or
// changed since the guest started or since the last scan. It reports each change once, by
// an event and in the result. Scans take at most a tenth of the time, unless must is set.
func (h *handle) autorunChanges(must bool) []string {
	if h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return nil
	}
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	start := time.Now()
	if start.Before(h.autorun.next) && !must {
		return h.autorun.takeHidden()
	}
	w := h.autorun.found
	if w == nil {
		m, err := h.att.Dir.Read()
		if err == nil {
			w, err = autorunSection.Get(m)
		}
		if err != nil || w == nil {
			return h.autorun.takeHidden() // no guest has started yet, or all directories are read-only
		}
	}
	found := h.autorun.takeHidden()
	for _, at := range slices.Sorted(maps.Keys(w.Dirs)) {
		s, err := scanAutorun(at, h.currentOptions().Git == GitShared, w.Dirs[at])
		if err != nil {
			h.emitAutorunChange(at, err)
			found = append(found, at)
			delete(w.Dirs, at) // reported once
			continue
		}
		changed := s.changedSince(w.Dirs[at])
		for _, name := range changed[:min(len(changed), maxReported)] {
			found = append(found, filepath.Join(at, name))
			h.emitAutorunChange(filepath.Join(at, name), fault.SandboxViolation)
		}
		if len(changed) > maxReported { // the directory stands for the rest
			found = append(found, at)
			h.emitAutorunChange(at, fault.SandboxViolation)
		}
		w.Dirs[at] = s.stamps
	}
	if len(found) > 0 && h.autorun.found == nil {
		if _, err := h.att.Dir.Update(context.WithoutCancel(h.p.ctx), false, w.writeTo); err != nil {
			h.p.log.Warn("sandbox: reported autorun changes can't be recorded, and will be reported again", "workspace", h.id, "error", err)
		}
	}
	h.autorun.next = time.Now().Add(scanPause * time.Since(start))
	return found
}

// reportHidden emits events of directories that can't be read, and are empty inside.
func (h *handle) reportHidden(w *autorunState) {
	for _, name := range w.Hidden {
		h.emitViolation(name, fmt.Errorf("sandbox: directory %s can't be read, and is empty inside: %w: it may contain a repository or autorun files", name, fault.PermissionDenied))
	}
}

// emitAutorunChange emits the event of one changed autorun file.
func (h *handle) emitAutorunChange(name string, err error) {
	h.emitViolation(name, fmt.Errorf(
		"sandbox: autorun file %s was created or changed while the workspace could write there: %w: review it before you run tools in that directory", name, err))
}

func (h *handle) emitViolation(name string, err error) {
	if h.p.cfg.Events != nil {
		h.p.cfg.Events.Emit(event.NewSandboxViolation(h.id, "", event.Violation{Tool: "run", Path: name, Err: err}))
	}
}

// reportAutorun adds autorun changes to the result of a session.
func (h *handle) reportAutorun(s *driver.Session, err error) (*driver.Session, error) {
	if err != nil || h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return s, err
	}
	wrapped := *s
	wrapped.Process = autorunProcess{s.Process, h}
	return &wrapped, nil
}

type autorunProcess struct {
	driver.Process
	h *handle
}

// Wait waits for the session, and scans for autorun changes.
func (t autorunProcess) Wait(ctx context.Context) (driver.Result, error) {
	res, err := t.Process.Wait(ctx)
	if err == nil {
		res.AutorunChanges, res.PrivateCommits = t.h.autorunChanges(false), t.h.privateCommits()
	}
	return res, err
}
