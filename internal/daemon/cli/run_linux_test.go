package cli_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croft-run/croft/workspace/driver"
)

// secureServer serves TLS on an address of loopback that is not the usual one, so
// that programs ask a proxy for it. What it returns are HOST:PORT and the file of
// the authority that signed for it.
func secureServer(t *testing.T, h http.HandlerFunc) (host, roots string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ip := net.IPv4(127, 0, 0, 2)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a server of a test"}, IPAddresses: []net.IP{ip},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	roots = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", ip.String()+":0"); err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), roots
}

// children returns the processes that pid started, and those that they did.
func children(t *testing.T, pid int) []int {
	t.Helper()
	below := map[int][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, _ := strconv.Atoi(fields[1])
		below[parent] = append(below[parent], child)
	}
	var all []int
	for queue := below[pid]; len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, below[queue[0]]...)
	}
	return all
}

// lives reports whether a process is there and has memory: one that has ended has
// none, although nobody has waited for it yet.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z ")) && !bytes.Contains(stat, []byte(") X "))
}

// inProcess reports where a text is in a process: its environment, its arguments
// or its memory. What it was able to look at is counted.
func inProcess(t *testing.T, pid int, text string) (where []string, looked int64) {
	t.Helper()
	for _, name := range []string{"environ", "cmdline"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err == nil && bytes.Contains(data, []byte(text)) {
			where = append(where, name)
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return where, 0
	}
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return where, 0
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode[0] != 'r' {
			continue
		}
		data := make([]byte, to-from)
		n, err := mem.ReadAt(data, from)
		if err != nil && n == 0 {
			continue // of the kernel's own, or not there
		}
		looked += int64(n)
		if bytes.Contains(data[:n], []byte(text)) {
			where = append(where, "memory: "+strings.TrimSpace(line))
		}
	}
	return where, looked
}

// inFiles reports the files below a directory that hold a text.
func inFiles(t *testing.T, dir, text string) (where []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it went away meanwhile, or holds nothing
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(text)) {
			where = append(where, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// TestSecretNeverEnters proves that a secret which a server is sent on behalf of
// a workspace is in no variable, argument, memory or file of that workspace, and
// in nothing that Croft writes. A text that is there is found by the same means.
func TestSecretNeverEnters(t *testing.T) {
	const token, known = "Sesame/Opens+the=Door-8731", "a-text-that-is-known-inside"
	sent := make(chan string, 1)
	host, roots := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case sent <- r.Header.Get("Authorization"):
		default:
		}
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		fmt.Fprintf(w, "you sent %s", r.Header.Get("Authorization"))
	})
	data := filepath.Join(t.TempDir(), "data")
	cmd := croft(t, data, "run", "--secret", "DOOR@"+host, "--env", "KNOWN="+known, "--", "bash", "-c",
		`answer=$(curl -sSi https://`+host+`); echo "$answer" | tee file; echo; echo ready; read -r line`)
	cmd.Env = append(cmd.Env, "CROFT_SECRET_DOOR="+token, "SSL_CERT_FILE="+roots)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		fmt.Fprintln(&said, lines.Text())
	}
	select {
	case got := <-sent:
		if got != "Bearer "+token {
			t.Errorf("the server was sent %q", got)
		}
	default:
		t.Fatalf("the server was not reached: %s%s", &said, &errs)
	}
	if !strings.Contains(said.String(), "you sent Bearer [REDACTED:door]") {
		t.Errorf("the answer is %q", &said)
	}
	inside := children(t, cmd.Process.Pid)
	if len(inside) < 2 {
		t.Errorf("there are the processes %v; want a guest and the command", inside)
	}
	found := false
	for _, pid := range inside {
		where, looked := inProcess(t, pid, token)
		if len(where) > 0 {
			t.Errorf("process %d has the secret in %v", pid, where)
		}
		if looked == 0 && os.Geteuid() == 0 && lives(pid) {
			t.Errorf("the memory of process %d can't be read", pid)
		}
		where, _ = inProcess(t, pid, known)
		found = found || len(where) > 1
	}
	if !found {
		t.Error("a variable of the workspace is found in no process: the search finds nothing")
	}
	files := func(when string) {
		t.Helper()
		if where := inFiles(t, data, token); len(where) > 0 {
			t.Errorf("%s, the secret is in %v", when, where)
		}
	}
	files("while it runs")
	if where := inFiles(t, data, "REDACTED:door"); len(where) == 0 {
		t.Error("the file of the workspace is not found: the search finds nothing")
	}
	fmt.Fprintln(in, "go on")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &errs)
	}
	files("afterwards")
	if text := said.String() + errs.String(); strings.Contains(text, token) {
		t.Errorf("it came out: %s", text)
	}
}

// TestRunReachesWhatIsAllowed proves that a run reaches nothing, then one host,
// and says what it refused.
func TestRunReachesWhatIsAllowed(t *testing.T) {
	host, roots := secureServer(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached it") })
	data := filepath.Join(t.TempDir(), "data")
	run := func(args ...string) (string, int) {
		t.Helper()
		cmd := croft(t, data, append([]string{"run"}, args...)...)
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+roots)
		out, err := cmd.CombinedOutput()
		if _, ok := err.(*exec.ExitError); err != nil && !ok { //nolint:errorlint // as os/exec returns it
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	refused := "croft: refused: " + host + ": no rule allows it; this workspace has no network; --allow-net " + host + " lets it through"
	if out, status := run("--", "curl", "-sS", "https://"+host); status == 0 || !strings.Contains(out, refused) {
		t.Errorf("without a word about the network: status %d, %s", status, out)
	}
	if out, status := run("--allow-net", host, "--", "curl", "-sS", "https://"+host); status != 0 || out != "reached it" {
		t.Errorf("the allowed host: status %d, %s", status, out)
	}
	if out, status := run("--allow-net", host, "--", "curl", "-sS", "https://example.com"); status == 0 || !strings.Contains(out, "croft: refused: example.com:443: no rule allows it; allowed are 127.0.0.2") {
		t.Errorf("another host: status %d, %s", status, out)
	}
	if out, status := run("--secret", "nope@"+host, "--", "true"); status != 125 || !strings.Contains(out, "set the variable CROFT_SECRET_NOPE") {
		t.Errorf("a secret that is not there: status %d, %s", status, out)
	}
}

// TestExecTellsWhatWasRefused: a command in a workspace that stays tells which
// hosts it was not let reach, directly and over a server, and the Bash tool does so
// to an agent.
func TestExecTellsWhatWasRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if out, err := croft(t, data, "ws", "open", "box", "--provider", "sandbox").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	curl := "curl -s http://127.0.0.9:8000; curl -s http://169.254.169.254; for i in 1 2 3 4 5 6; do curl -s http://h$i.test; done"
	exec := func(flags ...string) (string, string) {
		t.Helper()
		var out, errs strings.Builder
		cmd := croft(t, data, append(append([]string{"ws", "exec", "box"}, flags...), "--", "sh", "-c", curl)...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		cmd.Run() // its status is that of curl
		return out.String(), errs.String()
	}
	const reason = ": no rule allows it; this workspace has no network"
	want := "croft: refused: 127.0.0.9:8000" + reason + "; a workspace opened with --allow-net 127.0.0.9:8000 reaches it\n" +
		"croft: refused: 169.254.169.254:80" + reason + "\n" +
		"croft: refused: h1.test:80" + reason + "; a workspace opened with --allow-net h1.test reaches it\n"
	if _, errs := exec(); !strings.HasPrefix(errs, want) || !strings.HasSuffix(errs, "croft: refused: and 3 more; see croft events --kind egress.request\n") {
		t.Errorf("got %s; want %s and how many more", errs, want)
	}
	out, errs := exec("--json")
	var answer struct{ Refused []driver.Refusal }
	if err := json.Unmarshal([]byte(out), &answer); err != nil || errs != "" || len(answer.Refused) != 8 || answer.Refused[0].Host != "127.0.0.9:8000" {
		t.Errorf("as JSON: %s, and %s on the standard error", out, errs)
	}
	args, err := json.Marshal(m{"command": curl})
	if err != nil {
		t.Fatal(err)
	}
	said, _ := croft(t, data, "tool", "Bash", string(args), "--workspace", "box").CombinedOutput()
	for _, want := range []string{"network: 127.0.0.9:8000 was refused" + reason + "; the operator can allow", "network: and 3 more were refused\n"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("the Bash tool says %s; want %s", said, want)
		}
	}
}

// TestInterruptedCommandSaysNoMore: who presses Ctrl-C hears how the command ended,
// and nothing of the protocol below.
func TestInterruptedCommandSaysNoMore(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if out, err := croft(t, data, "ws", "open", "box", "--provider", "sandbox").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 5 {
		var errs strings.Builder
		cmd := croft(t, data, "ws", "exec", "box", "--", "sh", "-c", "echo ready; sleep 1000")
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		cmd.Wait() // its status is that of the command
		if got, want := cmd.ProcessState.ExitCode(), 137; got != want {
			t.Errorf("exit status %d, want %d", got, want)
		}
		if got, want := errs.String(), "croft: the command was killed: canceled\n"; got != want {
			t.Errorf("standard error is %q, want %q", got, want)
		}
	}
}

// TestRunSeesDirectories proves what of several directories of the host a run
// sees, and which of them it may change.
func TestRunSeesDirectories(t *testing.T) {
	data, host := filepath.Join(t.TempDir(), "data"), t.TempDir()
	for _, dir := range []string{"work", "more/.git/hooks", "read", "hidden"} {
		if err := os.MkdirAll(filepath.Join(host, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(host, name) }
	script := `pwd; touch here ../more/here; touch ../read/no 2>/dev/null || echo read-only; touch ../more/.git/hooks/no; ls ..`
	out, err := croft(t, data, "run", "--rw", at("work"), "--rw", at("more"), "--ro", at("read"), "--", "sh", "-c", script).CombinedOutput()
	want := at("work") + "\nread-only\nmore\nread\nwork\n"
	if err != nil || string(out) != want {
		t.Errorf("got %s, %v; want %s", out, err, want)
	}
	if _, err := os.Lstat(at("more/.git/hooks/no")); err == nil {
		t.Error("a hook of the host was made")
	}
	for _, name := range []string{"work/here", "more/here"} {
		if info, err := os.Stat(at(name)); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("%s: %v, %v; want a file of this user", name, info, err)
		}
	}
	link := at("link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--rw", at("work"), "--ro", "/etc"}, {"--rw", at("work"), "--ro", link}, {"--rw", at("work"), "--ro", at("work")},
		{"--rw", host, "--ro", at("read")}, {"--rw", at("work"), "--ro", at("nowhere")}, {"--rw", at("work"), "--rw", data},
		{"--provider", "shelltest", "--rw", at("work"), "--ro", at("read")},
	} {
		cmd := croft(t, data, append(append([]string{"run"}, args...), "--", "true")...)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 125 {
			t.Errorf("%v: %v, %s; want it refused", args, err, out)
		}
	}
}

// TestRunDoesNotWaitForInput proves that a command starts, and its run ends,
// although nobody writes to or closes the standard input.
func TestRunDoesNotWaitForInput(t *testing.T) {
	cmd := croft(t, filepath.Join(t.TempDir(), "data"), "run", "--", "echo", "done")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.Output()
	if err != nil || string(out) != "done\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// cgroups returns the control groups of the workspaces that a data directory ever
// had, as its events tell.
func cgroups(t *testing.T, data string) []string {
	t.Helper()
	events, err := os.ReadFile(filepath.Join(data, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	known := string(events)
	var left []string
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // groups come and go
		}
		if id := workspaceID.FindString(e.Name()); id != "" && strings.Contains(known, id) {
			left = append(left, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

var workspaceID = regexp.MustCompile(`[a-z0-9]{20}`)

// TestKilledRunsLeaveNothing kills runs without notice, at moments that differ,
// and looks for what is left once the next run has swept: processes, mounts,
// control groups, directories and records.
func TestKilledRunsLeaveNothing(t *testing.T) {
	base := t.TempDir()
	data := filepath.Join(base, "data")
	mark := fmt.Sprintf("CROFT_KILLED_RUN=%d-%d", os.Getpid(), time.Now().UnixNano())
	for round := range 20 {
		cmd := croft(t, data, "run", "--memory", "256M", "--best-effort", "--env", mark, "--allow-net", "example.com", "--", "bash", "-c", "echo started; setsid sleep 1000 & sleep 1000")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 { // when it runs; else somewhere on the way there
			if line, _ := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
				t.Fatalf("the command of round %d says %q: %s", round, line, &errs)
			}
		} else {
			time.Sleep(time.Duration(round) * 4 * time.Millisecond)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
	}
	gone := func() []string {
		left := cgroups(t, data)
		if out, err := croft(t, data, "run", "--", "true").CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("the next run: %v, %s", err, out)
		}
		entries, err := os.ReadDir(filepath.Join(data, "ws"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".lock") {
				left = append(left, e.Name())
			}
		}
		if list, err := croft(t, data, "ws", "list", "--json").Output(); err != nil || strings.Contains(string(list), `"id"`) {
			left = append(left, "records "+string(list))
		}
		procs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range procs {
			if env, err := os.ReadFile(name); err == nil && bytes.Contains(env, []byte(mark)) {
				left = append(left, "process "+name)
			}
		}
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(mounts), base) {
			left = append(left, "a mount below "+base)
		}
		return left
	}
	deadline := time.Now().Add(patience)
	for left := gone(); len(left) > 0; left = gone() {
		if time.Now().After(deadline) {
			t.Fatalf("what was killed left %v", left)
		}
		time.Sleep(time.Second)
	}
}

// TestRunSweepsOrphansAlone lets a run sweep, which costs time, if there is the directory
// of a workspace without a record, and not for other directories such as those of journals.
func TestRunSweepsOrphansAlone(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	run := func() {
		t.Helper()
		if out, err := croft(t, data, "run", "--", "true").CombinedOutput(); err != nil {
			t.Fatalf("run: %v\n%s", err, out)
		}
	}
	run()
	old := time.Now().Add(-time.Hour)
	ws := filepath.Join(data, "ws")
	// A sweep removes it; being new, it does not start one.
	fresh := filepath.Join(ws, ".dead-sandbox-freshfreshfreshfresh")
	for _, dir := range []string{filepath.Join(ws, ".journals"), fresh} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(ws, ".journals"), old, old); err != nil {
		t.Fatal(err)
	}
	run()
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the directory of journals started a sweep: %v", err)
	}
	if err := os.Chtimes(fresh, old, old); err != nil {
		t.Fatal(err)
	}
	run()
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("an orphan is there after a run: %v", err)
	}
}
