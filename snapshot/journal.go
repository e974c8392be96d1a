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

// A journal is a file that says what a change of a directory does. It is written
// before the change begins and removed after its end, and a flock is held
// meanwhile: a process that finds a journal and gets the lock completes the change.
// There are two kinds. That of a stage has the steps of a change on this host, each
// a rename. That of a rollback has the snapshot that files are brought to which are
// written one by one, through a mount or by a guest.

// journalHead begins a journal; the digest of what follows it comes next.
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

// lockFileAt opens a file in an open directory and takes its flock. It does not wait:
// one that is locked is unix.EWOULDBLOCK. Package flock knows only paths, which
// others could replace in a directory that they write to.
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
