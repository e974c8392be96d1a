package cli_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBackupAndRestoreKilledAtRandomMoments kills croft backup and croft restore again and
// again. There is a complete backup or none, and a complete data directory or one that is
// refused; the next try succeeds, and gc leaves nothing.
func TestBackupAndRestoreKilledAtRandomMoments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	data := filepath.Join(t.TempDir(), "data")
	must := func(args ...string) string {
		t.Helper()
		out, err := croft(t, data, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("croft %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	tree := t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	content := make([]byte, 1<<20)
	for _, name := range []string{"a", "b", "c", "d"} {
		random.Read(content) // never fails
		if err := os.WriteFile(filepath.Join(tree, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must("ws", "open", "demo", "--provider", "local")
	must("ws", "put", "demo", tree, "tree")

	file := filepath.Join(t.TempDir(), "b.croft")
	start := time.Now()
	must("backup", file)
	backupTime := time.Since(start)
	killed := 0
	for range 8 {
		other := filepath.Join(t.TempDir(), "other.croft")
		if killedAfter(t, time.Duration(rng.Int64N(int64(backupTime))), data, "backup", other) {
			killed++
		}
		if _, err := os.Stat(other); err == nil {
			must("restore", other, "--data", filepath.Join(t.TempDir(), "copy"))
			continue
		}
		must("backup", other)
	}
	must("gc")
	if out := must("snapshot", "list"); strings.Contains(out, "backup") {
		t.Errorf("snapshots of backups are left:\n%s", out)
	}
	if _, err := os.Stat(filepath.Join(data, "backup.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("backup.tmp is left: %v", err)
	}

	start = time.Now()
	must("restore", file, "--data", filepath.Join(t.TempDir(), "timed"))
	restoreTime := time.Since(start)
	for range 8 {
		copied := filepath.Join(t.TempDir(), "copy")
		if killedAfter(t, time.Duration(rng.Int64N(int64(restoreTime))), data, "restore", file, "--data", copied) {
			killed++
		}
		if _, err := os.Stat(filepath.Join(copied, "version")); err != nil {
			if list, err := os.ReadDir(copied); err == nil && len(list) > 0 {
				if out, err := croft(t, data, "ws", "list", "--data", copied).CombinedOutput(); err == nil {
					t.Errorf("a part of a data directory is used: %s", out)
				}
			}
			must("restore", file, "--data", copied)
		}
		got, err := croft(t, data, "ws", "cat", "demo", "tree/d", "--data", copied).Output()
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("the restored file has %d bytes, %v", len(got), err)
		}
		must("gc", "--data", copied)
		if _, err := os.Stat(filepath.Join(copied, "restore.partial")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("restore.partial is left: %v", err)
		}
	}
	t.Logf("%d of 16 were killed", killed)
	if killed == 0 {
		t.Error("nothing was killed")
	}
}

// killedAfter runs croft, kills it after a while, and reports whether that ended it.
func killedAfter(t *testing.T, after time.Duration, data string, args ...string) bool {
	t.Helper()
	cmd := croft(t, data, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() }) // it may have ended
	defer timer.Stop()
	err := cmd.Wait()
	if err != nil && cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("croft %s: %v", strings.Join(args, " "), err)
	}
	return err != nil
}
