package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/croft-run/croft/eval/session"
	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
)

// tokenCount returns a report's count of the baseline's metric.
func (b *baselines) tokenCount(r *session.Report) (float64, bool) {
	n := tokenCounts(r)[slices.Index(tokenCountNames, b.metric())]
	if n == nil {
		return 0, false
	}
	return *n, true
}

func (b *baselines) metric() string { return cmp.Or(b.Metric, "totalTokens") }

// A baselineEntry is the token use of one case on one runner.
type baselineEntry struct {
	CaseID    string  `json:"caseId"`
	RunnerID  string  `json:"runnerId"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	AgentType string  `json:"agentType"`
	Model     string  `json:"model"`
	UpdatedAt string  `json:"updatedAt"`
}

// baselineFile is the file of baselines. JSON sorts the keys.
type baselineFile struct {
	Version int                      `json:"version"`
	Entries map[string]baselineEntry `json:"entries"`
}

// baselines are the entries of a run. A nil value checks nothing.
type baselines struct {
	suite.Snapshots
	update bool // replace the baseline by what is measured

	mu    sync.Mutex
	file  baselineFile // guarded by mu
	dirty bool         // guarded by mu
}

// loadBaselines reads the file of baselines that the plan names, if it exists. It returns
// nil if token use is not compared.
func loadBaselines(p *plan) (*baselines, error) {
	s := p.config.Snapshots
	if s == nil {
		if p.Baselines != "" || p.UpdateBaselines {
			return nil, fmt.Errorf("eval: snapshots: %w: the configuration has no snapshots with a tolerance", fault.InvalidArgument)
		}
		return nil, nil
	}
	b := *s
	b.Path = cmp.Or(p.Baselines, s.Path, filepath.Join(p.config.Dir, "skillgym.snapshots.json"))
	return readBaselines(b, p.UpdateBaselines)
}

func readBaselines(b suite.Snapshots, update bool) (*baselines, error) {
	s := &baselines{Snapshots: b, update: update, file: baselineFile{Version: 1, Entries: map[string]baselineEntry{}}}
	if !slices.Contains(tokenCountNames, s.metric()) {
		return nil, fmt.Errorf("eval: snapshots.metric %q: %w: expected one of: %s", b.Metric, fault.InvalidArgument, strings.Join(suite.Metrics, ", "))
	}
	data, err := os.ReadFile(b.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("eval: Failed to load snapshots from %s: %w: %w", b.Path, fault.Of(err), err)
	}
	var f baselineFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("eval: Failed to load snapshots from %s: %w: %w", b.Path, fault.InvalidArgument, err)
	}
	if f.Version != 1 || f.Entries == nil {
		return nil, fmt.Errorf("eval: Failed to load snapshots from %s: %w: Snapshot file must contain version 1 and an entries object.", b.Path, fault.InvalidArgument) //nolint:staticcheck // skillgym's sentence
	}
	s.file = f
	return s, nil
}

// check compares the mean token use of successful repetitions with the baseline. Without
// a baseline the mean becomes the baseline. It returns an error if the tolerance is
// exceeded.
func (s *baselines) check(caseID string, r session.Runner, reports []*session.Report, now string) *ErrorInfo {
	if s == nil {
		return nil
	}
	var values []float64
	for _, rep := range reports {
		n, ok := s.tokenCount(rep)
		if !ok {
			return &ErrorInfo{Name: "Error", Message: fmt.Sprintf("Snapshot check requires provider token metric %s, but it was unavailable for %s / %s.", s.metric(), caseID, r.ID)}
		}
		values = append(values, n)
	}
	actual := mean(values)
	key := caseID + "::" + r.ID
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.file.Entries[key]
	if !ok || s.update {
		s.file.Entries[key] = baselineEntry{CaseID: caseID, RunnerID: r.ID, Metric: s.metric(), Value: actual, AgentType: r.Agent.Type, Model: r.Agent.Model, UpdatedAt: now}
		s.dirty = true
		return nil
	}
	for _, allowed := range s.allowedValues(was.Value) {
		if actual > allowed {
			return s.mismatchError(caseID, r.ID, was.Value, actual, allowed)
		}
	}
	return nil
}

// allowedValues lists the maximum of each tolerance.
func (b *baselines) allowedValues(was float64) []float64 {
	var list []float64
	if b.Absolute != nil {
		list = append(list, was+*b.Absolute)
	}
	if b.Percent != nil {
		list = append(list, was*(1+*b.Percent/100))
	}
	return list
}

func (b *baselines) mismatchError(caseID, runnerID string, was, actual, allowed float64) *ErrorInfo {
	percent := 0.0
	if was != 0 {
		percent = (actual - was) / was * 100
	}
	return &ErrorInfo{Name: "Error", Message: fmt.Sprintf(
		"Snapshot mismatch for %s:\nactual %s > allowed %s\nbaseline %s, +%s tokens (+%.1f%%)\nkey: %s / %s\nRun with --update-snapshots to accept the new baseline.",
		b.metric(), formatNumber(actual), formatNumber(allowed), formatNumber(was), formatNumber(actual-was), percent, caseID, runnerID)}
}

// formatNumber writes a whole number without a fraction, any other with two digits.
func formatNumber(x float64) string {
	if x == math.Trunc(x) {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// save writes the file if an entry changed.
func (s *baselines) save() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dirty {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return fmt.Errorf("eval: write the snapshots: %w: %w", fault.Of(err), err)
	}
	if err := writeJSON(s.Path, s.file); err != nil {
		return fmt.Errorf("eval: write the snapshots: %w", err)
	}
	s.dirty = false
	return nil
}
