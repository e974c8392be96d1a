package guest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guestproto"
	"github.com/croft-run/croft/workspace/driver"
)

// hostDirEnv names the directory of the guest that TestHostToKill starts.
const hostDirEnv = "CROFT_TEST_HOST_DIR"

// TestGuestSurvivesKilledHost: the host is killed while the guest sends it output. The guest
// then can't send it, and ttrpc logs that to a standard error whose reader is gone.
func TestGuestSurvivesKilledHost(t *testing.T) {
	for range 3 {
		dir := t.TempDir()
		host := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostToKill$", "-test.v")
		host.Env = append(os.Environ(), hostDirEnv+"="+dir)
		out, err := host.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := host.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "busy"; {
		}
		if err := host.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // the buffer of the socket gets full
		host.Process.Kill()
		host.Wait()
		time.Sleep(100 * time.Millisecond) // the guest logs

		c, err := guest.Dial(t.Context(), filepath.Join(dir, "sock"), "", "test", "w")
		if err != nil {
			t.Fatalf("the guest has ended with its host: %v", err)
		}
		list, err := c.Shell().Sessions(t.Context())
		if err != nil || len(list) == 0 || !list[0].Running {
			t.Errorf("got sessions %+v, %v; want one that runs", list, err)
		}
		if err := c.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		c.Close()
	}
}

// TestHostToKill is the host of TestGuestSurvivesKilledHost.
func TestHostToKill(t *testing.T) {
	dir := os.Getenv(hostDirEnv)
	if dir == "" {
		return
	}
	l := &guest.Launch{Binary: binary, Socket: filepath.Join(dir, "sock"), Sys: &syscall.SysProcAttr{Setsid: true}, Config: guestproto.Config{
		Version: "test", Workspace: "w", Level: driver.IsolationNone, Root: dir, UID: -1, Subreaper: true, Lease: time.Minute,
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	}}
	r, err := l.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Shell().Start(t.Context(), driver.Command{Argv: []string{"sleep", "1000"}, Detached: true}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		go func() {
			for {
				r.Shell().Run(context.Background(), driver.Command{Script: "head -c 4000000 /dev/zero"})
			}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println("busy")
	select {}
}
