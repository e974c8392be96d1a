package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A journal is a write-ahead redo log of one change of a directory. It is written
// before the change begins and removed after its end, under a flock: a process that
// finds a journal and gets its flock completes the change, and never undoes it. There
// are two kinds. A stage's journal has the steps of a change on this host, each a
// rename. A [Rollback]'s journal has the snapshot to go back to; its files are written
// one by one, through a mount or by a guest.

// journalHead starts a journal, followed by the digest of the body.
const journalHead = "croft-journal 1 "

func encodeJournal(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("snapshot: write the journal: %w: %w", fault.Internal, err)
	}
	return append([]byte(journalHead+driver.DigestBytes(body)+"\n"), body...), nil
}

func decodeJournal(data []byte, v any) error {
	head, body, _ := bytes.Cut(data, []byte("\n"))
	digest, ok := strings.CutPrefix(string(head), journalHead)
	if !ok || driver.DigestBytes(body) != digest {
		return corruptError("the journal of a change to the directory is damaged")
	}
	if err := driver.DecodeStrict(body, v); err != nil {
		return corruptError("the journal of a change to the directory: %v", err)
	}
	return nil
}

// lockFileAt opens a file relative to an open directory and takes its flock without
// waiting: unix.EWOULDBLOCK if it is locked. Package flockfile takes paths, which
// another process could replace (TOCTOU) in a directory that it can write to.
func lockFileAt(dir int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
