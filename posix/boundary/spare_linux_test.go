package boundary

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// openAhead returns a root that makes files ahead, and keeps them, and a file in it.
func openAhead(t *testing.T) (r *Root, file string) {
	t.Helper()
	return openAheadAs(t, func(step func() error) error { return step() })
}

func openAheadAs(t *testing.T, as func(step func() error) error) (r *Root, file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("one"), 0o640); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, &Options{Ahead: as})
	if err != nil {
		t.Fatal(err)
	}
	r.sys.spares.keep = time.Hour
	t.Cleanup(func() { _ = r.Close() })
	return r, file
}

// change replaces a text by another one, if it is still there, and waits for what
// follows.
func change(t *testing.T, r *Root, old, now string) driver.WriteResult {
	t.Helper()
	res, err := r.Write(t.Context(), "f", strings.NewReader(now), &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte(old))})
	if err != nil {
		t.Fatal(err)
	}
	r.sys.spares.busy.Wait()
	return res
}

// spareInode is that of the file that the next write gets; 0 is none.
func spareInode(t *testing.T, r *Root) uint64 {
	t.Helper()
	s := r.sys.spares
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) == 0 {
		return 0
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.files[len(s.files)-1].fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Nlink != 0 {
		t.Errorf("the file that was made ahead has %d names", st.Nlink)
	}
	return st.Ino
}

// checkFile checks what is in the directory of a file: it alone.
func checkFile(t *testing.T, file, want string, inode uint64) {
	t.Helper()
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("the file has %q, %v; want %q", got, err, want)
	}
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode&0o7777 != 0o640 || st.Nlink != 1 {
		t.Errorf("the file has mode %o and %d names, want 640 and 1", st.Mode&0o7777, st.Nlink)
	}
	if inode != 0 && st.Ino != inode {
		t.Errorf("the file is inode %d, want %d, which was made ahead", st.Ino, inode)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v; want the file alone", entries, err)
	}
}

func TestFilesAreMadeAhead(t *testing.T) {
	r, file := openAhead(t)
	change(t, r, "one", "two")
	checkFile(t, file, "two", 0)
	inode := spareInode(t, r)
	if inode == 0 {
		t.Skip("skipped: host: its file system has no files without a name")
	}
	res := change(t, r, "two", "three")
	checkFile(t, file, "three", inode)
	if res.Digest != driver.DigestBytes([]byte("three")) || res.Created || res.Info.Size != 5 || res.Info.Mode != 0o640 {
		t.Errorf("the result is %+v", res)
	}
	_, err := r.Write(t.Context(), "f", strings.NewReader("x"), &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte("two"))})
	if fault.Of(err) != fault.Conflict {
		t.Errorf("a write on what is not there: %v, want a conflict", err)
	}
	checkFile(t, file, "three", inode)
	big := strings.Repeat("a line that is longer\n", 10_000)
	change(t, r, "three", big)
	checkFile(t, file, big, 0)
}

func TestNoFileIsMadeAheadForOtherWrites(t *testing.T) {
	r, file := openAhead(t)
	if _, err := r.Write(t.Context(), "f", strings.NewReader("two"), nil); err != nil {
		t.Fatal(err)
	}
	r.sys.spares.busy.Wait()
	if spareInode(t, r) != 0 {
		t.Error("a file was made ahead after a write that depends on nothing")
	}
	checkFile(t, file, "two", 0)
}

// A file that was made ahead has what files get from their directory as it was.
func TestFilesOfAnotherDirectoryAreNotTaken(t *testing.T) {
	r, file := openAhead(t)
	change(t, r, "one", "two")
	inode := spareInode(t, r)
	if inode == 0 {
		t.Skip("skipped: host: its file system has no files without a name")
	}
	if err := os.Chmod(filepath.Dir(file), 0o750); err != nil {
		t.Fatal(err)
	}
	if file, ok := r.sys.spares.take(r.sys.fd); ok {
		file.close()
		t.Error("a file was taken that was made when the directory had another mode")
	}
	change(t, r, "two", "three") // makes another one
	checkFile(t, file, "three", 0)
	if now := spareInode(t, r); now == 0 {
		t.Error("no file was made ahead in the directory as it is now")
	}
}

// Where a file can't be given a name, its content is copied.
func TestFilesWithoutANameAreCopied(t *testing.T) {
	r, file := openAhead(t)
	lost := filepath.Join(t.TempDir(), "lost")
	fd, err := unix.Open(lost, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(lost); err != nil { // nothing gives it a name again
		t.Fatal(err)
	}
	key, err := dirKeyOf(r.sys.fd)
	if err != nil {
		t.Fatal(err)
	}
	s := r.sys.spares
	s.mu.Lock()
	s.files, s.dir = []spare{{fd, -1}}, key
	s.mu.Unlock()
	change(t, r, "one", "two")
	checkFile(t, file, "two", 0)
	if spareInode(t, r) != 0 {
		t.Error("files are made ahead where they can't be named")
	}
}

func TestFilesMadeAheadAreLetGo(t *testing.T) {
	r, _ := openAhead(t)
	before := openFiles(t) - 1 // of the directory
	change(t, r, "one", "two")
	inode := spareInode(t, r)
	if inode == 0 {
		t.Skip("skipped: host: its file system has no files without a name")
	}
	s := r.sys.spares
	s.mu.Lock()
	s.idle.Reset(time.Nanosecond) // it has waited long enough
	s.mu.Unlock()
	for till := time.Now().Add(2 * time.Minute); spareInode(t, r) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(till) {
			t.Fatal("it is not let go")
		}
	}
	change(t, r, "two", "three")
	if _, err := r.Write(t.Context(), "f", strings.NewReader("four"), &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte("three"))}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil { // at once after a write
		t.Fatal(err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors were open before the root was, and %d after it was closed", before, after)
	}
	if _, err := r.Write(context.WithoutCancel(t.Context()), "f", strings.NewReader("x"), nil); err == nil {
		t.Error("a closed root was written to")
	}
}

// Writes that follow each other quicker than files are made ahead have more of them
// made, and leave the disk as full as plain ones.
func TestManyFilesAreMadeAhead(t *testing.T) {
	var making sync.Mutex // held while none can be made
	r, file := openAheadAs(t, func(step func() error) error {
		making.Lock()
		defer making.Unlock()
		return step()
	})
	change(t, r, "one", "two")
	if spareInode(t, r) == 0 {
		t.Skip("skipped: host: its file system has no files without a name")
	}
	s := r.sys.spares
	s.mu.Lock()
	ext4 := s.files[0].look >= 0
	s.mu.Unlock()
	making.Lock()
	goOn := sync.OnceFunc(making.Unlock)
	defer goOn()
	texts := []string{"two", "three", "four", "five", "", "six", "seven"}
	for i, now := range texts[1:] {
		opts := &driver.WriteOptions{IfMatch: driver.DigestBytes([]byte(texts[i]))}
		if _, err := r.Write(t.Context(), "f", strings.NewReader(now), opts); err != nil {
			t.Fatal(err)
		}
		checkFile(t, file, now, 0)
		if ext4 {
			checkBlocks(t, file, now)
		}
	}
	goOn()
	s.busy.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) != s.want || s.want < 2 || s.want > mostSpares {
		t.Errorf("there are %d files, %d are wanted; want as many, and more than one", len(s.files), s.want)
	}
	if len(s.left) != 0 || s.own >= 0 {
		t.Errorf("%v and directory %d are left", s.left, s.own)
	}
}

// checkBlocks checks that a file has no block that it does not need.
func checkBlocks(t *testing.T, file, text string) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	block := int64(st.Blksize) //nolint:unconvert // it is an int32 on arm64
	if most := (int64(len(text)) + block - 1) / block * block; st.Blocks*512 > most {
		t.Errorf("a file of %d bytes takes %d on the disk, want at most %d", len(text), st.Blocks*512, most)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
