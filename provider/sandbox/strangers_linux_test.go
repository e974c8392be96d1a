package sandbox

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/host/guest"
	"github.com/croft-run/croft/internal/host/guest/supervise"
	"github.com/croft-run/croft/workspace/driver"
)

// TestGuestListensToItsHostsAlone: who reaches the socket of a guest, as a workload
// without mounts does that runs as the same user, can neither end the guest nor run
// anything in it.
func TestGuestListensToItsHostsAlone(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *Provider, _ driver.Isolation, ws *driver.Workspace) {
		output(t, ws, "echo works")
		rec, id := guestOf(t, p, ws), idOf(t, ws)
		socket := p.store.Path(id, supervise.SocketName)
		bin, err := p.binary()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for _, token := range []string{"", driver.NewID()} {
			if err := guest.Stop(ctx, socket, token); err == nil {
				t.Errorf("with the token %q the guest can be ended", token)
			}
			if c, err := guest.Dial(ctx, socket, token, bin.Version, id); err == nil {
				c.Close()
				t.Errorf("with the token %q the guest can be used", token)
			}
		}
		if c, err := guest.Dial(ctx, socket, rec.Token, bin.Version, id); err != nil {
			t.Errorf("its host can't attach: %v", err)
		} else {
			c.Close()
		}
		if got := output(t, ws, "echo works"); got != "works" {
			t.Errorf("after that: %q", got)
		}
	})
}

// TestTerminalsAreNotUsedUp: the kernel has so many for all workspaces together.
func TestTerminalsAreNotUsedUp(t *testing.T) {
	if !here(driver.IsolationNamespaces) {
		t.Skip("skipped: Traits: terminals are made by another program")
	}
	ws := open(t, newProvider(t, t.TempDir()))
	got := output(t, ws, `ulimit -n 4000 2>/dev/null; perl -e 'my @all; while (@all < 3000 && open my $f, "+<", "/dev/ptmx") { push @all, $f } print scalar @all <= 256 ? "held" : scalar @all'`)
	if got != "held" {
		t.Errorf("one workspace opens %s", got)
	}
}

// TestWatchesAreNotUsedUp: the kernel counts them for the user who runs Croft.
func TestWatchesAreNotUsedUp(t *testing.T) {
	if !here(driver.IsolationNamespaces) {
		t.Skip("skipped: Traits: the namespaces are made by another program, or there are none")
	}
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		t.Skipf("skipped: host: %v", err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	ws := open(t, newProvider(t, t.TempDir()))
	text := output(t, ws, `perl -e 'my $n = 0; $n++ while $n < 5000 && syscall(253) >= 0; print $n'`)
	if got, err := strconv.Atoi(text); err != nil || got == 0 || got > max(most/4, 8) {
		t.Errorf("one workspace watches with %s of %d", text, most)
	}
}

func TestSharesUnprivileged(t *testing.T) {
	asNobody(t, "^Test(WatchesAreNotUsedUp|TerminalsAreNotUsedUp|GuestListensToItsHostsAlone)$")
}
