package kubernetes

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace/driver"
)

var workspaces = flag.Int("workspaces", 40, "how many workspaces TestManyWorkspaces opens")

const serverToken = "token-of-the-tests-server"

// An installation is what servers share: the program croft-k8s, a PostgreSQL, a bucket, and the
// rights of Role.
type installation struct {
	dir      string // of the instance, see leftovers
	program  string
	bucket   string // its directory
	database string
	secret   string // file with the secret of replicas
	env      []string
}

func newInstallation(t *testing.T, settings string) *installation {
	t.Helper()
	cfg := config(t, t.TempDir())
	dir := t.TempDir()
	in := &installation{dir: dir, program: filepath.Join(dir, "croft-k8s"), bucket: filepath.Join(dir, "bucket"), database: testenv.NeedsPostgres(t).Database(t)}
	in.secret = filepath.Join(dir, "secret")
	kubeconfig, settingsFile := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "croft.yaml")
	runProgram(t, "go", "build", "-o", in.program, "./cmd/croft-k8s")
	config := api.NewConfig()
	config.Clusters["c"] = &api.Cluster{Server: cfg.REST.Host, CertificateAuthorityData: cfg.REST.CAData}
	config.AuthInfos["c"] = &api.AuthInfo{Token: os.Getenv(tokenVar)}
	config.Contexts["c"] = &api.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(in.bucket, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{settingsFile: settings, in.secret: strings.Repeat("s3cret", 8)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in.env = append(os.Environ(), "HOME="+dir, "CROFT_CONFIG="+settingsFile, "CROFT_STORE="+in.database, "CROFT_BUCKET=file://"+in.bucket, "CROFT_TOKEN="+serverToken,
		"KUBECONFIG="+kubeconfig, "CROFT_K8S_NAMESPACE="+cfg.Namespace, "CROFT_K8S_INSTANCE="+instance(dir), "CROFT_K8S_IMAGE="+testImage,
		"CROFT_K8S_GUEST_IMAGE="+guestImage, "CROFT_K8S_PULL_POLICY=Never", "CROFT_K8S_SIZE=64Mi")
	return in
}

// A testServer is croft-k8s up, the program itself.
type testServer struct {
	*client.Client
	*installation
	data string
	cmd  *exec.Cmd
}

// startServer starts the one server of an installation.
func startServer(t *testing.T, settings string) *testServer {
	t.Helper()
	return newInstallation(t, settings).start(t, "")
}

// start starts a server. With a name it is a replica.
func (in *installation) start(t *testing.T, node string) *testServer {
	t.Helper()
	addr, err := testenv.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{installation: in, data: filepath.Join(in.dir, "data"+node)}
	log := filepath.Join(in.dir, "log"+node)
	logFile, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	s.cmd = exec.Command(in.program, "up", "--addr", addr)
	s.cmd.Stdout, s.cmd.Stderr = logFile, logFile
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Env = slices.Concat(in.env, []string{"CROFT_DATA=" + s.data})
	if node != "" {
		s.cmd.Env = append(s.cmd.Env, "CROFT_NODE="+node, "CROFT_ADVERTISE=http://"+addr, "CROFT_CLUSTER_SECRET_FILE="+in.secret)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		s.cmd.Wait() // stop may have waited
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("the server's log:\n%s", text)
		}
	})
	if s.Client, err = client.NewClient(client.Config{URL: "http://" + addr, Token: serverToken}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	waitUntil(t, func() (bool, string) {
		res, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK, "the server is not ready: " + res.Status
	})
	return s
}

// stop ends the server as an operator does.
func (s *testServer) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// rows counts the rows of a table.
func (in *installation) rows(t *testing.T, table string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), testenv.NeedsProgram(t, "psql"), in.database, "-Atc", "SELECT count(*) FROM "+table).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestManyWorkspaces opens, uses and destroys many workspaces of a server, twenty at a time, some
// of a pool, each tenth with a snapshot. Nothing is left in the namespace, in the database and in
// the bucket, but packs that the garbage collection has condemned: it deletes them after a grace
// period.
func TestManyWorkspaces(t *testing.T) {
	const live = 20
	s := startServer(t, "version: 1\ndefaults: {provider: kubernetes}\nproviders: {kubernetes: {pool: {size: 2}}}\n")
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	start := time.Now()
	for range live {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(*workspaces) && ctx.Err() == nil; i = next.Add(1) {
				if err := s.use(ctx, i); err != nil {
					t.Errorf("workspace %d: %v", i, err)
					stop()
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d workspaces took %v", *workspaces, time.Since(start))
	if left, err := s.List(t.Context(), client.Filter{}); err != nil || len(left) > 0 {
		t.Errorf("the server lists %+v, %v", left, err)
	}
	if left, err := s.Snapshots(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("snapshots are left: %+v, %v", left, err)
	}
	if _, err := s.GCSnapshots(t.Context()); err != nil {
		t.Error(err)
	}
	s.stop(t)
	s.wantNothing(t)
}

// wantNothing checks that nothing is left in the namespace, in the database and in the bucket.
func (in *installation) wantNothing(t *testing.T) {
	t.Helper()
	if left := leftovers(t, in.dir); len(left) > 0 {
		t.Errorf("left in the namespace: %v", left)
	}
	for _, table := range []string{"workspaces", "holds", "holders"} {
		if n := in.rows(t, table); n != "0" {
			t.Errorf("the table %s has %s rows", table, n)
		}
	}
	checkBucket(t, in.bucket)
}

// checkBucket checks that a bucket has nothing but the version of the store, and packs that are
// condemned.
func checkBucket(t *testing.T, dir string) {
	t.Helper()
	packs, condemned := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".attrs") {
			return err
		}
		name, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case filepath.Dir(name) == "store/packs":
			packs[filepath.Base(name)] = true
		case filepath.Dir(name) == "store/condemned":
			condemned[filepath.Base(name)] = true
		case name != "store/version":
			t.Errorf("left in the bucket: %s", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the bucket has %d packs, %d are condemned", len(packs), len(condemned))
	for name := range packs {
		if !condemned[name] {
			t.Errorf("left in the bucket: the pack %s, which is not condemned", name)
		}
	}
}

// use is the life of one workspace.
func (s *testServer) use(ctx context.Context, i int64) error {
	made, err := s.Create(ctx, driver.Spec{Kind: Kind, Name: fmt.Sprintf("w%d", i)})
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	ws, _, err := s.Attach(ctx, made.ID)
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	text := fmt.Sprintf("file of %d", i)
	if _, err := ws.FS.Write(ctx, "file", strings.NewReader(text), &driver.WriteOptions{}); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	res, err := ws.Shell.Run(ctx, driver.Command{Argv: []string{"cat", "file"}})
	if err != nil || string(res.Stdout) != text {
		return fmt.Errorf("run: %q, %w", res.Stdout, err)
	}
	if i%10 == 0 {
		info, err := ws.Life.Snapshot.Snapshot(ctx, &driver.SnapshotOptions{})
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		if err := s.ForgetSnapshot(ctx, info.ID); err != nil {
			return fmt.Errorf("forget the snapshot: %w", err)
		}
	}
	if err := s.Destroy(ctx, made.ID); err != nil {
		return fmt.Errorf("destroy: %w", err)
	}
	return nil
}

// TestEgressOfAServer has the program itself proxy a request: it gives the provider the options
// of its proxies, so that each request is an audit event.
func TestEgressOfAServer(t *testing.T) {
	needCluster(t)
	denyPods(t)
	reached := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "reached the server") }))
	t.Cleanup(reached.Close)
	at := reached.Listener.Addr().(*net.TCPAddr)
	s := startServer(t, "version: 1\n")
	made, err := s.Create(t.Context(), driver.Spec{Kind: Kind, Policy: driver.Policy{Network: driver.Network{Allow: []driver.NetRule{{Host: at.IP.String(), Ports: []int{at.Port}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	ws, _, err := s.Attach(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(run(t, ws, get+"get "+at.String()).Stdout); !strings.Contains(got, "reached the server") {
		t.Errorf("the allowed host gives %q", got)
	}
	if got := string(run(t, ws, get+"get bad.test").Stdout); !strings.Contains(got, "403") {
		t.Errorf("another host gives %q", got)
	}
	if err := s.Destroy(t.Context(), made.ID); err != nil {
		t.Error(err)
	}
	s.stop(t)
	events, err := os.ReadFile(filepath.Join(s.data, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{at.IP.String(), "bad.test"} {
		if !strings.Contains(string(events), fmt.Sprintf(`"host":%q`, host)) {
			t.Errorf("no audit event has the host %s:\n%s", host, events)
		}
	}
	if left := leftovers(t, s.dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
