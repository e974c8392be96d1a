package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
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

// writeTo writes a journal as encodeJournal does, step by step: together they may be large. The
// digest comes first, so that each step is encoded twice.
func (j stageJournal) writeTo(w io.Writer) error {
	ops := j.Ops
	j.Ops = nil
	around, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("snapshot: write the journal: %w: %w", fault.Internal, err)
	}
	const none = `"ops":null` // in a text the quotes would be escaped
	before, after, _ := strings.Cut(string(around), none)
	body := func(w io.Writer) error {
		if ops == nil {
			_, err := w.Write(around)
			return err
		}
		if _, err := io.WriteString(w, before+`"ops":[`); err != nil {
			return err
		}
		for i := range ops {
			one, err := json.Marshal(&ops[i])
			if err == nil && i > 0 {
				_, err = io.WriteString(w, ",")
			}
			if err == nil {
				_, err = w.Write(one)
			}
			if err != nil {
				return err
			}
		}
		_, err := io.WriteString(w, "]"+after)
		return err
	}
	sum, out := driver.NewDigest(), bufio.NewWriter(w)
	if err := body(sum); err != nil {
		return err
	}
	if _, err := io.WriteString(out, journalHead+driver.SumDigest(sum)+"\n"); err != nil {
		return err
	}
	if err := body(out); err != nil {
		return err
	}
	return out.Flush()
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
