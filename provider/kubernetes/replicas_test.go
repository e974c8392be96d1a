package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/workspace/driver"
)

// takeover is how long the pods of a replica that was killed may be without one.
const takeover = 15 * time.Second

// A served is what callers know of a workspace.
type served struct {
	id    string
	pod   string
	acked []string  // files
	again time.Time // first answer to a request that began after the kill
}

// TestAReplicaOfThreeIsKilled kills one of three replicas with SIGKILL, while callers write, through
// the other two, to workspaces that it owns. Another one serves their pods, which go on. No
// acknowledged write is lost, and nothing is left.
func TestAReplicaOfThreeIsKilled(t *testing.T) {
	needCluster(t)
	const workspaces = 4
	in := newInstallation(t, "version: 1\ndefaults: {provider: kubernetes}\n")
	a, b, c := in.start(t, "a"), in.start(t, "b"), in.start(t, "c")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var killed time.Time
	var all []*served
	for i := range workspaces {
		made, err := a.Create(t.Context(), driver.Spec{Kind: Kind, Name: fmt.Sprintf("w%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		ws := &served{id: made.ID}
		all = append(all, ws)
		for name, via := range map[string]*testServer{"b": b, "c": c} {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					file, began := fmt.Sprintf("%s-%d", name, n), time.Now()
					if err := via.write(ctx, ws.id, file); err != nil {
						sleepContext(ctx, watchPause) // a caller that tries again
						continue
					}
					mu.Lock()
					ws.acked = append(ws.acked, file)
					if ws.again.IsZero() && !killed.IsZero() && began.After(killed) {
						ws.again = time.Now()
					}
					mu.Unlock()
				}
			})
		}
	}
	await := func(what string, done func(*served) bool) {
		t.Helper()
		waitUntil(t, func() (bool, string) {
			mu.Lock()
			defer mu.Unlock()
			for _, ws := range all {
				if !done(ws) {
					return false, fmt.Sprintf("workspace %s has %d acknowledged writes, and lacks %s", ws.id, len(ws.acked), what)
				}
			}
			return true, ""
		})
	}
	await("writes before the kill", func(ws *served) bool { return len(ws.acked) >= 20 })
	for _, ws := range all {
		ws.pod = podUID(t, ws.id)
	}
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.cmd.Wait()
	mu.Lock()
	killed = time.Now()
	mu.Unlock()
	await("writes after the kill", func(ws *served) bool { return !ws.again.IsZero() })
	stop()
	wg.Wait()
	for _, ws := range all {
		took := ws.again.Sub(killed)
		t.Logf("another replica served workspace %s %v after the kill; %d writes were acknowledged", ws.id, took.Round(time.Millisecond), len(ws.acked))
		if took > takeover {
			t.Errorf("it took %v, want at most %v", took, takeover)
		}
		if now := podUID(t, ws.id); now != ws.pod {
			t.Errorf("the pod was replaced: %s, before %s", now, ws.pod)
		}
		if missing := c.missing(t, ws); len(missing) > 0 {
			t.Errorf("acknowledged writes are lost: %v", missing)
		}
		if err := b.Destroy(t.Context(), ws.id); err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	if left, err := b.List(t.Context(), client.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("the servers list %+v, %v", left, err)
	}
	b.stop(t)
	c.stop(t)
	in.wantNothing(t)
}

// write writes a file with its name as content.
func (s *testServer) write(ctx context.Context, id, file string) error {
	soon, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ws, _, err := s.Attach(soon, id)
	if err != nil {
		return err
	}
	_, err = ws.FS.Write(soon, file, strings.NewReader(file), &driver.WriteOptions{})
	return err
}

// missing returns the acknowledged files that a workspace does not have.
func (s *testServer) missing(t *testing.T, w *served) []string {
	t.Helper()
	ws, _, err := s.Attach(t.Context(), w.id)
	if err != nil {
		t.Fatal(err)
	}
	res := run(t, ws, `for f in `+strings.Join(w.acked, " ")+`; do [ "$(<"$f")" = "$f" ] || echo "$f"; done`)
	return strings.Fields(string(res.Stdout))
}

func podUID(t *testing.T, id string) string {
	t.Helper()
	pod, err := newProvider(t, t.TempDir()).getPod(t.Context(), objectName(id))
	if err != nil {
		t.Fatal(err)
	}
	return string(pod.UID)
}
