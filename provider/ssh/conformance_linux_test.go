package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/wsdir"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// Variables for processes that a test starts: where croft-guest is, and the machine.
const (
	guestVar = "CROFT_TEST_GUEST"
	hostVar  = "CROFT_TEST_SSH_HOST"
)

func TestMain(m *testing.M) {
	if os.Getenv(guestVar) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withMachine(m))
}

// withMachine runs the tests with a guest of this tree and with an sshd.
func withMachine(m *testing.M) int {
	dir, err := os.MkdirTemp("", "croft-ssh-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv(guestVar, testenv.BuildGuest(dir))
	if testenv.SSHDMissing() == "" {
		server, err := testenv.StartSSHD(context.Background(), filepath.Join(dir, "sshd"), nil)
		if err != nil {
			panic(err)
		}
		defer server.Stop()
		os.Setenv(hostVar, server.Host)
		os.Setenv("PATH", server.Bin+":"+os.Getenv("PATH"))
	}
	return m.Run()
}

// lease is how long guests of tests live without an owner, on a machine that may do nothing
// for seconds.
const lease = 2 * time.Minute

func newProvider(t testing.TB, dir string, mods ...func(*Config)) *Provider {
	t.Helper()
	testenv.NeedsSSHD(t)
	cfg := &Config{
		Root: filepath.Join(dir, "ws"), Host: os.Getenv(hostVar), Dir: filepath.Join(dir, "machine"), Guest: os.Getenv(guestVar), Lease: lease,
		Snapshots: snapshot.Open(snapshot.Dir(filepath.Join(dir, "store")), &snapshot.Options{CacheDir: filepath.Join(dir, "cache")}),
	}
	for _, mod := range mods {
		mod(cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leftovers lists what is left of workspaces below dir: on this host, and on the machine.
func leftovers(t testing.TB, dir string) (names []string) {
	t.Helper()
	for _, at := range []string{filepath.Join(dir, "ws"), filepath.Join(dir, "machine", "ws")} {
		entries, err := os.ReadDir(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != wsdir.LockName(Kind) {
				names = append(names, filepath.Join(at, e.Name()))
			}
		}
	}
	return append(names, guestsBelow(t, dir)...)
}

// guestsBelow lists processes of guests whose logs are below dir.
func guestsBelow(t testing.TB, dir string) (found []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && strings.HasPrefix(target, filepath.Join(dir, "machine", "ws")+"/") && strings.HasSuffix(target, "/lock") {
			found = append(found, fmt.Sprintf("guest %s with %s", link, target))
		}
	}
	return found
}

var harness = workspacetest.Harness{
	Provider:  func(t testing.TB, dir string) driver.Provider { return newProvider(t, dir) },
	Leftovers: leftovers,
}

// TestConformanceMachine runs the whole suite against a real sshd, for some minutes.
//
//croft:slow
func TestConformanceMachine(t *testing.T) {
	testenv.NeedsSSHD(t)
	h := harness
	h.Parallel = true // many checks wait for connections
	workspacetest.Run(t, h)
}
