package registry

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/local"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// The crash tests start this program again, as a process that works on a store
// until it is killed.
const (
	childStore = "CROFT_TEST_STORE"
	childRoot  = "CROFT_TEST_ROOT"
)

// childLease is short, since the survivors have to wait it out.
const childLease = 300 * time.Millisecond

func TestMain(m *testing.M) {
	if url := os.Getenv(childStore); url != "" {
		if err := child(context.Background(), url, os.Getenv(childRoot)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func openLocal(ctx context.Context, store Store, root string) (*Registry, error) {
	p, err := local.New(&local.Config{Root: root})
	if err != nil {
		return nil, err
	}
	return New(ctx, store, workspace.NewMux(p), &Options{Lease: childLease})
}

// child makes, uses, changes and destroys workspaces without end. It announces
// a destruction before, and everything else after it was acknowledged.
func child(ctx context.Context, url, root string) error {
	store, err := OpenStore(ctx, url)
	if err != nil {
		return err
	}
	r, err := openLocal(ctx, store, root)
	if err != nil {
		return err
	}
	go r.Run(ctx) // ends with the process
	for n := 0; ; n++ {
		rec, err := r.Create(ctx, workspace.Spec{Kind: local.Kind})
		if err != nil {
			return err
		}
		fmt.Println("created", rec.ID)
		ws, err := r.Acquire(ctx, rec.ID)
		if err != nil {
			return err
		}
		fmt.Println("ready", rec.ID)
		if _, err := ws.WriteFile(ctx, "f", []byte(rec.ID), nil); err != nil {
			return err
		}
		fmt.Println("wrote", rec.ID)
		if n%3 == 0 {
			if _, err := r.Update(ctx, rec.ID, workspace.Policy{ReadOnly: true}); err != nil {
				return err
			}
			fmt.Println("readonly", rec.ID)
		}
		if n%2 == 0 {
			fmt.Println("destroying", rec.ID)
			if err := r.Destroy(ctx, rec.ID); err != nil {
				return err
			}
			fmt.Println("destroyed", rec.ID)
		}
	}
}

// crash runs a child for a random while, kills it, and returns the words that
// it said of each id, in order.
func crash(t *testing.T, url, root string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childStore+"="+url, childRoot+"="+root)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	lines := bufio.NewScanner(out)
	var killing sync.Once
	for lines.Scan() {
		killing.Do(func() {
			time.AfterFunc(time.Duration(rand.Int64N(int64(200*time.Millisecond))), func() { cmd.Process.Kill() })
		})
		word, id, ok := strings.Cut(lines.Text(), " ")
		if ok && driver.ValidID(id) {
			said[id] = append(said[id], word)
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return said
}

func TestNothingIsOrphanedOrLostWhenProcessesAreKilled(t *testing.T) {
	crashes(t, sqliteURL(t), 50, func() {})
}

func TestNothingIsOrphanedOrLostOnPostgres(t *testing.T) {
	url := testenv.NeedsPostgres(t).Database(t)
	crashes(t, url, 10, func() { noticed(t, url) })
}

// noticed waits until the server has no connection of the killed processes: until
// then it may commit their last statements.
func noticed(t *testing.T, url string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		var others int
		err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
		switch {
		case err != nil:
			t.Fatal(err)
		case others == 0:
			return
		case time.Now().After(end):
			t.Fatalf("%d connections of killed processes are still open", others)
		}
	}
}

// crashes kills two processes at a time, on one store, and looks at what they
// left, once nothing of them is under way any more.
func crashes(t *testing.T, url string, kills int, over func()) {
	root := filepath.Join(t.TempDir(), "ws")
	said := map[string][]string{}
	for range kills / 2 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				words := crash(t, url, root)
				mu.Lock()
				defer mu.Unlock()
				for id, w := range words {
					said[id] = w
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
		over()
		survive(t, url, root, said)
	}
	t.Logf("%d workspaces were made by processes that were killed", len(said))
}

// survive is the next process: it sweeps, checks what was acknowledged, and
// destroys what is left, so that the next round begins with nothing.
func survive(t *testing.T, url, root string, said map[string][]string) {
	t.Helper()
	ctx := t.Context()
	store, err := OpenStore(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := openLocal(ctx, store, root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Shutdown(ctx)
	if err := r.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	records := map[string]bool{}
	recs, err := r.List(ctx, Filter{States: states})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range recs {
		records[rec.ID] = true
		if rec.State == Destroyed {
			t.Errorf("%s is still entombed after a sweep", rec.ID)
		}
	}
	for _, id := range onDisk(t, root) {
		if !records[id] {
			t.Errorf("%s is on disk without a record; the child said %v", id, said[id])
		}
	}
	for id, words := range said {
		checkSaid(t, r, id, words)
	}
	for id := range records {
		if _, err := r.Acquire(ctx, id); err != nil {
			t.Errorf("a workspace that was left by a crash: %v", err)
		}
		if err := r.Destroy(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if left := onDisk(t, root); len(left) > 0 {
		t.Errorf("on disk is still %v", left)
	}
	for id := range said {
		said[id] = []string{"destroyed"}
	}
}

// checkSaid holds a workspace against what was acknowledged of it.
func checkSaid(t *testing.T, r *Registry, id string, words []string) {
	t.Helper()
	has := func(word string) bool { return strings.Contains(strings.Join(words, " ")+" ", word+" ") }
	rec, err := r.Lookup(t.Context(), "", id)
	switch {
	case has("destroyed"):
		wantCode(t, "a workspace that was destroyed", err, fault.NotFound)
		return
	case has("destroying"):
		if err != nil && fault.Of(err) != fault.NotFound {
			t.Error(err)
		}
		return
	case err != nil:
		t.Errorf("%s was acknowledged (%v) and is lost: %v", id, words, err)
		return
	}
	ws, err := r.Acquire(t.Context(), id)
	if err != nil {
		t.Errorf("%s was acknowledged (%v): %v", id, words, err)
		return
	}
	if has("wrote") {
		if got, err := ws.ReadFile(t.Context(), "f"); err != nil || string(got) != id {
			t.Errorf("%s has the file %q, %v", id, got, err)
		}
	}
	if has("readonly") {
		if rec, err = r.Lookup(t.Context(), "", id); err != nil || !rec.Spec.Policy.ReadOnly {
			t.Errorf("%s lost its policy: %+v, %v", id, rec.Spec.Policy, err)
		}
		if _, err := ws.WriteFile(t.Context(), "g", nil, nil); err == nil {
			t.Errorf("%s can be written, although that was revoked", id)
		}
	}
}

var anID = regexp.MustCompile(`[a-z0-9]{20}`)

// onDisk lists the ids that anything below the root carries in its name.
func onDisk(t *testing.T, root string) []string {
	t.Helper()
	entries, err := os.ReadDir(root)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range entries {
		if id := anID.FindString(e.Name()); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}
