package protect

import (
	"context"
	"fmt"
	"log/slog"
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
)

// A Workspace reports changes of autorun files, across the guests of a workspace.
type Workspace struct {
	ID      string
	Dir     wsdir.Dir
	Shows   bool            // it shows directories of the user: in place, or by binds
	Shared  bool            // see Settings
	Context context.Context // ends with the provider
	Log     *slog.Logger
	Events  event.Sink                                                      // may be nil
	OpenDir func(dir string) (*Dir, error)                                  // opens and checks a directory of the host
	Freeze  func(ctx context.Context) (frozen bool, done func(), err error) // stops the workload, where it can be; done may be nil
	Behind  bool                                                            // changes may exist that no scan has reported

	mu    sync.Mutex
	next  time.Time // of the next scan, at the earliest
	found *State    // of a throwaway workspace; nil reads the section of the state

	queued   []string          // paths that events reported and that no result has listed yet
	warnings []string          // of the last scan: what was not scanned or not listed
	nextNow  time.Time         // of reportNow, at the earliest
	missing  []string          // what Git's configuration names and no mount can protect: it does not exist
	restarts []string          // why guests were started again, for the next result
	running  int               // commands of Run
	shown    []*shownDir       // what the workload can write
	refs     map[string]string // digests of refs that were reported, by private copy
}

// Started records the autorun files that existed when a new guest started.
func (ws *Workspace) Started(w *State, throwaway bool) {
	ws.mu.Lock()
	if throwaway {
		ws.found = w
	}
	ws.mu.Unlock()
	ws.reportHidden(w)
}

// Restarted notes why the guest was started again, for the next result.
func (ws *Workspace) Restarted(why string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.restarts = append(ws.restarts, why)
}

// Postpone puts off the next scan until so long from now, in tests.
func (ws *Workspace) Postpone(by time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.next = time.Now().Add(by)
}

// StartCommand notes that a command may change files. The caller calls ended after a command
// of Run, and before the scan.
func (ws *Workspace) StartCommand() (ended func()) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.Behind = true
	ws.running++
	return func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		ws.running--
	}
}

// takeQueued returns the paths that no result has listed yet. ws is locked.
func (ws *Workspace) takeQueued() []string {
	list := ws.queued
	ws.queued = nil
	return list
}

// scanPause is the pause after a scan, as a multiple of the scan's duration.
const scanPause = 10

// MaxReported bounds the changes that one scan reports per directory, and maxReportedLast
// those of the scan when the workspace is closed. The next scan reports further ones.
const (
	MaxReported     = 100
	maxReportedLast = 1000
)

// Changes scans the directories of the user for autorun files that were created or
// changed since the guest started or since the last scan. It reports each change once, by
// an event and in the result. The warnings say what was not scanned or not listed. Scans
// take at most a tenth of the time, unless must is set.
func (ws *Workspace) Changes(must bool) (found, warnings []string) {
	if !ws.Shows {
		return nil, nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	defer func() {
		if !must {
			warnings = append(slices.Clip(warnings), ws.restarts...)
			ws.restarts = nil
		}
	}()
	start := time.Now()
	if start.Before(ws.next) && !must {
		ws.Behind = true
		return ws.takeQueued(), ws.warnings
	}
	found = ws.takeQueued()
	w := ws.foundState()
	if w == nil {
		return found, nil // no guest has started yet, or all directories are read-only
	}
	most := MaxReported
	if must {
		most = maxReportedLast
	}
	before := len(found)
	if !must {
		found, w.Queued = append(found, w.Queued...), nil
	}
	for _, at := range slices.Sorted(maps.Keys(w.Dirs)) {
		names, texts := ws.scanForChanges(w, at, most)
		found, warnings = append(found, names...), append(warnings, texts...)
	}
	if len(found) > before {
		if err := ws.record(w); err != nil {
			ws.Log.Warn("sandbox: reported autorun changes can't be recorded, and will be reported again", "workspace", ws.ID, "error", err)
		}
	}
	ws.Behind = len(warnings) > 0 || ws.running > 0
	for i, name := range slices.DeleteFunc(slices.Clone(w.Hidden), func(name string) bool { return !entry.Exists(name) }) {
		if i == maxFailures {
			warnings = append(warnings, fmt.Sprintf("%d more directories can't be read, and are empty inside", len(w.Hidden)-i))
			break
		}
		warnings = append(warnings, fmt.Sprintf("directory %s can't be read or copied, and is empty inside", name))
	}
	for _, name := range ws.missing[:min(len(ws.missing), maxFailures)] {
		warnings = append(warnings, name+" does not exist, but git's configuration names it: the workload can make it until the guest starts again; that is reported")
	}
	ws.warnings = warnings
	ws.next = time.Now().Add(scanPause * time.Since(start))
	return found, warnings
}

// foundState returns the autorun files that existed when the guest started, nil if that is
// not known. ws is locked.
func (ws *Workspace) foundState() *State {
	if ws.found != nil {
		return ws.found
	}
	w, _ := readState(ws.Dir)
	return w
}

// record records what was found, unless the workspace is a throwaway one.
func (ws *Workspace) record(w *State) error {
	if ws.found != nil {
		return nil
	}
	_, err := ws.Dir.Update(context.WithoutCancel(ws.Context), false, w.WriteTo)
	return err
}

// addFound adds what was found after the guest had started: stamps of files that no scan
// knows, and directories that are hidden now.
func (ws *Workspace) addFound(late *State) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.foundState()
	if w == nil {
		return nil
	}
	var fresh State
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
	ws.reportHidden(&fresh)
	if fresh.Dirs == nil && fresh.Hidden == nil {
		return nil
	}
	return ws.record(w)
}

// scanShown scans a directory of the user as it is shown.
func (ws *Workspace) scanShown(w *State, at string) (*scan, error) {
	if slices.Contains(w.ReadOnly, at) {
		return scanFIFOs(at)
	}
	private := w.Private[at]
	if private == nil {
		private = map[string]string{}
	}
	return scanFiles(ws.movedTo(at), ws.Shared, private, w.Dirs[at])
}

// movedTo returns where a directory of the user is now. ws is locked.
func (ws *Workspace) movedTo(at string) string {
	for _, d := range ws.shown {
		if d.Real == at {
			return d.now()
		}
	}
	return at
}

// scanForChanges reports the changes in one directory of the user. What was not scanned
// keeps its old stamp, and so does a change that is not among the first most ones: a later
// scan finds it.
func (ws *Workspace) scanForChanges(w *State, at string, most int) (found, warnings []string) {
	before, now := w.Dirs[at], ws.movedTo(at)
	s, err := ws.scanShown(w, at)
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
					ws.emitChange(to, s.stamps[name])
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
		ws.emitViolation(at, fmt.Errorf("sandbox: %w: review the directory before you run tools in it", err))
	}
	w.Dirs[at] = s.stamps
	return found, warnings
}

// QueueLast scans when the workspace is closed, and keeps what no result has listed for the
// result of another process.
func (ws *Workspace) QueueLast() {
	found, _ := ws.Changes(true)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.foundState()
	if len(found) == 0 || w == nil || ws.found != nil {
		return
	}
	w.Queued = append(w.Queued, found...)
	w.Queued = w.Queued[:min(len(w.Queued), maxReportedLast)]
	if err := ws.record(w); err != nil {
		ws.Log.Warn("sandbox: autorun changes can't be kept for the next result", "workspace", ws.ID, "error", err)
	}
}

// ReportLeftovers reports changes that no scan has reported, because the guest was killed or
// Croft crashed, before a new guest starts and takes what exists for its own. The next
// result lists them.
func (ws *Workspace) ReportLeftovers() {
	ws.mu.Lock()
	behind := ws.Behind
	ws.mu.Unlock()
	if !behind {
		return
	}
	found, _ := ws.Changes(true)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.queued = append(ws.queued, found...)
}

// PrivateCommits lists the repositories in whose private copy refs changed since the copy
// was made or since the last call.
func (ws *Workspace) PrivateCommits() []string {
	if !ws.Shows {
		return nil
	}
	copies, err := gitdir.Read(ws.Dir)
	if err != nil || len(copies.List) == 0 {
		return nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.refs == nil {
		ws.refs = map[string]string{}
	}
	var changed []string
	for _, c := range copies.List {
		was, seen := ws.refs[c.ID]
		if !seen {
			was = c.Refs
		}
		now := c.RefsDigest(copies.Dir)
		if ws.refs[c.ID] = now; now != was {
			changed = append(changed, c.Path)
		}
	}
	return changed
}

// reportHidden emits events of directories that can't be read, and are empty inside.
func (ws *Workspace) reportHidden(w *State) {
	for _, name := range w.Hidden {
		ws.emitViolation(name, fmt.Errorf("sandbox: directory %s can't be read or copied, and is empty inside: %w: it may contain a repository or autorun files", name, fault.PermissionDenied))
	}
}

// emitChange emits the event of one changed autorun file, or of a new FIFO.
func (ws *Workspace) emitChange(name, stamp string) {
	what, advice := "autorun file %s was created or changed while the workspace could write there", "review it before you run tools in that directory"
	switch {
	case strings.HasPrefix(stamp, fifoStamp):
		what, advice = "FIFO %s was made while the workspace could use it", "a program of the host that reads from it gets what the workload writes"
	case filepath.Base(name) == ".git":
		what, advice = "repository %s was made or replaced while the workspace could write there", "review it before you run git there"
	}
	ws.emitViolation(name, fmt.Errorf("sandbox: "+what+": %w: %s", name, fault.SandboxViolation, advice))
}

func (ws *Workspace) emitViolation(name string, err error) {
	if ws.Events != nil {
		ws.Events.Emit(event.NewSandboxViolation(ws.ID, "", event.Violation{Tool: "run", Path: name, Err: err}))
	}
}

// reportNow scans, and keeps what was found for the next result. It does not put off the scan
// after the command, and takes at most a tenth of the time itself.
func (ws *Workspace) reportNow() {
	ws.mu.Lock()
	start, next, due := time.Now(), ws.next, ws.nextNow
	ws.mu.Unlock()
	if start.Before(due) {
		return
	}
	found, _ := ws.Changes(true)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.queued = append(ws.queued, found...)
	ws.next, ws.nextNow = next, time.Now().Add(scanPause*time.Since(start))
}
