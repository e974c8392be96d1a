package sandbox

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/provider/sandbox/internal/entry"
	"github.com/croft-run/croft/provider/sandbox/internal/gitdir"
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

	queued    []string          // paths that events reported and that no result has listed yet
	warnings  []string          // of the last scan: what was not scanned or not listed
	nextNow   time.Time         // of reportNow, at the earliest
	missing   []string          // what Git's configuration names and no mount can protect: it does not exist
	restarts  []string          // why guests were started again, for the next result
	behind    bool              // changes may exist that no scan has reported
	running   int               // commands of Run
	shown     []shownDir        // what the workload can write
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
}

// setShown sets the directories of the user that the workload can write.
func (l *autorunWatch) setShown(list []shownDir) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown = list
}

// startCommand notes that a command may change files. The caller calls ended after a command
// of Run, and before the scan.
func (l *autorunWatch) startCommand() (ended func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.behind = true
	l.running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}
}

// takeQueued returns the paths that no result has listed yet. l is locked.
func (l *autorunWatch) takeQueued() []string {
	list := l.queued
	l.queued = nil
	return list
}

// scanPause is the pause after a scan, as a multiple of the scan's duration.
const scanPause = 10

// maxReported bounds the changes that one scan reports per directory, and maxReportedLast
// those of the scan when the workspace is closed. The next scan reports further ones.
const (
	maxReported     = 100
	maxReportedLast = 1000
)

// autorunChanges scans the directories of the user for autorun files that were created or
// changed since the guest started or since the last scan. It reports each change once, by
// an event and in the result. The warnings say what was not scanned or not listed. Scans
// take at most a tenth of the time, unless must is set.
func (h *handle) autorunChanges(must bool) (found, warnings []string) {
	if h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return nil, nil
	}
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	defer func() {
		if !must {
			warnings = append(slices.Clip(warnings), h.autorun.restarts...)
			h.autorun.restarts = nil
		}
	}()
	start := time.Now()
	if start.Before(h.autorun.next) && !must {
		h.autorun.behind = true
		return h.autorun.takeQueued(), h.autorun.warnings
	}
	found = h.autorun.takeQueued()
	w := h.foundAutorun()
	if w == nil {
		return found, nil // no guest has started yet, or all directories are read-only
	}
	most := maxReported
	if must {
		most = maxReportedLast
	}
	before := len(found)
	if !must {
		found, w.Queued = append(found, w.Queued...), nil
	}
	for _, at := range slices.Sorted(maps.Keys(w.Dirs)) {
		names, texts := h.scanForChanges(w, at, most)
		found, warnings = append(found, names...), append(warnings, texts...)
	}
	if len(found) > before && h.autorun.found == nil {
		if _, err := h.att.Dir.Update(context.WithoutCancel(h.p.ctx), false, w.writeTo); err != nil {
			h.p.log.Warn("sandbox: reported autorun changes can't be recorded, and will be reported again", "workspace", h.id, "error", err)
		}
	}
	h.autorun.behind = len(warnings) > 0 || h.autorun.running > 0
	for i, name := range slices.DeleteFunc(slices.Clone(w.Hidden), func(name string) bool { return !entry.Exists(name) }) {
		if i == maxFailures {
			warnings = append(warnings, fmt.Sprintf("%d more directories can't be read, and are empty inside", len(w.Hidden)-i))
			break
		}
		warnings = append(warnings, fmt.Sprintf("directory %s can't be read or copied, and is empty inside", name))
	}
	for _, name := range h.autorun.missing[:min(len(h.autorun.missing), maxFailures)] {
		warnings = append(warnings, name+" does not exist, but git's configuration names it: the workload can make it until the guest starts again; that is reported")
	}
	h.autorun.warnings = warnings
	h.autorun.next = time.Now().Add(scanPause * time.Since(start))
	return found, warnings
}

// foundAutorun returns the autorun files that existed when the guest started, nil if that is
// not known. h.autorun is locked.
func (h *handle) foundAutorun() *autorunState {
	if h.autorun.found != nil {
		return h.autorun.found
	}
	m, err := h.att.Dir.Read()
	if err != nil {
		return nil
	}
	w, err := autorunSection.Get(m)
	if err != nil {
		return nil
	}
	return w
}

// addFound adds what was found after the guest had started: stamps of files that no scan
// knows, and directories that are hidden now.
func (h *handle) addFound(late *autorunState) error {
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	w := h.foundAutorun()
	if w == nil {
		return nil
	}
	var fresh autorunState
	for dir, stamps := range late.Dirs {
		for name, stamp := range stamps {
			if w.Dirs[dir] != nil && w.Dirs[dir][name] == "" {
				w.Dirs[dir][name], fresh.Dirs = stamp, late.Dirs
			}
		}
	}
	for _, name := range late.Hidden {
		if !slices.Contains(w.Hidden, name) {
			fresh.Hidden, w.Hidden = append(fresh.Hidden, name), append(w.Hidden, name)
		}
	}
	h.reportHidden(&fresh)
	if fresh.Dirs == nil && fresh.Hidden == nil || h.autorun.found != nil {
		return nil
	}
	_, err := h.att.Dir.Update(context.WithoutCancel(h.p.ctx), false, w.writeTo)
	return err
}

// scanShown scans a directory of the user as it is shown.
func (h *handle) scanShown(w *autorunState, at string) (*autorunScan, error) {
	if slices.Contains(w.ReadOnly, at) {
		return scanFIFOs(at)
	}
	private := w.Private[at]
	if private == nil {
		private = map[string]string{}
	}
	return scanAutorun(h.autorun.movedTo(at), h.currentOptions().Git == GitShared, private, w.Dirs[at])
}

// movedTo returns where a directory of the user is now. l is locked.
func (l *autorunWatch) movedTo(at string) string {
	for _, d := range l.shown {
		if d.real == at {
			return d.now()
		}
	}
	return at
}

// scanForChanges reports the changes in one directory of the user. What was not scanned
// keeps its old stamp, and so does a change that is not among the first most ones: a later
// scan finds it.
func (h *handle) scanForChanges(w *autorunState, at string, most int) (found, warnings []string) {
	before, now := w.Dirs[at], h.autorun.movedTo(at)
	s, err := h.scanShown(w, at)
	if err != nil {
		s.failures = append(s.failures, err)
	}
	if now != at {
		s.failures = append(s.failures, fmt.Errorf("directory %s was moved to %s while the workspace used it: the workload still writes there: %w", at, now, fault.Conflict))
	}
	for _, name := range s.unreadable {
		if name = filepath.Join(at, name); !slices.Contains(w.Hidden, name) && len(s.failures) < maxFailures {
			s.failures = append(s.failures, fmt.Errorf("directory %s can't be read, and is not scanned for repositories and autorun files: %w", name, fault.PermissionDenied))
		}
	}
	changed := s.changedSince(before)
	for i, name := range changed {
		if i < most {
			for _, to := range append([]string{name}, plantedIn(at, name)...) {
				if to = filepath.Join(now, to); !slices.Contains(found, to) {
					found = append(found, to)
					h.emitAutorunChange(to, s.stamps[name])
				}
			}
			if !strings.HasPrefix(s.stamps[name], gitLinkStamp) {
				continue
			}
			// A symlink is reported as long as it exists.
		}
		if stamp, ok := before[name]; ok {
			s.stamps[name] = stamp
		} else {
			delete(s.stamps, name)
		}
	}
	if more := len(changed) - most; more > 0 {
		s.failures = append(s.failures, fmt.Errorf("%s: %d more autorun files were created or changed: %w", at, more, fault.SandboxViolation))
	}
	if len(s.failures) > 0 {
		stamps := map[string]string{}
		maps.Copy(stamps, before)
		maps.Copy(stamps, s.stamps)
		s.stamps = stamps
	}
	for _, err := range s.failures {
		warnings = append(warnings, err.Error())
		h.emitViolation(at, fmt.Errorf("sandbox: %w: review the directory before you run tools in it", err))
	}
	w.Dirs[at] = s.stamps
	return found, warnings
}

// queueLast scans when the workspace is closed, and keeps what no result has listed for the
// result of another process.
func (h *handle) queueLast() {
	found, _ := h.autorunChanges(true)
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	w := h.foundAutorun()
	if len(found) == 0 || w == nil || h.autorun.found != nil {
		return
	}
	w.Queued = append(w.Queued, found...)
	w.Queued = w.Queued[:min(len(w.Queued), maxReportedLast)]
	if _, err := h.att.Dir.Update(context.WithoutCancel(h.p.ctx), false, w.writeTo); err != nil {
		h.p.log.Warn("sandbox: autorun changes can't be kept for the next result", "workspace", h.id, "error", err)
	}
}

// reportLeftovers reports changes that no scan has reported, because the guest was killed or
// Croft crashed, before a new guest starts and takes what exists for its own. The next
// result lists them.
func (h *handle) reportLeftovers() {
	h.autorun.mu.Lock()
	behind := h.autorun.behind
	h.autorun.mu.Unlock()
	if !behind {
		return
	}
	found, _ := h.autorunChanges(true)
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	h.autorun.queued = append(h.autorun.queued, found...)
}

// privateCommits lists the repositories in whose private copy refs changed since the copy
// was made or since the last call.
func (h *handle) privateCommits() []string {
	if h.dir.State().Dir == "" && len(h.currentOptions().Binds) == 0 {
		return nil
	}
	copies, err := gitdir.Read(h.att.Dir)
	if err != nil || len(copies.List) == 0 {
		return nil
	}
	h.autorun.mu.Lock()
	defer h.autorun.mu.Unlock()
	if h.autorun.refs == nil {
		h.autorun.refs = map[string]string{}
	}
	var changed []string
	for _, c := range copies.List {
		was, seen := h.autorun.refs[c.ID]
		if !seen {
			was = c.Refs
		}
		now := c.RefsDigest(copies.Dir)
		if h.autorun.refs[c.ID] = now; now != was {
			changed = append(changed, c.Path)
		}
	}
	return changed
}

// reportHidden emits events of directories that can't be read, and are empty inside.
func (h *handle) reportHidden(w *autorunState) {
	for _, name := range w.Hidden {
		h.emitViolation(name, fmt.Errorf("sandbox: directory %s can't be read or copied, and is empty inside: %w: it may contain a repository or autorun files", name, fault.PermissionDenied))
	}
}

// emitAutorunChange emits the event of one changed autorun file, or of a new FIFO.
func (h *handle) emitAutorunChange(name, stamp string) {
	if strings.HasPrefix(stamp, fifoStamp) {
		h.emitViolation(name, fmt.Errorf(
			"sandbox: FIFO %s was made while the workspace could use it: %w: a program of the host that reads from it gets what the workload writes", name, fault.SandboxViolation))
		return
	}
	if filepath.Base(name) == ".git" {
		h.emitViolation(name, fmt.Errorf(
			"sandbox: repository %s was made or replaced while the workspace could write there: %w: review it before you run git there", name, fault.SandboxViolation))
		return
	}
	h.emitViolation(name, fmt.Errorf(
		"sandbox: autorun file %s was created or changed while the workspace could write there: %w: review it before you run tools in that directory", name, fault.SandboxViolation))
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
		res.AutorunChanges, res.AutorunWarnings = t.h.autorunChanges(false)
		res.PrivateCommits = t.h.privateCommits()
	}
	return res, err
}
