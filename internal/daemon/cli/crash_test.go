package cli_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/app"
	"github.com/croft-run/croft/registry"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// TestKilledAtRandomMoments kills a daemon and the commands beside it, without
// notice, in the middle of their work, many times over one data directory. After
// each time every write that was acknowledged is there, no file is torn, and
// every workspace that was opened can be resolved. CROFT_CRASH_ROUNDS sets how
// many times.
//
//croft:slow
func TestKilledAtRandomMoments(t *testing.T) {
	rounds := 100 // of each kind: 200 in all
	if s := os.Getenv("CROFT_CRASH_ROUNDS"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"local", "filestore"} {
		t.Run(kind, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			c := &crash{t: t, kind: kind, window: 400 * time.Millisecond, data: filepath.Join(t.TempDir(), "data"), rng: rand.New(rand.NewPCG(seed, 0))}
			c.prepare()
			for round := range rounds {
				c.round()
				c.verify(round)
				if c.acked < 2*(round+1) { // a slow machine gets to do something, too
					c.window = min(2*c.window, 5*time.Second)
				}
			}
			c.nothingOrphaned()
			t.Logf("%d rounds: %d writes acknowledged, %d workspaces opened and %d removed beside them, %d daemons killed",
				rounds, c.acked, c.opened, c.removed, rounds)
			if c.acked < rounds {
				t.Errorf("only %d writes were acknowledged in %d rounds: the test saw too little", c.acked, rounds)
			}
		})
	}
}

// A crash is a data directory and what must be in it.
type crash struct {
	t    *testing.T
	kind string
	data string
	rng  *rand.Rand
	id   string // of the workspace that is written to

	window time.Duration // in which a daemon is killed

	mu      sync.Mutex
	files   []*tracked
	others  map[string]string // id -> "open" or "removing"
	acked   int
	opened  int
	removed int
}

// tracked is one file: the version that was last acknowledged, and the latest
// one that was begun.
type tracked struct {
	name         string
	acked, begun uint64
}

const (
	httpWriters = 3
	perWriter   = 3
)

func (c *crash) prepare() {
	c.others = map[string]string{}
	writeFile(c.t, filepath.Join(c.data, "croft.yaml"), "version: 1\nserver: {providers: [local, filestore]}\n")
	c.with(func(_ *app.System, client *client.Client) {
		ws, err := client.Create(c.t.Context(), driver.Spec{Kind: c.kind, Name: "target"})
		if err != nil {
			c.t.Fatal(err)
		}
		c.id = ws.ID
	})
	for w := range httpWriters + 1 {
		for i := range perWriter {
			c.files = append(c.files, &tracked{name: fmt.Sprintf("w%d/deep/f%d", w, i)})
		}
	}
}

// with opens the data directory in this process, as the next program would.
func (c *crash) with(f func(*app.System, *client.Client)) {
	c.t.Helper()
	sys, err := app.Open(c.t.Context(), app.Config{DataDir: c.data, Operator: true})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := sys.Close(context.WithoutCancel(c.t.Context())); err != nil {
			c.t.Error(err)
		}
	}()
	client, err := sys.Client(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	f(sys, client)
}

// croft returns a command that runs this very program as croft.
func (c *crash) croft(ctx context.Context, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, append(args, "--data", c.data)...)
	cmd.Args[0] = "croft"
	cmd.Env = append(os.Environ(), "CROFT_SERVER=", "CROFT_TOKEN=")
	return cmd
}

// round starts a daemon, works on it and beside it, and kills everything.
func (c *crash) round() {
	ctx, kill := context.WithCancel(c.t.Context())
	defer kill()
	daemon := c.croft(ctx, "up", "--addr", "127.0.0.1:0", "--json")
	var stderr bytes.Buffer
	daemon.Stderr = &stderr
	stdout, err := daemon.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		c.t.Fatal(err)
	}
	var up struct{ URL, Token string }
	if err := json.NewDecoder(stdout).Decode(&up); err != nil {
		c.t.Fatalf("croft up: %v\n%s", err, stderr.String())
	}
	client, err := client.NewClient(client.Config{URL: up.URL, Token: up.Token})
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()

	var wg sync.WaitGroup
	for w := range httpWriters {
		rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
		wg.Go(func() { c.writeHTTP(ctx, client, c.files[w*perWriter:(w+1)*perWriter], rng) })
	}
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	wg.Go(func() { c.writeCLI(ctx, c.files[httpWriters*perWriter:], rng) })
	wg.Go(func() { c.openAndRemove(ctx, client) })

	time.Sleep(time.Duration(c.rng.Int64N(int64(c.window))))
	kill() // SIGKILL, to the daemon and to every command
	wg.Wait()
	daemon.Wait()
}

// content returns what version of a file holds: the version, and bytes that
// follow from it, so that a torn file shows.
func content(name string, version uint64) []byte {
	rng := rand.New(rand.NewPCG(version, uint64(len(name))+uint64(name[1])<<8+uint64(name[len(name)-1])<<16))
	size := rng.IntN(32 << 10)
	if rng.IntN(20) == 0 {
		size = 2<<20 + rng.IntN(1<<20) // beyond what a database row takes
	}
	data := binary.BigEndian.AppendUint64(nil, version)
	for len(data) < size {
		data = binary.BigEndian.AppendUint64(data, rng.Uint64())
	}
	return data
}

func (c *crash) begin(f *tracked) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.begun++
	return content(f.name, f.begun)
}

func (c *crash) ack(f *tracked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.acked = f.begun
	c.acked++
}

func (c *crash) writeHTTP(ctx context.Context, client *client.Client, files []*tracked, rng *rand.Rand) {
	d, _, err := client.Attach(ctx, c.id)
	if err != nil {
		c.unexpected(ctx, "attach", err)
		return
	}
	for ctx.Err() == nil {
		f := files[rng.IntN(len(files))]
		body := bytes.NewReader(c.begin(f))
		if _, err := d.FS.Write(ctx, f.name, body, &driver.WriteOptions{Parents: true}); err != nil {
			c.unexpected(ctx, "write", err)
			return
		}
		c.ack(f)
	}
}

func (c *crash) writeCLI(ctx context.Context, files []*tracked, rng *rand.Rand) {
	for ctx.Err() == nil {
		f := files[rng.IntN(len(files))]
		cmd := c.croft(ctx, "ws", "put", "target", "-", f.name)
		cmd.Stdin = bytes.NewReader(c.begin(f))
		if out, err := cmd.CombinedOutput(); err != nil {
			c.unexpected(ctx, "ws put", fmt.Errorf("%w: %s", err, out))
			return
		}
		c.ack(f)
	}
}

// openAndRemove opens workspaces, and removes every other one.
func (c *crash) openAndRemove(ctx context.Context, client *client.Client) {
	for i := 0; ctx.Err() == nil; i++ {
		ws, err := client.Create(ctx, driver.Spec{Kind: c.kind})
		if err != nil {
			c.unexpected(ctx, "open", err)
			return
		}
		c.note(ws.ID, "open", &c.opened)
		if i%2 == 1 {
			c.note(ws.ID, "removing", nil)
			if err := client.Destroy(ctx, ws.ID); err != nil {
				c.unexpected(ctx, "rm", err)
				return
			}
			c.note(ws.ID, "", &c.removed)
		}
	}
}

func (c *crash) note(id, state string, count *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == "" {
		delete(c.others, id)
	} else {
		c.others[id] = state
	}
	if count != nil {
		*count++
	}
}

// unexpected fails the test for an error that the kill does not explain.
func (c *crash) unexpected(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		c.t.Errorf("%s, before anything was killed: %v", what, err)
	}
}

// verify looks at everything from a process that none of the others knows.
func (c *crash) verify(round int) {
	c.with(func(_ *app.System, client *client.Client) {
		d, _, err := client.Attach(c.t.Context(), "target")
		if err != nil {
			c.t.Fatalf("round %d: the workspace can't be resolved: %v", round, err)
		}
		ws, err := workspace.New(c.id, d, nil, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, f := range c.files {
			c.verifyFile(round, ws, f)
		}
		for id, state := range c.others {
			_, err := client.Acquire(c.t.Context(), id)
			if gone := fault.Of(err) == fault.NotFound; err != nil && (!gone || state != "removing") {
				c.t.Errorf("round %d: workspace %s, which was %s: %v", round, id, state, err)
			}
			if state == "removing" && fault.Of(err) == fault.NotFound {
				delete(c.others, id)
			}
		}
		c.thin(client)
	})
}

// thin keeps the number of workspaces small.
func (c *crash) thin(client *client.Client) {
	for id := range c.others {
		if len(c.others) <= 10 {
			return
		}
		if err := client.Destroy(c.t.Context(), id); err != nil {
			c.t.Errorf("rm %s: %v", id, err)
		}
		delete(c.others, id)
	}
}

func (c *crash) verifyFile(round int, ws *workspace.Workspace, f *tracked) {
	data, err := ws.ReadFile(c.t.Context(), f.name)
	if fault.Of(err) == fault.NotFound && f.acked == 0 {
		return
	}
	if err != nil {
		c.t.Fatalf("round %d: %s, acknowledged up to version %d: %v", round, f.name, f.acked, err)
	}
	if len(data) < 8 {
		c.t.Fatalf("round %d: %s is torn: it has %d bytes", round, f.name, len(data))
	}
	version := binary.BigEndian.Uint64(data)
	if version < f.acked || version > f.begun {
		c.t.Fatalf("round %d: %s has version %d, but %d was acknowledged and %d begun", round, f.name, version, f.acked, f.begun)
	}
	if !bytes.Equal(data, content(f.name, version)) {
		c.t.Fatalf("round %d: %s is torn: its %d bytes are not version %d", round, f.name, len(data), version)
	}
	f.acked, f.begun = version, max(f.begun, version)
}

// nothingOrphaned sweeps, and holds what is on disk against the records.
func (c *crash) nothingOrphaned() {
	c.with(func(sys *app.System, _ *client.Client) {
		// What the killed programs held is theirs until their leases run out.
		if err := sys.Registry.Sweep(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
		records, err := sys.Registry.List(c.t.Context(), registry.Filter{})
		if err != nil {
			c.t.Fatal(err)
		}
		known := map[string]bool{}
		for _, r := range records {
			known[r.ID] = true
		}
		entries, err := os.ReadDir(filepath.Join(c.data, "ws"))
		if err != nil && !os.IsNotExist(err) {
			c.t.Fatal(err)
		}
		for _, e := range entries {
			// A temporary name ends in the id of the workspace that it is for.
			if id := e.Name()[max(0, len(e.Name())-driver.IDLength):]; driver.ValidID(id) && !known[id] {
				c.t.Errorf("ws/%s is nobody's", e.Name())
			}
		}
	})
}
