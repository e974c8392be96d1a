package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/docker"
	"github.com/croft-run/croft/workspace/driver"
)

// What the family server measures, and its bounds.
const (
	creates      = 100                             // sandboxes in a row, and at once
	createBlock  = 10                              // of them in turn with the references
	createMost   = int64(100 * time.Millisecond)   // median in a row, without a pool
	poolMost     = int64(40 * time.Millisecond)    // the same with one
	transferSize = 100 << 20                       // bytes of an upload and a download
	portInside   = 8123                            // of a program in a sandbox
	serverToken  = "bench-server-token-0123456789" // of croft up
)

// sdkProgram is a program for Node that runs operations of the SDK.
//
//go:embed sdk.mjs
var sdkProgram []byte

// benchServer measures croft up through the stock SDK of E2B, beside docker run, the Go
// client, a plain file server and a plain reverse proxy.
func benchServer(ctx context.Context, b *bench) error {
	if missing := testenv.DockerMissing(); missing != "" {
		fmt.Fprintln(b.log, "server: no engine can be started here:", missing)
		return nil
	}
	b.logLoad()
	defer b.logLoad()
	bin, err := b.buildCroft(ctx)
	if err != nil {
		return err
	}
	plain, err := b.plainFileServer()
	if err != nil {
		return err
	}
	cold, err := b.startSDK(ctx, bin, "", plain)
	if err != nil {
		return err
	}
	if err := b.serverCreates(ctx, bin, plain, cold); err != nil {
		return err
	}
	return b.serverCalls(ctx, cold)
}

// logLoad logs the load average, which tells how busy the machine was.
func (b *bench) logLoad() {
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(b.log, "%s: load average %s", b.family, data)
	}
}

// An sdkServer is a croft up with a program that calls it through the SDK.
type sdkServer struct {
	url, data string
	in        io.WriteCloser
	out       *json.Decoder
	stderr    bytes.Buffer
}

// startSDK starts croft up with a configuration, and a client of it.
func (b *bench) startSDK(ctx context.Context, bin, config, plainURL string) (*sdkServer, error) {
	dir, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	s := &sdkServer{data: filepath.Join(dir, "data")}
	file := filepath.Join(dir, "croft.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+config), 0o600); err != nil {
		return nil, err
	}
	ctx = context.WithoutCancel(ctx) // each ends with the family
	up := exec.CommandContext(ctx, bin, "up", "--json", "--data", s.data, "--config", file, "--addr", "127.0.0.1:0", "--token", serverToken)
	out, err := b.startChild(up, func() { up.Process.Signal(syscall.SIGTERM) })
	if err != nil {
		return nil, err
	}
	var answer struct{ URL string }
	if err := json.NewDecoder(out).Decode(&answer); err != nil {
		return nil, fmt.Errorf("croft up: %w", err)
	}
	s.url = answer.URL
	return s, s.startNode(ctx, b, filepath.Join(dir, "sdk"), plainURL)
}

// startChild starts a program that ends with the family: stop asks it to.
func (b *bench) startChild(cmd *exec.Cmd, stop func()) (io.Reader, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b.addCleanup(func() {
		stop()
		_ = cmd.Wait() // how it ends is not what is measured
	})
	return out, nil
}

func (s *sdkServer) startNode(ctx context.Context, b *bench, dir, plainURL string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	modules := filepath.Join(cache, "croft", "e2b", "node_modules") // of scripts/deps
	if _, err := os.Stat(filepath.Join(modules, "e2b")); err != nil {
		return fmt.Errorf("scripts/deps installs the SDK of E2B: %w", err)
	}
	err = errors.Join(os.Mkdir(dir, 0o700), os.Symlink(modules, filepath.Join(dir, "node_modules")), os.WriteFile(filepath.Join(dir, "sdk.mjs"), sdkProgram, 0o600))
	if err != nil {
		return err
	}
	node := exec.CommandContext(ctx, "node", "sdk.mjs")
	node.Dir, node.Stderr = dir, &s.stderr
	node.Env = append(os.Environ(), "E2B_API_KEY="+serverToken, "E2B_API_URL="+s.url, "E2B_SANDBOX_URL="+s.url,
		"PLAIN_URL="+plainURL, "TRANSFER="+strconv.Itoa(transferSize))
	if s.in, err = node.StdinPipe(); err != nil {
		return err
	}
	out, err := b.startChild(node, func() { s.in.Close() })
	s.out = json.NewDecoder(out)
	return err
}

// call runs an operation of sdk.mjs n times.
func (s *sdkServer) call(op string, n int, value any) error {
	if _, err := fmt.Fprintf(s.in, "{\"op\":%q,\"n\":%d}\n", op, n); err != nil {
		return fmt.Errorf("sdk: %s: %w: %s", op, err, s.stderr.Bytes())
	}
	answer := struct {
		Error string
		Value any
	}{Value: value}
	if err := s.out.Decode(&answer); err != nil {
		return fmt.Errorf("sdk: %s: %w: %s", op, err, s.stderr.Bytes())
	}
	if answer.Error != "" {
		return fmt.Errorf("sdk: %s: %s", op, answer.Error)
	}
	return nil
}

// side is an operation as a side of a row.
func (s *sdkServer) side(op string) side {
	return func(n int) error { return s.call(op, n, nil) }
}

// times returns how long each of n operations took.
func (s *sdkServer) times(op string, n int) ([]time.Duration, error) {
	var list []time.Duration
	err := s.call(op, n, &list)
	return list, err
}

// serverCreates measures from the creation of a sandbox to the output of its first command.
func (b *bench) serverCreates(ctx context.Context, bin, plainURL string, cold *sdkServer) error {
	const inRow, atOnce = "create to first output, in a row", "create to first output, 100 at once"
	if !strings.Contains(inRow+" with a pool", b.row) && !strings.Contains(atOnce+" with a pool", b.row) {
		return nil
	}
	d, err := testenv.StartDockerd(ctx)
	if err != nil {
		return err
	}
	b.addCleanup(func() { d.Stop() }) // what is left of it is in a temporary directory
	config := fmt.Sprintf("providers:\n  sandbox:\n    pool: {size: %d}\n", creates)
	warm, err := b.startSDK(ctx, bin, config, plainURL)
	if err != nil {
		return err
	}
	// The first of each loads programs, and shows the pool what is asked for.
	for _, s := range []*sdkServer{cold, warm} {
		if _, err := s.times("inRow", 1); err != nil {
			return err
		}
	}
	runs := func(n int) ([]time.Duration, error) { return dockerRuns(ctx, d.Host(), n) }
	if _, err := runs(1); err != nil {
		return err
	}
	var ours, pooled, theirs []time.Duration
	for range creates / createBlock {
		err := errors.Join(warm.waitPool(ctx),
			collect(&ours, func() ([]time.Duration, error) { return cold.times("inRow", createBlock) }),
			collect(&pooled, func() ([]time.Duration, error) { return warm.times("inRow", createBlock) }),
			collect(&theirs, func() ([]time.Duration, error) {
				var list []time.Duration
				for range createBlock {
					if err := collect(&list, func() ([]time.Duration, error) { return runs(1) }); err != nil {
						return nil, err
					}
				}
				return list, nil
			}))
		if err != nil {
			return err
		}
	}
	b.addPercentiles(inRow, ours, theirs, createMost)
	b.addPercentiles(inRow+" with a pool", pooled, theirs, poolMost)
	ours, pooled, theirs = nil, nil, nil
	err = errors.Join(
		collect(&ours, func() ([]time.Duration, error) { return cold.times("atOnce", creates) }),
		warm.waitPool(ctx),
		collect(&pooled, func() ([]time.Duration, error) { return warm.times("atOnce", creates) }),
		collect(&theirs, func() ([]time.Duration, error) { return runs(creates) }))
	if err != nil {
		return err
	}
	b.addPercentiles(atOnce, ours, theirs, 0)
	b.addPercentiles(atOnce+" with a pool", pooled, theirs, 0)
	return nil
}

func collect(into *[]time.Duration, measure func() ([]time.Duration, error)) error {
	list, err := measure()
	*into = append(*into, list...)
	return err
}

// waitPool waits until the pool of the server is full and idle.
func (s *sdkServer) waitPool(ctx context.Context) error {
	for {
		files, err := os.ReadDir(filepath.Join(s.data, "pool", "sandbox"))
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond): // for the last one, whose file is made first
		}
		if len(files) >= creates {
			return nil
		}
	}
}

// dockerRuns starts n containers at once, and returns how long each took to its output.
func dockerRuns(ctx context.Context, host string, n int) ([]time.Duration, error) {
	times, errs := make([]time.Duration, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, "docker", "-H", host, "run", "--rm", "--network", "none", docker.DefaultImage, "echo", "first")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				errs[i] = err
				return
			}
			start := time.Now()
			if errs[i] = cmd.Start(); errs[i] != nil {
				return
			}
			line, _ := bufio.NewReader(out).ReadString('\n') // the error of Wait says why it printed nothing
			times[i] = time.Since(start)
			if err := cmd.Wait(); err != nil || line != "first\n" {
				errs[i] = fmt.Errorf("docker run gives %q: %w: %s", line, err, stderr.Bytes())
			}
		})
	}
	wg.Wait()
	return times, errors.Join(errs...)
}

// publishedE2B is what ComputeSDK's benchmark of 2026-05-05 has for E2B's own service, with
// the network to it: medians and 95th percentiles, in a row and 100 at once.
var publishedE2B = map[string][2]time.Duration{
	"in a row": {491 * time.Millisecond, 685 * time.Millisecond},
	"at once":  {822 * time.Millisecond, 965 * time.Millisecond},
}

// addPercentiles adds rows of the medians and 95th percentiles beside those of docker run
// and the published ones of E2B. most bounds our median.
func (b *bench) addPercentiles(name string, ours, theirs []time.Duration, most int64) {
	for i, p := range []int{50, 95} {
		row := Row{Family: b.family, Name: fmt.Sprintf("%s, p%d", name, p), Ref: "docker run", N: len(ours),
			OursNS: percentile(ours, p), RefNS: percentile(theirs, p)}
		if p == 50 {
			row.Most = most
		}
		row.Ratio = float64(row.OursNS) / float64(row.RefNS)
		b.addRow(row)
		for how, published := range publishedE2B {
			if strings.Contains(name, how) {
				row.Ref, row.RefNS, row.Most = "E2B, published", int64(published[i]), 0
				row.Ratio = float64(row.OursNS) / float64(row.RefNS)
				b.addRow(row)
			}
		}
	}
}

// plainFileServer starts a file server without anything else, and returns its URL.
func (b *bench) plainFileServer() (string, error) {
	dir, err := b.tempDir()
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "file")
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			http.ServeFile(w, r, name)
			return
		}
		f, err := os.Create(name)
		if err == nil {
			_, err = io.Copy(f, r.Body)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	b.addCleanup(srv.Close)
	return srv.URL, nil
}

// serverCalls measures calls in one sandbox: a command, files and a port.
func (b *bench) serverCalls(ctx context.Context, s *sdkServer) error {
	var id string
	if err := s.call("open", 1, &id); err != nil {
		return err
	}
	c, err := client.NewClient(client.Config{URL: s.url, Token: serverToken})
	if err != nil {
		return err
	}
	b.addCleanup(c.Close)
	ws, _, err := c.Attach(ctx, id)
	if err != nil {
		return err
	}
	goClient := repeatSide(func() error {
		res, err := ws.Shell.Run(ctx, driver.Command{Argv: []string{"/bin/bash", "-l", "-c", "true"}}) // as the SDK does
		if err == nil && (res.ExitCode != 0 || res.Cause != "") {
			err = fmt.Errorf("true gives %+v", res)
		}
		return err
	})
	err = errors.Join(
		b.compareSides(ctx, `commands.run("true")`, "the same by the Go client", 2, s.side("run"), goClient),
		b.compareSides(ctx, "upload of 100 MiB", "plain Go file server", 2, s.side("upload"), s.side("plainUpload")),
		b.compareSides(ctx, "download of 100 MiB", "plain Go file server", 2, s.side("download"), s.side("plainDownload")))
	if err != nil {
		return err
	}
	return b.serverPorts(ctx, s, id)
}

// serverPorts compares a port of a program in a sandbox with a reverse proxy before the
// same program outside.
func (b *bench) serverPorts(ctx context.Context, s *sdkServer, id string) error {
	if err := s.call("listen", portInside, nil); err != nil {
		return err
	}
	outside, err := b.serveOutside(ctx)
	if err != nil {
		return err
	}
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: outside}))
	b.addCleanup(proxy.Close)
	header := http.Header{"E2b-Sandbox-Id": {id}, "E2b-Sandbox-Port": {strconv.Itoa(portInside)}}
	get := func(base, file string, size int64) side {
		return repeatSide(func() error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/"+file, nil)
			if err != nil {
				return err
			}
			r.Header = header
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer res.Body.Close()
			n, err := io.Copy(io.Discard, res.Body)
			if err == nil && n != size {
				err = fmt.Errorf("GET %s%s: %s, %d bytes", base, file, res.Status, n)
			}
			return err
		})
	}
	return errors.Join(
		b.compareSides(ctx, "GET of a port inside, 5 bytes", "plain reverse proxy", 0, get(s.url, "index.html", 5), get(proxy.URL, "index.html", 5)),
		b.compareSides(ctx, "GET of a port inside, 100 MiB", "plain reverse proxy", 0, get(s.url, "large", transferSize), get(proxy.URL, "large", transferSize)))
}

// serveOutside starts the program that listens in the sandbox on the host, with the same
// files, and returns its address.
func (b *bench) serveOutside(ctx context.Context) (string, error) {
	dir, err := b.tempDir()
	if err != nil {
		return "", err
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "index.html"), []byte("hello"), 0o600),
		os.WriteFile(filepath.Join(dir, "large"), make([]byte, transferSize), 0o600))
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	addr := l.Addr().(*net.TCPAddr)
	l.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "python3", "-m", "http.server", "--bind", "127.0.0.1", strconv.Itoa(addr.Port))
	cmd.Dir = dir
	if _, err := b.startChild(cmd, func() { cmd.Process.Kill() }); err != nil {
		return "", err
	}
	for range 100 {
		if conn, err := net.Dial("tcp", addr.String()); err == nil {
			return addr.String(), conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", fmt.Errorf("python3 does not listen on %s", addr)
}
