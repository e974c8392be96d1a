package eval

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/files"
	"github.com/croft-run/croft/internal/lazyregexp"
)

// The artifact directory of a session is writable by the agent, which may create any
// entry there, also with the names of files that the run writes. No file in it is opened
// through a symlink (O_NOFOLLOW), and an entry of the agent with a name of ownFiles is
// removed before that file is written or read.

// Files that a run writes to an artifact directory, beside those of package agent.
const (
	diffName         = "changes.diff"
	consoleName      = "assert.log.json" // what the code of the case wrote to its console
	explainName      = "explain.json"    // what may be asked about a failure
	explanationsName = "explanations.json"
	questionsName    = "explain" // a directory
	cleanupName      = "workspace.cleanup-error.log"
	workspaceName    = "workspace.json"
)

// ownFiles are written after the session has ended, where at all.
var ownFiles = []string{diffName, "error.json", "report.json", "judgements.json", consoleName, explainName, explanationsName, questionsName}

// removeForged removes entries that an agent created with the names of files of the run.
func removeForged(dir string, names ...string) error {
	var errs []error
	for _, name := range names {
		if err := files.RemoveTree(filepath.Join(dir, name)); err != nil {
			errs = append(errs, fmt.Errorf("eval: remove what the agent left as %s: %w: %w", name, fault.Of(err), err))
		}
	}
	return errors.Join(errs...)
}

// removeAllForged is removeForged for all of ownFiles and for the directories of retries,
// which do not exist while a session runs.
func removeAllForged(dir string) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("eval: look at the artifacts: %w: %w", fault.Of(err), err)
	}
	var names []string
	for _, e := range list {
		if retryDir.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	for _, name := range ownFiles { // a file system may ignore case
		if slices.ContainsFunc(list, func(e fs.DirEntry) bool { return strings.EqualFold(e.Name(), name) }) {
			names = append(names, name)
		}
	}
	return removeForged(dir, names...)
}

var (
	retryDir = lazyregexp.New(`^session-\d+$`)
	// sessionPath is where the artifacts of a session are, in the directory of a run.
	sessionPath = lazyregexp.New(`^[^/]+/[^/]+/repeat-\d+(/session-\d+)?$`)
)

// isSessionDir reports whether a directory holds the artifacts of a session. A run that
// an agent imitates inside its artifacts does not count: the outermost journal decides.
func isSessionDir(dir string) bool {
	run := ""
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		for _, name := range []string{journalName, ResultsName} {
			if info, err := os.Lstat(filepath.Join(at, name)); err == nil && info.Mode().IsRegular() {
				run = at
			}
		}
	}
	rel, err := filepath.Rel(run, dir)
	return run != "" && err == nil && sessionPath.MatchString(filepath.ToSlash(rel))
}

// makeOwnDir makes the directory at rel below base. A component that is not a directory,
// such as a symlink that an agent created, is replaced, so that writes can't be
// redirected out of base.
func makeOwnDir(base, rel string) (string, error) {
	if _, err := files.Identify(base); err != nil || base != filepath.Clean(base) { // a symlink is on the way, or nothing is there
		return "", fmt.Errorf("eval: make %s: %w: %s was replaced", filepath.Join(base, rel), fault.SandboxViolation, base)
	}
	at := base
	for part := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, part)
		info, err := os.Lstat(at)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			err = os.Remove(at)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(at, 0o700)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("eval: make %s: %w: %w", at, fault.Of(err), err)
		}
	}
	return at, nil
}

// makeEmptyDir is makeOwnDir for a directory that is emptied first.
func makeEmptyDir(base, rel string) (string, error) {
	dir, err := makeOwnDir(base, rel)
	if err == nil {
		err = files.RemoveTree(dir)
	}
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("eval: make %s again: %w: %w", filepath.Join(base, rel), fault.Of(err), err)
	}
	return dir, nil
}

// readOwnFile returns the beginning of a file of the run. It refuses anything but a
// regular file.
func readOwnFile(path string, most int64) ([]byte, error) {
	return readPart(path, func(f *os.File, _ int64) ([]byte, error) { return io.ReadAll(io.LimitReader(f, most)) })
}

// failureTail returns the log that says why an execution failed, and its last lines: standard
// error, unless it is empty.
func (e *ExecutionResult) failureTail() (path, tail string) {
	for _, path := range []string{e.FailureLogPath, e.FailureStdoutPath} {
		if tail := logTail(path); tail != "" {
			return path, tail
		}
	}
	return e.FailureLogPath, ""
}

// logTail returns the last lines of a log, "" if it can't be read. Most programs write
// why they failed last.
func logTail(path string) string {
	const most, lines = 4 << 10, 12
	data, err := readPart(path, func(f *os.File, size int64) ([]byte, error) {
		return io.ReadAll(io.NewSectionReader(f, max(0, size-most), most))
	})
	if err != nil {
		return "" // an unreadable log is not shown
	}
	all := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(data), "")), "\n")
	return PlainText(strings.Join(all[max(0, len(all)-lines):], "\n"))
}

// readPart opens a regular file without following symlinks and passes it to read with its
// size.
func readPart(path string, read func(f *os.File, size int64) ([]byte, error)) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is no plain file", fault.InvalidArgument)
	}
	if err != nil {
		return nil, err
	}
	return read(f, info.Size())
}
