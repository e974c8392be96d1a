package eval

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
)

// A RunView is the plan of a run, as its journal has it.
type RunView struct {
	Suite     string
	StartedAt string
	Cases     []string            // ids
	Tags      map[string][]string // of cases, by id
	Runners   []string            // ids
	Repeat    int
	Running   bool // a process runs it now
}

// ViewRun reads the journal of a run, which may be going on, and passes the result of each
// execution that has ended to each. It changes nothing.
func ViewRun(dir string, each func(caseID, runner string, r *ExecutionResult)) (RunView, error) {
	path := filepath.Join(dir, journalName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return RunView{}, fmt.Errorf("eval: the run in %s: %w: there is no %s", dir, fault.NotFound, journalName)
	}
	if err != nil {
		return RunView{}, fmt.Errorf("eval: the run in %s: %w: %w", dir, fault.Of(err), err)
	}
	defer f.Close() // only read
	var p journalHeader
	if _, err := readJournal(f, &p, func(d *journalEntry, _ lineSpan) {
		if d.Result.isComplete() {
			each(d.Case, d.Runner, d.Result)
		}
	}); err != nil {
		return RunView{}, fmt.Errorf("eval: the run in %s: %w", dir, err)
	}
	return RunView{Suite: p.Suite, StartedAt: p.StartedAt, Cases: p.Cases, Tags: p.CaseTags, Runners: p.Runners, Repeat: p.Repeat, Running: isLocked(path)}, nil
}

// Summary returns a result without its large parts: transcripts and commands.
func Summary(r *ExecutionResult) *ExecutionResult { return resultSummary(r) }

// isLocked reports whether a process has the lock of a journal.
func isLocked(path string) bool {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := lock.TryRLock()
	lock.Close() //nolint:errcheck // the lock ends with the descriptor
	return err == nil && !ok
}

// maxShownDiff bounds the difference that SessionDiff returns.
const maxShownDiff = 8 << 20

// SessionDiff returns what a session changed in its workspace, as a patch; "" if nothing was
// recorded.
func SessionDiff(r *ExecutionResult) (string, error) {
	data, err := readPart(filepath.Join(r.ArtifactDir, diffName), func(f *os.File, _ int64) ([]byte, error) {
		return io.ReadAll(io.LimitReader(f, maxShownDiff))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("eval: read the changes of a session: %w: %w", fault.Of(err), err)
	}
	return string(data), nil
}

// RunDir returns the directory of the run that a directory lies in; dir itself without one.
func RunDir(dir string) string {
	for at := dir; ; {
		if _, err := os.Lstat(filepath.Join(at, journalName)); err == nil {
			return at
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		at = up
	}
}
