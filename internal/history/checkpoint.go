package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// Limits bound the checkpoints that are kept.
type Limits struct {
	Count int           // maximum number; 0 is DefaultCount
	Age   time.Duration // maximum age; 0 is DefaultAge
}

// Defaults of Limits.
const (
	DefaultCount = 100
	DefaultAge   = 7 * 24 * time.Hour
)

// maxStep is the maximum number of bytes of a step's label.
const maxStep = 200

// Checkpoints takes a snapshot of a workspace after each step. It is safe for
// concurrent use; concurrent steps may share a snapshot.
type Checkpoints struct {
	ws     *workspace.Workspace
	limits Limits

	mu     sync.Mutex
	loaded bool                  // guarded by mu
	last   string                // guarded by mu; digest of the newest state
	kept   []driver.SnapshotInfo // guarded by mu; checkpoints, oldest first
}

// NewCheckpoints returns the checkpoints of a workspace.
func NewCheckpoints(ws *workspace.Workspace, limits Limits) *Checkpoints {
	if limits.Count <= 0 {
		limits.Count = DefaultCount
	}
	if limits.Age <= 0 {
		limits.Age = DefaultAge
	}
	return &Checkpoints{ws: ws, limits: limits}
}

// Begin is called before a step. It takes a snapshot, unless the newest state
// equals the current files.
func (c *Checkpoints) Begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return nil // every later step took a checkpoint
	}
	if err := c.loadLocked(ctx); err != nil {
		return err
	}
	_, err := c.takeLocked(ctx, CauseStart, "")
	c.loaded = err == nil
	return err
}

// Step is called after a step. It takes a snapshot labelled with done. If the step
// changed nothing there is no new snapshot, and ok is false.
func (c *Checkpoints) Step(ctx context.Context, done string) (info driver.SnapshotInfo, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err = c.takeLocked(ctx, CauseCheckpoint, done)
	if err != nil || info.ID == "" {
		return info, false, err
	}
	return info, true, c.pruneLocked(ctx)
}

// Moved is called when the workspace was brought to another state outside of steps,
// such as by a rollback.
func (c *Checkpoints) Moved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loaded = false
}

func (c *Checkpoints) loadLocked(ctx context.Context) error {
	list, err := c.ws.Snapshots(ctx, nil)
	if err != nil {
		return err
	}
	c.last, c.kept = "", nil
	if r := NewRecord(list); r.Current != nil {
		c.last = r.Current.Digest
	}
	for _, s := range slices.Backward(list) {
		if isAutomatic(s.Labels) {
			c.kept = append(c.kept, s)
		}
	}
	return nil
}

// isAutomatic reports whether a snapshot with these labels was taken automatically.
func isAutomatic(labels map[string]string) bool {
	switch labels[snapshot.CauseLabel] {
	case CauseCheckpoint, CauseStart, CauseOpened, causeRollback:
		return true
	}
	return false
}

// takeLocked takes a snapshot, unless nothing changed.
func (c *Checkpoints) takeLocked(ctx context.Context, cause, done string) (driver.SnapshotInfo, error) {
	labels := map[string]string{snapshot.CauseLabel: cause}
	if done != "" {
		labels[StepLabel] = stepLabel(done)
	}
	info, err := c.ws.Snapshot(ctx, &driver.SnapshotOptions{Labels: labels})
	if err != nil {
		return driver.SnapshotInfo{}, err
	}
	if info.Digest == c.last {
		return driver.SnapshotInfo{}, c.ws.DeleteSnapshot(ctx, info.ID, nil)
	}
	c.last = info.Digest
	c.kept = append(c.kept, info)
	return info, nil
}

// pruneLocked deletes checkpoints beyond the limits. A snapshot that a fork started
// from is kept as long as the fork exists.
func (c *Checkpoints) pruneLocked(ctx context.Context) error {
	var errs []error
	var spared []driver.SnapshotInfo
	for len(c.kept) > 0 && (len(c.kept) > c.limits.Count || time.Since(c.kept[0].Created) > c.limits.Age) {
		switch err := c.ws.DeleteSnapshot(ctx, c.kept[0].ID, nil); fault.Of(err) {
		case "", fault.NotFound:
		case fault.WrongState:
			spared = append(spared, c.kept[0])
		default:
			errs = append(errs, err)
		}
		c.kept = c.kept[1:]
	}
	c.kept = append(spared, c.kept...)
	return errors.Join(errs...)
}

// stepLabel shortens a description to one line of at most maxStep bytes.
func stepLabel(s string) string {
	s = strings.ToValidUTF8(strings.Join(strings.Fields(s), " "), "?")
	if len(s) <= maxStep {
		return s
	}
	s = s[:maxStep]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "..."
}

// LimitsLabel is the label of a workspace with checkpoints; ParseLimits reads its
// value.
const LimitsLabel = "croft.checkpoints"

// ParseLimits reads COUNT/AGE, such as "100/168h"; either part may be left out, and
// then so may the slash.
func ParseLimits(s string) (Limits, error) {
	bad := fmt.Errorf("history: checkpoints %q: %w: the form is COUNT/AGE, such as 100/168h", s, fault.InvalidArgument)
	count, age, _ := strings.Cut(s, "/")
	l := Limits{Count: DefaultCount, Age: DefaultAge}
	var err error
	if count != "" {
		if l.Count, err = strconv.Atoi(count); err != nil || l.Count < 1 {
			return Limits{}, bad
		}
	}
	if age != "" {
		if l.Age, err = time.ParseDuration(age); err != nil || l.Age <= 0 {
			return Limits{}, bad
		}
	}
	return l, nil
}
