package filestore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

// childEnv holds the job of a child: this test binary, run again.
const childEnv = "CROFT_FILESTORE_TEST_CHILD"

type job struct {
	Verb string
	Dir  string
	Ref  driver.Ref
}

// TestMain is this binary's other life, as the child of a test.
func TestMain(m *testing.M) {
	text := os.Getenv(childEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		panic(err)
	}
	if err := j.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(t *testing.T, j job) *exec.Cmd {
	t.Helper()
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(data))
	cmd.Stderr = os.Stderr
	return cmd
}

func (j job) run() error {
	p, err := New(&Config{Dir: j.Dir})
	if err != nil {
		return err
	}
	ctx := context.Background()
	ws, err := p.Resolve(ctx, j.Ref)
	if err != nil {
		return err
	}
	switch j.Verb {
	case "write forever":
		_, err = ws.FS.Write(ctx, "big", &endless{}, &driver.WriteOptions{})
	case "count":
		err = count(ws, increments)
	case "create":
		_, err = ws.FS.Write(ctx, "one", strings.NewReader(strconv.Itoa(os.Getpid())), &driver.WriteOptions{CreateOnly: true})
		if errors.Is(err, fault.AlreadyExists) {
			return nil
		}
		fmt.Println("created")
	}
	return errors.Join(err, p.Close())
}

// An endless body tells on standard output how far it was read.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	e.n += len(p)
	fmt.Println(e.n)
	return len(p), nil
}

const increments = 25

// count adds to a number in a file, on the condition that nobody else has.
func count(ws *driver.Workspace, times int) error {
	for done := 0; done < times; {
		ctx := context.Background()
		body, info, err := ws.FS.Read(ctx, "counter", &driver.ReadOptions{})
		if err != nil {
			return err
		}
		data, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return fmt.Errorf("%q of %d bytes: %w", data, info.Size, err)
		}
		next := strconv.Itoa(n + 1)
		_, err = ws.FS.Write(ctx, "counter", strings.NewReader(next), &driver.WriteOptions{IfMatch: driver.DigestBytes(data)})
		switch {
		case err == nil:
			done++
		case !errors.Is(err, fault.Conflict):
			return err
		}
	}
	return nil
}

func TestKilledInTheMiddleOfABigBody(t *testing.T) {
	dir := t.TempDir()
	p := newProvider(t, &Config{Dir: dir})
	ws := open(t, p)
	var pl driver.RefID
	if err := json.Unmarshal(ws.Ref.Payload, &pl); err != nil {
		t.Fatal(err)
	}
	write(t, ws, "big", []byte("old"))
	cmd := child(t, job{Verb: "write forever", Dir: dir, Ref: ws.Ref})
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, err := strconv.Atoi(lines.Text()); err == nil && n > 8<<20 {
			break
		}
	}
	// While the writer lives, sweeping must leave its object alone.
	if err := p.Sweep(t.Context(), []string{pl.ID}); err != nil {
		t.Fatal(err)
	}
	if got := objectFiles(t, dir); len(got) != 1 {
		t.Errorf("while a body is written there are the objects %q, want one", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if got := read(t, ws, "big", driver.ReadOptions{}); string(got) != "old" {
		t.Errorf("the file holds %d bytes, want the old content", len(got))
	}
	if err := p.Sweep(t.Context(), []string{pl.ID}); err != nil {
		t.Fatal(err)
	}
	if got := objectFiles(t, dir); len(got) != 0 {
		t.Errorf("after Sweep there are the objects %q, want none", got)
	}
	if got := read(t, ws, "big", driver.ReadOptions{}); string(got) != "old" {
		t.Errorf("after Sweep the file holds %d bytes, want the old content", len(got))
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
}

func TestManyProcesses(t *testing.T) {
	dir := t.TempDir()
	ws := open(t, newProvider(t, &Config{Dir: dir}))
	write(t, ws, "counter", []byte("0"))
	const processes = 4
	for _, verb := range []string{"count", "create"} {
		var children []*exec.Cmd
		outs := make([]bytes.Buffer, processes)
		for i := range processes {
			cmd := child(t, job{Verb: verb, Dir: dir, Ref: ws.Ref})
			cmd.Stdout = &outs[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			children = append(children, cmd)
		}
		created := 0
		for i, cmd := range children {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
			created += strings.Count(outs[i].String(), "created")
		}
		if verb == "create" && created != 1 {
			t.Errorf("%d processes created the one file, want 1", created)
		}
	}
	if got, want := string(read(t, ws, "counter", driver.ReadOptions{})), strconv.Itoa(processes*increments); got != want {
		t.Errorf("the counter is %s, want %s", got, want)
	}
}

// A pattern yields bytes that repeat nowhere near where they are.
type pattern struct{ at int64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		x := uint64(p.at+int64(i)) * 0x9e3779b97f4a7c15
		b[i] = byte(x >> 56)
	}
	p.at += int64(len(b))
	return len(b), nil
}

func TestALargeFileIsNotHeldInMemory(t *testing.T) {
	const size = 100 << 20
	ws := open(t, newProvider(t, &Config{Dir: t.TempDir()}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	res, err := ws.FS.Write(t.Context(), "large", io.LimitReader(&pattern{}, size), &driver.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	body, info, err := ws.FS.Read(t.Context(), "large", &driver.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	sum, err := driver.DigestReader(body)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if sum != res.Digest || info.Size != size {
		t.Errorf("read %d bytes with digest %s, want %d with %s", info.Size, sum, size, res.Digest)
	}
	used := after.TotalAlloc - before.TotalAlloc
	t.Logf("writing and reading %d MiB allocated %.1f MiB in all", size>>20, float64(used)/(1<<20))
	if used > size/4 {
		t.Errorf("writing and reading %d MiB allocated %d MiB", size>>20, used>>20)
	}
}

func TestABucketOfTheCallers(t *testing.T) {
	dir := t.TempDir()
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	p := newProvider(t, &Config{Dir: dir, Bucket: bucket, InlineThreshold: 100})
	if err := bucket.WriteAll(t.Context(), "foreign", []byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	ws := open(t, p, func(s *driver.Spec) { s.Policy.Durable = true })
	data := bytes.Repeat([]byte("0123456789"), 1000)
	write(t, ws, "f", data)
	if got := read(t, ws, "f", driver.ReadOptions{Offset: 9_995, Limit: 100}); string(got) != "56789" {
		t.Errorf("the end reads %q", got)
	}
	body, _, err := ws.FS.Read(t.Context(), "f", &driver.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	write(t, ws, "f", data[:5000])
	if got, err := io.ReadAll(body); err != nil || !bytes.Equal(got, data) {
		t.Errorf("a reader of what was replaced got %d bytes and %v, want all %d", len(got), err, len(data))
	}
	if err := p.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for it := bucket.List(nil); ; {
		obj, err := it.Next(t.Context())
		if err != nil {
			break
		}
		keys = append(keys, obj.Key)
	}
	if len(keys) != 1 || keys[0] != "foreign" {
		t.Errorf("after Sweep the bucket holds %q, want only what is foreign", keys)
	}
	if got := objectFiles(t, dir); len(got) != 0 {
		t.Errorf("objects went to the directory: %q", got)
	}
}

func TestDiskFull(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 16<<20)
	ws := open(t, newProvider(t, &Config{Dir: dir, InlineThreshold: 1 << 20, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}))
	write(t, ws, "kept", []byte("kept"))
	// Too large for the bucket.
	_, err := ws.FS.Write(t.Context(), "kept", io.LimitReader(&pattern{}, 20<<20), &driver.WriteOptions{})
	wantCode(t, "Write of a large body", err, fault.ResourceExhausted)
	wantPlain(t, err, dir)
	if got := objectFiles(t, dir); len(got) != 0 {
		t.Errorf("a write that failed left %q", got)
	}
	// Too much for the database.
	full := false
	for i := 0; i < 30 && !full; i++ {
		_, err := ws.FS.Write(t.Context(), fmt.Sprint("f", i), io.LimitReader(&pattern{}, 1<<20), &driver.WriteOptions{})
		if full = err != nil; full {
			wantCode(t, "Write to a full database", err, fault.ResourceExhausted)
			wantPlain(t, err, dir)
		}
	}
	if !full {
		t.Error("16 MiB took 30 MiB")
	}
	if got := read(t, ws, "kept", driver.ReadOptions{}); string(got) != "kept" {
		t.Errorf("kept holds %q", got)
	}
	// Who is full must be able to make room.
	if err := ws.FS.Remove(t.Context(), "f0", &driver.RemoveOptions{}); err != nil {
		t.Errorf("Remove on a full disk: %v", err)
	}
	if err := ws.Life.Destroy(t.Context()); err != nil {
		t.Errorf("Destroy on a full disk: %v", err)
	}
	if left := leftovers(t, dir); len(left) != 0 {
		t.Errorf("left over: %q", left)
	}
	other := open(t, newProvider(t, &Config{Dir: dir}))
	write(t, other, "again", make([]byte, 1<<20))
}

// TestMessagesNameNoObject loses the content of a file: how it was kept is
// nobody's business.
func TestMessagesNameNoObject(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	dir := t.TempDir()
	ws := open(t, newProvider(t, &Config{Dir: dir, Bucket: bucket, InlineThreshold: -1}))
	write(t, ws, "lost", []byte("content"))
	it := bucket.List(nil)
	obj, err := it.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Delete(t.Context(), obj.Key); err != nil {
		t.Fatal(err)
	}
	body, _, err := ws.FS.Read(t.Context(), "lost", &driver.ReadOptions{})
	if err == nil {
		_, err = io.ReadAll(body)
		body.Close()
	}
	if err == nil {
		t.Fatal("read what is lost")
	}
	wantPlain(t, err, dir, obj.Key)
}

// wantPlain wants an error without what only the host knows.
func wantPlain(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, "blob (") {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the message has %q: %v", secret, err)
		}
	}
}

// TestSweepOnAFullDisk: an error names the cause.
func TestSweepOnAFullDisk(t *testing.T) {
	dir := testenv.NeedsTmpfs(t, 16<<20)
	first := newProvider(t, &Config{Dir: dir})
	open(t, first)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(dir + "/fill")
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if err := errors.Join(f.Close(), newProvider(t, &Config{Dir: dir}).Sweep(t.Context(), nil)); err != nil &&
		(fault.Of(err) != fault.ResourceExhausted || !strings.Contains(err.Error(), "the disk is full")) {
		t.Errorf("the error names no cause: %v", err)
	}
}
