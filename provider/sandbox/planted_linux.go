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

// watchedSection says what directories of the user's held when the guest started.
const watchedSection = wsdir.Section[watched]("watched")

// noteIn puts what was found into a state that is being changed.
func (w *watched) noteIn(m *wsdir.State) error {
	if len(w.Dirs) == 0 {
		w = nil
	}
	return watchedSection.Set(m, w)
}

// looking paces the looks at directories of the user's.
type looking struct {
	mu   sync.Mutex
	next time.Time // not before
	seen *watched  // of a throw-away workspace, whose guest no other process finds; nil is that the state tells
}

// keep remembers what was there when the guest started.
func (l *looking) keep(w *watched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = w
}

// rest is how many times as long as a look takes is the pause after it.
const rest = 10

// mostTold bounds what one look tells of one directory.
const mostTold = 100

// planted looks for what others run later and was made, or changed, in a directory
// of the user's since the guest started or the last look. Each is told once: by an
// event and to the caller. Looks cost at most a tenth of the time, but for the one
// that must be.
func (h *handle) planted(must bool) []string {
	if h.plot.State().Dir == "" && len(h.shape().Binds) == 0 {
		return nil
	}
	h.looking.mu.Lock()
	defer h.looking.mu.Unlock()
	start := time.Now()
	if start.Before(h.looking.next) && !must {
		return nil
	}
	w := h.looking.seen
	if w == nil {
		m, err := h.att.Dir.Read()
		if err == nil {
			w, err = watchedSection.Get(m)
		}
		if err != nil || w == nil {
			return nil // no guest has started yet, or all is read-only
		}
	}
	var found []string
	for _, at := range slices.Sorted(maps.Keys(w.Dirs)) {
		s, err := look(at)
		if err != nil {
			h.tellPlanted(at, err)
			found = append(found, at)
			delete(w.Dirs, at) // it is told once
			continue
		}
		news := s.news(w.Dirs[at])
		for _, name := range news[:min(len(news), mostTold)] {
			found = append(found, filepath.Join(at, name))
			h.tellPlanted(filepath.Join(at, name), fault.SandboxViolation)
		}
		if len(news) > mostTold { // the directory stands for the rest
			found = append(found, at)
			h.tellPlanted(at, fault.SandboxViolation)
		}
		w.Dirs[at] = s.signs
	}
	if len(found) > 0 && h.looking.seen == nil {
		if _, err := h.att.Dir.Update(context.WithoutCancel(h.p.ctx), false, w.noteIn); err != nil {
			h.p.log.Warn("sandbox: what was told can't be noted", "workspace", h.id, "error", err)
		}
	}
	h.looking.next = time.Now().Add(rest * time.Since(start))
	return found
}

// tellPlanted emits the event of one that was found.
func (h *handle) tellPlanted(name string, err error) {
	if h.p.cfg.Events == nil {
		return
	}
	h.p.cfg.Events.Emit(event.NewSandboxViolation(h.id, "", event.Violation{Tool: "run", Path: name, Err: fmt.Errorf(
		"sandbox: %s was made or changed while the workspace could write there, and others run what it says: %w: look at it before you use it", name, err)}))
}

// telling makes the result of a session say what was planted.
func (h *handle) telling(s *driver.Session, err error) (*driver.Session, error) {
	if err != nil || h.plot.State().Dir == "" && len(h.shape().Binds) == 0 {
		return s, err
	}
	told := *s
	told.Process = teller{s.Process, h}
	return &told, nil
}

type teller struct {
	driver.Process
	h *handle
}

// Wait waits for the session, and looks then.
func (t teller) Wait(ctx context.Context) (driver.Result, error) {
	res, err := t.Process.Wait(ctx)
	if err == nil {
		res.AutorunChanges = t.h.planted(false)
	}
	return res, err
}
