package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/atomicfile"
	"github.com/croft-run/croft/workspace/driver"
)

// sessionJournal is the append-only file in LogDir that records sessions: a line of JSON
// when a session starts, ends and is forgotten. A line that a crash cut short is ignored.
// The file is created with its first line.
type sessionJournal struct {
	path string
	lock *flock.Flock // on the directory

	mu     sync.Mutex
	file   *os.File // nil before the first line
	lines  int
	live   map[string]journalRecord // the records that a rewrite keeps
	closed bool
}

const (
	opStart  = "start"
	opEnd    = "end"
	opForget = "forget"
)

// A journalRecord is one line.
type journalRecord struct {
	Op      string             `json:"op"`
	Info    driver.SessionInfo `json:"info"`
	Boot    string             `json:"boot,omitempty"` // id of the boot in which it was started
	Ended   time.Time          `json:"ended,omitzero"`
	Streams []streamExtent     `json:"streams,omitempty"`
}

// openJournal takes the flock of the directory and returns the sessions of its journal.
func openJournal(dir string) (j *sessionJournal, found map[string]journalRecord, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("process: open log directory: %w", err)
		}
	}()
	// Only the last directory is made: a workspace that was removed must not come back.
	if err := os.Mkdir(dir, 0o700); err != nil {
		// Of a directory that exists in /proc/self/fd gVisor says that it is not permitted.
		if info, serr := os.Stat(dir); serr != nil || !info.IsDir() {
			return nil, nil, fmt.Errorf("%w: %w", errorCode(err), err)
		}
	}
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	locked, err := lock.TryLock()
	if err == nil && !locked {
		return nil, nil, errors.Join(fmt.Errorf("%w: another process has it locked", fault.Unavailable), lock.Close())
	}
	j = &sessionJournal{path: filepath.Join(dir, "sessions.jsonl"), lock: lock}
	if err == nil {
		found, err = j.loadRecords()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errorCode(err), errors.Join(err, lock.Close()))
	}
	return j, found, nil
}

// loadRecords reads the journal and rewrites it with the live records only.
func (j *sessionJournal) loadRecords() (map[string]journalRecord, error) {
	data, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	j.live = parseJournal(data)
	found := maps.Clone(j.live)
	if len(data) == 0 {
		return found, nil
	}
	return found, j.rewriteLocked() // no other goroutine has j yet
}

// parseJournal returns the last record of each session.
func parseJournal(data []byte) map[string]journalRecord {
	live := map[string]journalRecord{}
	for line := range bytes.Lines(data) {
		var r journalRecord
		if json.Unmarshal(line, &r) != nil || !driver.ValidID(r.Info.ID) {
			continue
		}
		switch r.Op {
		case opStart:
			live[r.Info.ID] = r
		case opEnd:
			if r.Info.Result != nil && validExtents(r) {
				live[r.Info.ID] = r
			}
		case opForget:
			delete(live, r.Info.ID)
		}
	}
	return live
}

// validExtents checks the numbers of a record, so that a damaged line can't cause reads of
// impossible sizes.
func validExtents(r journalRecord) bool {
	want := 2
	if r.Info.TTY {
		want = 1
	}
	for _, x := range r.Streams {
		if x.Size < 0 || x.Logged < 0 || x.Head < 0 || x.Tail < 0 || x.Logged > x.Size ||
			x.Head > maxMaxOutput || x.Tail > maxMaxOutput || x.Head+x.Tail > x.Size {
			return false
		}
	}
	return len(r.Streams) == want
}

func (j *sessionJournal) recordStart(s *session) {
	j.appendRecord(journalRecord{Op: opStart, Info: s.info, Boot: bootID()})
}

func (j *sessionJournal) recordEnd(s *session, xs [2]streamExtent) {
	r := journalRecord{Op: opEnd, Info: s.info, Ended: s.ended, Streams: xs[:len(s.outs)]}
	r.Info.Result = s.result
	j.appendRecord(r)
}

func (j *sessionJournal) recordForget(id string) {
	j.appendRecord(journalRecord{Op: opForget, Info: driver.SessionInfo{ID: id}})
}

// appendRecord writes a line. A failure does not fail the command: the next Manager then
// lacks the record.
func (j *sessionJournal) appendRecord(r journalRecord) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	if r.Op == opForget {
		delete(j.live, r.Info.ID)
	} else {
		j.live[r.Info.ID] = r
	}
	if j.file == nil {
		if len(j.live) > 0 {
			j.rewriteLocked() //nolint:errcheck // see above
		}
		return
	}
	if j.lines++; j.lines > 1000+4*len(j.live) && j.rewriteLocked() == nil {
		return
	}
	if line, err := json.Marshal(r); err == nil {
		j.file.Write(append(line, '\n')) //nolint:errcheck // see above
	}
}

// rewriteLocked replaces the file by one with the live records only.
func (j *sessionJournal) rewriteLocked() error {
	var buf bytes.Buffer
	for _, r := range j.live {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		buf.Write(append(line, '\n'))
	}
	if err := atomicfile.Write(j.path, buf.Bytes(), atomicfile.Options{Temp: j.path + ".new"}); err != nil {
		return err
	}
	file, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close()
	}
	j.file, j.lines = file, len(j.live)
	return nil
}

func (j *sessionJournal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.file.Close()
		j.file = nil
	}
	j.closed = true
	j.lock.Close() //nolint:errcheck // the end of the process releases it too
}

// bootID identifies this boot, or is "" if unknown.
var bootID = sync.OnceValue(func() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
})
