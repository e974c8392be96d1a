package cmdpolicy

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An audit tells of refusals, so many in a minute. It counts the others, and
// the next event that is told carries their number.
type audit struct {
	sink               event.Sink
	workspace, session string
	most               int

	mu         sync.Mutex
	start      time.Time // of the minute
	told       int       // in it
	suppressed int       // since the last event
}

func newAudit(o *Options) *audit {
	a := &audit{sink: o.Events, workspace: o.Workspace, session: o.Session, most: o.EventsPerMinute}
	if a.sink == nil {
		a.sink = event.Discard
	}
	if a.most == 0 {
		a.most = DefaultEventsPerMinute
	}
	return a
}

// admit reports whether an event may be told now, and how many were not before it.
func (a *audit) admit() (suppressed int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now(); a.start.IsZero() || now.Sub(a.start) >= time.Minute {
		a.start, a.told = now, 0
	}
	if a.told >= a.most {
		a.suppressed++
		return 0, false
	}
	a.told++
	suppressed, a.suppressed = a.suppressed, 0
	return suppressed, true
}

func (a *audit) tell(r *Refusal, cmd driver.Command) {
	suppressed, ok := a.admit()
	if !ok {
		return
	}
	v := event.Violation{Tool: "exec", Command: summary(cmd), Err: r}
	if r.Rule == RulePaths {
		v.Path = r.Subject
	}
	a.emit(v, suppressed)
}

func (a *audit) emit(v event.Violation, suppressed int) {
	e := event.NewSandboxViolation(a.workspace, a.session, v)
	if suppressed > 0 {
		e.Fields[event.FieldSuppressed] = suppressed
	}
	a.sink.Emit(e)
}

// flush tells how many refusals were not told, if any.
func (a *audit) flush() {
	a.mu.Lock()
	n := a.suppressed
	a.suppressed = 0
	a.mu.Unlock()
	if n > 0 {
		a.emit(event.Violation{Tool: "exec", Err: fmt.Errorf("further refusals: %w", fault.SandboxViolation)}, n)
	}
}

// summary is a command in one line.
func summary(cmd driver.Command) string {
	if len(cmd.Argv) > 0 {
		return strings.Join(cmd.Argv, " ")
	}
	return cmd.Script
}
