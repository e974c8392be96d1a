// Package testenv provides programs and services of the host to tests, and skips a test
// that needs one the host lacks. The reason of each skip is named.
package testenv

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Postgres is a private PostgreSQL server on a Unix socket in its own directory. It
// ends with its test.
type Postgres struct {
	bin, dir string
	attr     *syscall.SysProcAttr
	n        int
	stop     func() // ends the server
}

// NeedsPostgres starts a PostgreSQL server, or skips the test where initdb is
// not in one of the directories that Debian's packages use.
func NeedsPostgres(t testing.TB) *Postgres {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		t.Skip("skipped: host: it lacks PostgreSQL: there is no /usr/lib/postgresql/*/bin/initdb")
	}
	p := &Postgres{bin: filepath.Dir(found[len(found)-1])}
	p.dir, err = os.MkdirTemp("", "pg") //nolint:usetesting // parents of t.TempDir are closed to the server's user, and a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(p.dir) })
	p.becomeUser(t)
	p.runProgram(t, "initdb", "-D", p.dataDir(), "--auth=trust", "-U", "postgres", "--no-sync")
	p.startServer(t)
	return p
}

// Restart ends the server as a crash does, and starts it again.
func (p *Postgres) Restart(t testing.TB) {
	t.Helper()
	p.stop()
	p.startServer(t)
}

func (p *Postgres) dataDir() string { return filepath.Join(p.dir, "data") }

// becomeUser runs the server as the user postgres if the test is root, because PostgreSQL
// refuses to run as root.
func (p *Postgres) becomeUser(t testing.TB) {
	t.Helper()
	p.attr = dieWithParent(syscall.SIGQUIT)
	if os.Getuid() != 0 {
		return
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatalf("PostgreSQL is installed without its user: %v", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Fatalf("user postgres has uid %q and gid %q", u.Uid, u.Gid)
	}
	p.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(p.dir, uid, gid); err != nil {
		t.Fatal(err)
	}
}

func (p *Postgres) runProgram(t testing.TB, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(p.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: p.attr.Credential}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// startServer starts the server as a child of the test, and waits until it answers.
func (p *Postgres) startServer(t testing.TB) {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "postgres"), "-D", p.dataDir(), "-k", p.dir, "-h", "", "-c", "max_connections=200")
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = p.dir, p.attr, &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // immediate shutdown: its data is removed
	exited, err := startChild(cmd)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	p.stop = func() { cancel(); <-exited }
	t.Cleanup(p.stop)
	for till := time.Now().Add(startTimeout); ; {
		ready := exec.CommandContext(t.Context(), filepath.Join(p.bin, "pg_isready"), "-q", "-h", p.dir)
		if ready.Run() == nil {
			return
		}
		select {
		case <-exited:
			t.Fatalf("postgres ended:\n%s", log.String())
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(till) {
			t.Fatalf("postgres does not answer") // its log is still being written
		}
	}
}

// Database makes a fresh database and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	p.n++
	name := fmt.Sprintf("test%d", p.n)
	p.runProgram(t, "createdb", "-h", p.dir, "-U", "postgres", name)
	query := url.Values{"host": {p.dir}, "user": {"postgres"}, "sslmode": {"disable"}}
	return "postgres:///" + name + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}
