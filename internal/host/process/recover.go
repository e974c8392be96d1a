package process

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// recoverSessions restores the sessions of the journal. A session without an end is lost,
// and its remaining processes are killed, because no process can wait for their exit
// status.
func (m *Manager) recoverSessions() error {
	j, found, err := openJournal(m.opts.LogDir)
	if err != nil {
		return err
	}
	m.journal = j
	var orphaned []string
	for id, r := range found {
		if r.Op == opStart && r.Boot == bootID() {
			orphaned = append(orphaned, id)
		}
	}
	if len(orphaned) > 0 {
		if err := killMarked(orphaned); err != nil {
			j.close()
			return err
		}
	}
	for _, r := range found {
		if r.Op == opStart {
			m.markLost(&r)
		}
		m.restoreSession(r)
	}
	m.removeUnknownLogs()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scheduleExpiryLocked()
	return nil
}

// markLost records the end of a session whose Manager died.
func (m *Manager) markLost(r *journalRecord) {
	r.Op, r.Ended = opEnd, time.Now()
	r.Info.Result = &driver.Result{
		ExitCode: -1, Cause: driver.CauseLost, Session: r.Info.ID, Duration: max(0, time.Since(r.Info.Started)),
	}
	names := []string{".stdout", ".stderr"}
	if r.Info.TTY {
		names = names[:1]
	}
	r.Streams = nil
	for _, name := range names {
		var size int64
		if info, err := os.Lstat(filepath.Join(m.opts.LogDir, r.Info.ID+name)); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		head := min(size, DefaultMaxOutput/2)
		r.Streams = append(r.Streams, streamExtent{Size: size, Logged: size, Head: head, Tail: min(size-head, DefaultMaxOutput/2)})
	}
	m.journal.appendRecord(*r)
}

// restoreSession adds a session that has ended.
func (m *Manager) restoreSession(r journalRecord) {
	s := &session{
		m: m, info: r.Info, ready: true, reaped: true, started: r.Info.Started,
		result: r.Info.Result, ended: r.Ended, done: make(chan struct{}),
	}
	s.info.Result, s.info.Running = nil, false
	for i, x := range r.Streams {
		s.outs = append(s.outs, restoredOutput(m.logStore, r.Info.ID+"."+streamNames[i], x))
	}
	close(s.done)
	m.sessions[r.Info.ID] = s
}

// removeUnknownLogs removes logs of sessions that are not in the journal, left by a crash.
func (m *Manager) removeUnknownLogs() {
	entries, err := os.ReadDir(m.opts.LogDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		id, rest, ok := strings.Cut(e.Name(), ".")
		if ok && driver.ValidID(id) && (strings.HasPrefix(rest, "stdout") || strings.HasPrefix(rest, "stderr")) && m.sessions[id] == nil {
			os.Remove(filepath.Join(m.opts.LogDir, e.Name()))
		}
	}
}

// forgetSession removes an ended session and its logs.
func (m *Manager) forgetSession(s *session) {
	m.mu.Lock()
	_, known := m.sessions[s.info.ID]
	delete(m.sessions, s.info.ID)
	m.mu.Unlock()
	if !known {
		return
	}
	if m.journal != nil {
		m.journal.recordForget(s.info.ID)
	}
	for _, o := range s.outs {
		o.remove()
	}
}

// scheduleExpiryLocked sets the timer for the next session that expires.
func (m *Manager) scheduleExpiryLocked() {
	if m.expiryTimer != nil || m.closed {
		return
	}
	var first time.Time
	for _, s := range m.sessions {
		if end := s.endTime(); !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	if !first.IsZero() {
		m.expiryTimer = time.AfterFunc(max(0, time.Until(first.Add(m.opts.Retain))), m.forgetExpired)
	}
}

// forgetExpired forgets the sessions that ended more than Options.Retain ago.
func (m *Manager) forgetExpired() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.wg.Add(1)
	defer m.wg.Done()
	var old []*session
	for _, s := range m.sessions {
		if end := s.endTime(); !end.IsZero() && time.Since(end) >= m.opts.Retain {
			old = append(old, s)
		}
	}
	m.mu.Unlock()
	for _, s := range old {
		m.forgetSession(s)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expiryTimer = nil
	m.scheduleExpiryLocked()
}

func (s *session) endTime() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
