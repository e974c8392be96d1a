package process

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A Manager runs the commands of one workspace. It is safe for concurrent use.
type Manager struct {
	opts     Options
	base     map[string]string // base environment of commands
	null     *os.File
	logStore *logStore
	journal  *sessionJournal // nil without LogDir
	reaper   *reaper         // nil unless Options.Subreaper

	// reapMu is held for reading while a child is started and not yet in pids, so that the
	// reaper does not take it for an orphan.
	reapMu sync.RWMutex

	mu          sync.Mutex
	closed      bool
	sessions    map[string]*session
	running     int
	pids        map[int]bool // children that are not reaped
	expiryTimer *time.Timer

	wg      sync.WaitGroup // loops of sessions, and goroutines that work for one
	drained func() <-chan struct{}
}

// New returns a Manager. It takes over the sessions in LogDir of an earlier Manager: ended
// sessions are remembered until they expire, and running ones have ended with the cause
// lost.
func New(opts *Options) (*Manager, error) {
	m := &Manager{opts: *opts, sessions: map[string]*session{}, pids: map[int]bool{}}
	if err := m.opts.normalize(); err != nil {
		return nil, err
	}
	var err error
	if m.base, err = baseEnv(&m.opts); err != nil {
		return nil, err
	}
	if m.opts.Tree == nil {
		m.opts.Tree = defaultTree()
	}
	if m.opts.Starter == nil {
		m.opts.Starter = directStarter{}
	}
	m.logStore = &logStore{dir: m.opts.LogDir, max: m.opts.MaxLog}
	m.logStore.quota.Store(m.opts.MaxLogs)
	m.drained = sync.OnceValue(m.releaseAfterUse)
	if m.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, fmt.Errorf("process: open %s: %w: %w", os.DevNull, errorCode(err), err)
	}
	if err := m.takeOver(); err != nil {
		m.null.Close()
		return nil, err
	}
	return m, nil
}

// takeOver recovers the sessions of LogDir and starts the reaper.
func (m *Manager) takeOver() error {
	if m.opts.LogDir != "" {
		if err := m.recoverSessions(); err != nil {
			return err
		}
	}
	if m.opts.Subreaper {
		r, err := startReaper(m)
		if err != nil {
			if m.journal != nil {
				m.journal.close()
			}
			return err
		}
		m.reaper = r
	}
	return nil
}

// Module returns the Shell module of the workspace.
func (m *Manager) Module() *driver.Shell {
	return &driver.Shell{Starter: m, Run: m.Run, Sessions: m.Sessions, Attach: m.Attach}
}

// Start starts a command as a session. Unless the session is detached, it is killed when
// ctx ends.
func (m *Manager) Start(ctx context.Context, cmd driver.Command) (*driver.Session, error) {
	s, err := m.startSession(ctx, &cmd, false)
	if err != nil {
		return nil, err
	}
	go s.loop() // addSession counted it: Close waits for it
	return s.driverSession(), nil
}

// Run runs a command in the foreground. When ctx ends the command is killed, with the cause
// canceled in the result.
func (m *Manager) Run(ctx context.Context, cmd driver.Command) (driver.Result, error) {
	if cmd.Interactive {
		return driver.Result{}, fmt.Errorf("process: run: %w: a foreground command has no interactive input; start a session", fault.InvalidArgument)
	}
	cmd.Detached = false
	s, err := m.startSession(ctx, &cmd, true)
	if err != nil {
		return driver.Result{}, err
	}
	s.loop()
	return *s.final, nil
}

// Sessions lists running and remembered sessions in the order of their start.
func (m *Manager) Sessions(context.Context) ([]driver.SessionInfo, error) {
	m.mu.Lock()
	var infos []driver.SessionInfo
	for _, s := range m.sessions {
		if s.ready {
			infos = append(infos, s.state())
		}
	}
	m.mu.Unlock()
	slices.SortFunc(infos, func(a, b driver.SessionInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return infos, nil
}

// Attach returns a session by its id.
func (m *Manager) Attach(_ context.Context, id string) (*driver.Session, error) {
	m.mu.Lock()
	s, ok := m.sessions[id]
	ok = ok && s.ready
	m.mu.Unlock()
	if !ok {
		return nil, fault.WithHint(fmt.Errorf("session %.40q: %w: no session with this id runs or has ended recently", id, fault.NotFound), fault.HintList, "sessions")
	}
	return s.driverSession(), nil
}

// addSession registers a session, or returns which limit is reached.
func (m *Manager) addSession(s *session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("process: start: %w: the workspace is closed", fault.WrongState)
	case m.running >= m.opts.MaxProcs:
		return fmt.Errorf("process: start: %w: %d commands run already", fault.ResourceExhausted, m.running)
	case m.sessions[s.info.ID] != nil:
		return fmt.Errorf("process: start: %w: there is a session %s", fault.AlreadyExists, s.info.ID)
	case len(m.sessions) >= m.opts.MaxSessions:
		return fmt.Errorf("process: start: %w: %d sessions are running or remembered; close some", fault.ResourceExhausted, len(m.sessions))
	}
	m.sessions[s.info.ID] = s
	m.running++
	m.wg.Add(1)
	return nil
}

// dropSession undoes addSession for a session that did not start.
func (m *Manager) dropSession(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s.info.ID)
	m.running--
	m.wg.Done()
}

// goUnlessClosed runs f in a goroutine that Close waits for. It returns false if the
// Manager is closed.
func (m *Manager) goUnlessClosed(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.wg.Go(f)
	return true
}

// childPIDs returns the children that are not reaped.
func (m *Manager) childPIDs() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	pids := make(map[int]bool, len(m.pids))
	for pid := range m.pids {
		pids[pid] = true
	}
	return pids
}

// Close kills all commands, with the cause destroyed, and waits until the last process and
// goroutine has ended. Remembered sessions stay in LogDir. A reader or callback of a caller
// that does not return delays Close until ctx ends.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closed = true
	if m.expiryTimer != nil {
		m.expiryTimer.Stop()
	}
	var live []*session
	for _, s := range m.sessions {
		if s.ready && !s.hasEnded() {
			live = append(live, s)
		}
	}
	m.mu.Unlock()
	var kills sync.WaitGroup
	for _, s := range live {
		kills.Go(func() { s.kill(driver.CauseDestroyed, 0) }) //nolint:errcheck // the result of the session reports it
	}
	kills.Wait()
	select {
	case <-m.drained():
		return nil
	case <-ctx.Done():
		return ctxErr(ctx, "close", m.opts.Root)
	}
}

// releaseAfterUse closes the files of the Manager after all its goroutines have ended.
func (m *Manager) releaseAfterUse() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.wg.Wait()
		if m.reaper != nil {
			m.reaper.stop()
		}
		if m.journal != nil {
			m.journal.close()
		}
		m.null.Close()
	}()
	return done
}
