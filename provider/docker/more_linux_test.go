package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/snapshot"
	"github.com/croft-run/croft/workspace/driver"
)

// TestContainerIsHardened looks at what the engine was asked for.
func TestContainerIsHardened(t *testing.T) {
	p := newProvider(t, t.TempDir())
	id := driver.NewID()
	ws := open(t, p, func(s *driver.Spec) {
		s.ID = id
		s.Policy.Limits = driver.Limits{driver.ResourceMemory: {Max: 256 << 20}, driver.ResourcePIDs: {Max: 50}, driver.ResourceCPU: {Max: 500}}
	})
	script(t, ws, "true")
	answer, err := p.engine.(*remoteEngine).c.ContainerInspect(t.Context(), containerName(id), client.ContainerInspectOptions{}) // newProvider connects to one
	if err != nil {
		t.Fatal(err)
	}
	in := answer.Container
	h := in.HostConfig
	for what, ok := range map[string]bool{
		"no network": h.NetworkMode.IsNone(), "a read-only root": h.ReadonlyRootfs, "not privileged": !h.Privileged,
		"no capability":      slices.Equal(h.CapDrop, []string{"ALL"}) && len(h.CapAdd) == 0,
		"no new privileges":  slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}),
		"another user":       in.Config.User != "" && !strings.HasPrefix(in.Config.User, "0:"),
		"memory with swap":   h.Memory == 256<<20 && h.MemorySwap == h.Memory,
		"processes":          h.PidsLimit != nil && *h.PidsLimit == 50+guestThreads,
		"half a processor":   h.NanoCPUs == 5e8,
		"no device":          len(h.Devices) == 0,
		"its own namespaces": !h.PidMode.IsHost() && !h.IpcMode.IsHost() && !h.UTSMode.IsHost() && !h.UsernsMode.IsHost(),
		"labels":             in.Config.Labels[LabelWorkspace] == id && in.Config.Labels[LabelRoot] == p.cfg.Root,
	} {
		if !ok {
			t.Errorf("the container lacks: %s", what)
		}
	}
	for _, m := range in.Mounts {
		if strings.Contains(m.Source, "docker.sock") {
			t.Errorf("the engine's socket is mounted: %+v", m)
		}
	}
	if strings.Contains(string(ws.Ref.Payload), in.ID) || strings.Contains(string(ws.Ref.Payload), in.ID[:12]) {
		t.Errorf("the ref names the container: %s", ws.Ref.Payload)
	}
}

// TestGuestIsOutOfReach tries, as the workload, what would harm the guest.
func TestGuestIsOutOfReach(t *testing.T) {
	ws := open(t, newProvider(t, t.TempDir()))
	res := script(t, ws, `ls /.croft 2>&1; cat /.croft/config 2>&1; kill -9 1 2>&1; kill -TERM 1 2>&1; cat /proc/1/environ 2>&1; echo > /.croft-guest; echo still here`)
	if got := string(res.Stdout); !strings.HasSuffix(got, "still here\n") || strings.Contains(got, "token") || strings.Contains(got, "sock\n") {
		t.Errorf("got %q", got)
	}
	if got := string(script(t, ws, "echo goes on").Stdout); got != "goes on\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestContainersOfTheDeadAreCollected removes a data directory by hand.
func TestContainersOfTheDeadAreCollected(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	dead, alive := open(t, newProvider(t, dir)), open(t, newProvider(t, other))
	script(t, dead, "true")
	script(t, alive, "echo kept > file")
	eventually(t, "its directory is gone", func() bool { return os.RemoveAll(filepath.Join(dir, "ws")) == nil }) // its guest may write a last word
	removed, err := newProvider(t, t.TempDir()).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	roots := []string{}
	for _, r := range removed {
		roots = append(roots, r.Root)
	}
	if !slices.Contains(roots, filepath.Join(dir, "ws")) || slices.Contains(roots, filepath.Join(other, "ws")) {
		t.Errorf("removed: %+v", removed)
	}
	if list := containers(t, dir); len(list) > 0 {
		t.Errorf("left: %+v", list)
	}
	if got := string(script(t, alive, "cat file").Stdout); got != "kept\n" {
		t.Errorf("what is alive gives %q", got)
	}
}

// hello is an image with one file.
func hello(t *testing.T) v1.Image {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: 2}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("hi")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestImagesAreBroughtIn(t *testing.T) {
	p := newProvider(t, t.TempDir())
	dir := t.TempDir()
	archive, oci, files := filepath.Join(dir, "image.tar"), filepath.Join(dir, "layout"), filepath.Join(dir, "files")
	img := hello(t)
	if err := tarball.WriteToFile(archive, name.MustParseReference("any:1"), img); err != nil {
		t.Fatal(err)
	}
	if l, err := layout.Write(oci, empty.Index); err != nil {
		t.Fatal(err)
	} else if err := l.AppendImage(img); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(files, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("etc", filepath.Join(files, "link")); err != nil {
		t.Fatal(err)
	}
	project, junk := t.TempDir(), filepath.Join(dir, "junk.tar")
	for path, text := range map[string]string{filepath.Join(project, "Dockerfile"): "FROM scratch\nCOPY x /x\n", filepath.Join(project, "x"): "x", junk: "junk"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	images := p.Images()
	bring := map[string]func(image string) error{
		"croft-test/tar:1": func(image string) error { return images.Import(t.Context(), archive, image) },
		"croft-test/oci:1": func(image string) error { return images.Import(t.Context(), oci, image) },
		"croft-test/dir:1": func(image string) error { return images.Import(t.Context(), project, image) },
		"croft-test/tree:1": func(image string) error {
			return images.FromTree(t.Context(), snapshot.HostDir(files, nil), "a test", image)
		},
	}
	for image, do := range bring {
		if err := do(image); err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		if !listed(t, images, image) {
			t.Errorf("%s is not listed", image)
		}
		if err := images.Remove(t.Context(), image); err != nil {
			t.Errorf("%s: %v", image, err)
		}
		if listed(t, images, image) {
			t.Errorf("%s is there after it was removed", image)
		}
	}
	for what, err := range map[string]error{
		"no file":  images.Import(t.Context(), filepath.Join(dir, "none"), "croft-test/x:1"),
		"no image": images.Import(t.Context(), files, "croft-test/x:1"),
		"no tar":   images.Import(t.Context(), junk, "croft-test/x:1"),
		"no name":  images.Import(t.Context(), archive, "Not A Name"),
		"no such":  images.Remove(t.Context(), "croft-test/none:1"),
	} {
		if code := fault.Of(err); code != fault.NotFound && code != fault.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func listed(t *testing.T, images Images, image string) bool {
	t.Helper()
	list, err := images.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(img Image) bool { return slices.Contains(img.Names, image) })
}

// hosts resolves what a test calls its server.
type hosts map[string]string

func (n hosts) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addr, ok := n[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(addr)}, nil
}

// get is a request through the proxy, by bash alone.
const get = `get() { exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$1" "$1" >&3 && cat <&3; }; `

func TestAllowedHostIsReachedAndNoOther(t *testing.T) {
	t.Run("container", func(t *testing.T) { egressThrough(t, func(*Config) {}) })
	t.Run("volume", func(t *testing.T) { egressThrough(t, far) })
	t.Run("gvisor", func(t *testing.T) {
		needRunsc(t)
		egressThrough(t, func(c *Config) { c.Runtime = gvisorRuntime })
	})
}

func egressThrough(t *testing.T, with func(*Config)) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "reached the server") }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p := newProvider(t, t.TempDir(), func(c *Config) {
		with(c)
		c.Resolver = hosts{"good.test": "127.0.0.1", "bad.test": "127.0.0.1"}
	})
	t.Cleanup(func() { p.Close() })
	allow := driver.Network{Allow: []driver.NetRule{{Host: "good.test", Ports: []int{n}, Private: true}}}
	ws := open(t, p, func(s *driver.Spec) { s.Policy.Network = allow })
	if got := string(script(t, ws, "echo $http_proxy; "+get+"get good.test:"+port).Stdout); !strings.HasPrefix(got, "http://127.0.0.1:3128\n") || !strings.Contains(got, "reached the server") {
		t.Errorf("the allowed host gives %q", got)
	}
	res := script(t, ws, get+"get bad.test:"+port)
	if got := string(res.Stdout); strings.Contains(got, "reached the server") || !strings.Contains(got, "403") {
		t.Errorf("another host gives %q", got)
	}
	if len(res.Refused) != 1 || res.Refused[0].Host != "bad.test:"+port {
		t.Errorf("the result tells of refusals: %+v", res.Refused)
	}
	if got := string(script(t, ws, `grep -c "BEGIN CERT" "$SSL_CERT_FILE"`).Stdout); len(got) < 2 || got == "0\n" {
		t.Errorf("programs inside trust %q authorities", got)
	}
	if got := string(script(t, ws, "(exec 3<>/dev/tcp/127.0.0.1/"+port+") 2>/dev/null && echo reached; true").Stdout); got != "" {
		t.Errorf("the server is reached without the proxy: %q", got)
	}
	if _, err := ws.Life.Update(t.Context(), driver.Policy{}); err != nil {
		t.Fatal(err)
	}
	if got := string(script(t, ws, get+"get good.test:"+port).Stdout); strings.Contains(got, "reached the server") || !strings.Contains(got, "403") {
		t.Errorf("without a policy: %q", got)
	}
}

// started takes an engine that was started, which ends with the test.
func started(t *testing.T) func(*testenv.Dockerd, error) *testenv.Dockerd {
	return func(d *testenv.Dockerd, err error) *testenv.Dockerd {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Stop(); err != nil {
				t.Errorf("stop the engine: %v", err)
			}
		})
		return d
	}
}

// TestEngineMapsUsers has an engine whose users are others outside.
func TestEngineMapsUsers(t *testing.T) {
	testenv.NeedsDocker(t)
	const base = 300000
	d := started(t)(testenv.StartMappedDockerd(t.Context(), base))
	p := newProvider(t, t.TempDir(), func(c *Config) { c.Host = d.Host() })
	ws := open(t, p)
	write(t, ws, "from-host", "hello")
	res := script(t, ws, "cat from-host; echo more >> from-host; mkdir d; id -u")
	if got := string(res.Stdout); got != "hello1000\n" {
		t.Fatalf("got %q (%+v)", got, res)
	}
	write(t, ws, "d/inner", "again")
	f, err := p.checkEngine(t.Context(), "", false, "")
	if err != nil || f.HostUID != base+1000 {
		t.Errorf("the workload is %+v outside, %v; want %d", f, err, base+1000)
	}
}

// TestEngineHasOnlyTheImageAskedFor: the engine is tested in an image that is there. The proof
// holds for that image alone.
func TestEngineHasOnlyTheImageAskedFor(t *testing.T) {
	lacking := func(c *Config) { c.Image, c.Cache = "croft-test/missing:1", t.TempDir() }
	for _, files := range []string{FilesDirectory, FilesVolume} {
		p := newProvider(t, t.TempDir(), lacking, func(c *Config) { c.Files = files })
		ws := open(t, p, func(s *driver.Spec) { s.Config = []byte(`{"image":"` + DefaultImage + `"}`) })
		if got := string(script(t, ws, "echo runs").Stdout); got != "runs\n" {
			t.Errorf("files %s: got %q", files, got)
		}
		if _, err := p.checkEngine(t.Context(), "", files == FilesVolume, ""); err == nil || !strings.Contains(err.Error(), "image croft-test/missing:1 is not in the engine") {
			t.Errorf("files %s: without an image of the engine: %v", files, err)
		}
	}
}

// checkKeptInfo checks that other processes take the description that p has kept, and ask the
// engine if it was started since, or if the description is old.
func checkKeptInfo(t *testing.T, p *Provider, other func() *Provider) {
	t.Helper()
	path, socket, err := p.infoPath()
	if err != nil {
		t.Fatal(err)
	}
	info := readInfo(path, socket)
	if info == nil {
		t.Fatalf("the description of the engine was not kept at %s", path)
	}
	real := info.Name
	info.Name = "kept"
	for _, tt := range []struct {
		socket string
		age    time.Duration
		want   string
	}{{socket, time.Minute, "kept"}, {"another", time.Minute, real}, {socket, 2 * time.Hour, real}} {
		data, err := json.Marshal(keptInfo{tt.socket, *info})
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err == nil {
			err = os.Chtimes(path, time.Time{}, time.Now().Add(-tt.age))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other().engineInfo(t.Context()); err != nil || got.Name != tt.want {
			t.Errorf("kept for %q, %v old: the engine is %q, %v, want %q", tt.socket, tt.age, got.Name, err, tt.want)
		}
	}
}

// TestPodman has another engine than Docker's behind the same API.
//
//croft:slow
func TestPodman(t *testing.T) {
	testenv.NeedsPodman(t)
	d := started(t)(testenv.StartPodman(t.Context()))
	for _, files := range []string{FilesDirectory, FilesVolume} {
		t.Run(files, func(t *testing.T) {
			p := newProvider(t, t.TempDir(), func(c *Config) { c.Host, c.Files = d.Host(), files })
			ws := open(t, p, func(s *driver.Spec) { s.Policy.Limits = driver.Limits{driver.ResourceMemory: {Max: 128 << 20}} })
			write(t, ws, "from-host", "hello")
			res := script(t, ws, "cat from-host; echo more >> from-host; mkdir d; id -un")
			if got := string(res.Stdout); got != "hellocroft\n" {
				t.Fatalf("got %q (%+v)", got, res)
			}
			write(t, ws, "d/inner", "again")
			proofs, err := filepath.Glob(filepath.Join(p.cfg.Cache, "proof-*"))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // other processes: they need no test
				other := newProvider(t, filepath.Dir(p.cfg.Root), func(c *Config) { c.Host, c.Files = d.Host(), files })
				if _, err := other.checkEngine(t.Context(), "", files == FilesVolume, ""); err != nil {
					t.Fatal(err)
				}
			}
			if now, err := filepath.Glob(filepath.Join(p.cfg.Cache, "proof-*")); err != nil || len(now) != len(proofs) {
				t.Errorf("the proofs %q became %q, %v", proofs, now, err)
			}
			checkKeptInfo(t, p, func() *Provider {
				return newProvider(t, filepath.Dir(p.cfg.Root), func(c *Config) { c.Host, c.Files = d.Host(), files })
			})
			again, err := newProvider(t, filepath.Dir(p.cfg.Root), func(c *Config) { c.Host = d.Host() }).Resolve(t.Context(), ws.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(script(t, again, "cat from-host d/inner").Stdout); got != "hellomore\nagain" {
				t.Errorf("another process reads %q", got)
			}
			if err := again.Life.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			left, err := p.engine.List(t.Context(), map[string]string{LabelHost: hostID()})
			if err != nil || len(left) > 0 {
				t.Errorf("left: %+v, %v", left, err)
			}
			kept, err := p.engine.Volumes(t.Context(), map[string]string{LabelHost: hostID()})
			if err != nil || len(kept) > 0 {
				t.Errorf("left: %+v, %v", kept, err)
			}
		})
	}
}

// TestRootlessEngine has an engine that runs as an ordinary user, for that very user
// and for root, whose files it does not see.
//
//croft:slow
func TestRootlessEngine(t *testing.T) {
	testenv.NeedsRootless(t)
	d := started(t)(testenv.StartRootlessDockerd(t.Context()))
	t.Run("root", func(t *testing.T) {
		p := newProvider(t, t.TempDir(), func(c *Config) { c.Host = d.Host() })
		ws := open(t, p)
		write(t, ws, "from-host", "hello")
		if got := string(script(t, ws, "cat from-host; id -u").Stdout); got != "hello1000\n" {
			t.Errorf("got %q", got)
		}
		if list, err := p.engine.Volumes(t.Context(), map[string]string{LabelRoot: p.cfg.Root}); err != nil || len(list) != 1 {
			t.Errorf("there are the volumes %v, %v", list, err)
		}
		_, err := p.Open(t.Context(), driver.Spec{ID: driver.NewID(), Kind: Kind, Policy: driver.Policy{Limits: driver.Limits{driver.ResourceMemory: {Max: 64 << 20}}}})
		if info, _ := p.engineInfo(t.Context()); !info.Memory && fault.Of(err) != fault.Unsupported {
			t.Errorf("a limit that the engine can't hold is answered with %v, want %v", err, fault.Unsupported)
		}
	})
	t.Run("the same user", func(t *testing.T) {
		dir, err := os.MkdirTemp("", "croft-rootless-") //nolint:usetesting // another user has to pass
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		program := filepath.Join(dir, "test")
		copyFile(t, os.Args[0], program)
		copyFile(t, os.Getenv(guestVar), filepath.Join(dir, "croft-guest"))
		own := filepath.Join(dir, "own")
		if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(own, 0o700), os.Chown(own, testenv.Nobody, testenv.Nobody)); err != nil {
			t.Fatal(err)
		}
		r, err := json.Marshal(racer{Name: "user", Dir: own, ID: driver.NewID(), Last: true})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Dir = own
		cmd.Env = append(os.Environ(), racerVar+"="+string(r), testenv.DockerVar+"="+d.Host(), guestVar+"="+filepath.Join(dir, "croft-guest"), cacheVar+"="+filepath.Join(own, "cache"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: testenv.Nobody, Gid: testenv.Nobody}}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("as an ordinary user: %v: %s", err, out)
		}
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}
