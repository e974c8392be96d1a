package eval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// journalName is the journal of a run, in JSON lines: first the plan, then the result of
// each execution when it ends. A run is resumed from it, and results.json is built from
// it, so that a run keeps only summaries in memory.
const journalName = "journal.jsonl"

// A journalHeader is the first line of a journal: the plan.
type journalHeader struct {
	Version     int                 `json:"version"` // journalVersion
	Suite       string              `json:"suite"`
	Config      string              `json:"config,omitempty"`
	StartedAt   string              `json:"startedAt"`
	Cases       []string            `json:"cases"`              // ids
	Runners     []string            `json:"runners"`            // ids
	Tags        []string            `json:"tags"`               // that select cases
	CaseTags    map[string][]string `json:"caseTags,omitempty"` // tags of cases, by id
	Schedule    Schedule            `json:"schedule"`
	MaxParallel int                 `json:"maxParallel"`
	Repeat      int                 `json:"repeat"`
	RepeatFail  int                 `json:"repeatFailure"`
	Provider    string              `json:"provider"`
	Cwd         string              `json:"cwd"`
	Made        *RunSettings        `json:"made,omitempty"` // nil is not known
}

// RunSettings are the options of a run that must be the same when it is resumed.
type RunSettings struct {
	Provider   string           `json:"provider"`
	Isolation  driver.Isolation `json:"isolation,omitempty"`
	Cwd        string           `json:"cwd,omitempty"`    // of workspaces in place
	Tools      string           `json:"tools,omitempty"`  // Options.Toolset
	Record     string           `json:"record,omitempty"` // directory
	Replay     string           `json:"replay,omitempty"`
	AllowNet   []string         `json:"allowNet,omitempty"` // as in Options, and so are those below
	NoModelNet bool             `json:"noModelNet,omitempty"`
	Read       []string         `json:"read,omitempty"`
	Write      []string         `json:"write,omitempty"`
	Toolchains []string         `json:"toolchains,omitempty"` // names
	Limits     driver.Limits    `json:"limits,omitempty"`
}

const journalVersion = 1

// A journalEntry is the line of an execution that ended.
type journalEntry struct {
	Case   string           `json:"case"`
	Runner string           `json:"runner"`
	Result *ExecutionResult `json:"result"`
}

// A journal is the file of one run, open for appending.
type journal struct {
	dir  string
	lock *flock.Flock // of the file: one process at a time writes to a run

	mu         sync.Mutex
	file       *os.File // guarded by mu
	nextOffset int64    // guarded by mu; where the next line begins
}

// A lineSpan is the position of a line in the journal.
type lineSpan struct{ at, size int64 }

// newJournal creates the journal of a run.
func newJournal(dir string, p journalHeader) (*journal, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("eval: begin the journal: %w: %w", fault.Of(err), err)
	}
	j := &journal{dir: dir, file: f}
	if err := j.takeLock(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = j.add(p)
	return j, err
}

// takeLock takes the flock of the journal, so that no other process writes to it. The
// kernel releases it when the process ends.
func (j *journal) takeLock() error {
	j.lock = flock.New(filepath.Join(j.dir, journalName), flock.SetFlag(os.O_RDWR))
	ok, err := j.lock.TryLock()
	if err != nil {
		return fmt.Errorf("eval: lock the journal: %w: %w", fault.Of(err), err)
	}
	if !ok {
		return fmt.Errorf("eval: the run in %s: %w: another process is running it", j.dir, fault.WrongState)
	}
	return nil
}

// add appends a line. A line that was written in part is ignored by readers, and
// overwritten by the next one.
func (j *journal) add(v any) (lineSpan, error) {
	data, err := encodeJSON(v, "")
	if err != nil {
		return lineSpan{}, fmt.Errorf("eval: write the journal: %w: %w", fault.Internal, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(data, j.nextOffset); err != nil {
		// The partial line is overwritten by the next one: a full disk may have space
		// again when the agent has ended.
		return lineSpan{}, fmt.Errorf("eval: write the journal: %w: %w", fault.Of(err), err)
	}
	s := lineSpan{j.nextOffset, int64(len(data))}
	j.nextOffset += s.size
	return s, nil
}

// read returns a line that was written.
func (j *journal) read(s lineSpan) (*journalEntry, error) {
	data := make([]byte, s.size)
	j.mu.Lock()
	_, err := j.file.ReadAt(data, s.at)
	j.mu.Unlock()
	var d journalEntry
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		return nil, fmt.Errorf("eval: read the journal: %w: %w", fault.Of(err), err)
	}
	expandResult(d.Result)
	return &d, nil
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.lock.Close(), j.file.Close())
}

// openJournal opens the journal of an interrupted run, and returns its plan and the
// position of each execution's line. An incomplete last line is truncated.
func openJournal(dir string, each func(d *journalEntry, at lineSpan)) (*journal, journalHeader, error) {
	var p journalHeader
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, p, fmt.Errorf("eval: the run in %s: %w: there is no %s: it is not the directory of a run", dir, fault.NotFound, journalName)
	}
	if err != nil {
		return nil, p, fmt.Errorf("eval: the run in %s: %w: %w", dir, fault.Of(err), err)
	}
	j := &journal{dir: dir, file: f}
	if err := j.takeLock(); err != nil {
		return nil, p, errors.Join(err, f.Close())
	}
	good, err := readJournal(f, &p, each)
	if err == nil {
		err = f.Truncate(good)
	}
	if err != nil {
		return nil, p, errors.Join(fmt.Errorf("eval: the run in %s: %w", dir, err), j.lock.Close(), f.Close())
	}
	j.nextOffset = good
	return j, p, nil
}

// readJournal reads complete lines, and returns the offset of their end.
func readJournal(r io.Reader, p *journalHeader, each func(d *journalEntry, at lineSpan)) (good int64, err error) {
	lines := bufio.NewReaderSize(r, 1<<16)
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if n == 0 {
				return 0, fmt.Errorf("%w: the journal has no plan", fault.InvalidArgument)
			}
			return good, nil // the rest is an incomplete line
		}
		if err != nil {
			return good, err
		}
		if n == 0 {
			if err := json.Unmarshal(line, p); err != nil || p.Version != journalVersion {
				return 0, fmt.Errorf("%w: the journal is of version %d; this program reads %d", fault.InvalidArgument, p.Version, journalVersion)
			}
		} else {
			var d journalEntry
			if err := json.Unmarshal(line, &d); err != nil || d.Result == nil {
				return good, nil // left by a crash: this execution runs again
			}
			expandResult(d.Result)
			each(&d, lineSpan{good, int64(len(line))})
		}
		good += int64(len(line))
	}
}
