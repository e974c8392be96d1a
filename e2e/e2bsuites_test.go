package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/testenv"
)

// suiteDomain is the domain of the server in E2B's own tests.
const suiteDomain = "croft.test"

// suitesTable has the tests of E2B's suites that fail here, with the reasons.
const suitesTable = "e2e/testdata/e2b/suites.txt"

// A suite is a test suite of E2B.
type suite struct {
	dir  string // of the package in its repository
	dev  []string
	need func(t testing.TB)
}

var suites = map[string]suite{
	"E2B":              {"packages/js-sdk", []string{"vitest", "msw", "dotenv", "error-stack-parser-es"}, func(testing.TB) {}},
	"code-interpreter": {"js", []string{"vitest", "dotenv"}, func(t testing.TB) { testenv.NeedsJupyter(t) }},
}

// TestE2BSuites runs E2B's own tests for JavaScript, unchanged, against croft up: those of the
// repositories below $E2B_SUITES (checkouts or bare ones). A test that fails and is not in
// suites.txt is an error, and so is one that passes and is there.
func TestE2BSuites(t *testing.T) {
	repositories := os.Getenv("E2B_SUITES")
	if repositories == "" {
		t.Skip("skipped: no E2B_SUITES: it names a directory with E2B and code-interpreter, the repositories of e2b-dev; make test-e2b needs it")
	}
	node := testenv.NeedsProgram(t, "node")
	known := readSuitesTable(t)
	data := t.TempDir()
	certificate := writeCertificate(t, t.TempDir())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().(*net.TCPAddr)
	free.Close()
	writeConfig(t, data, fmt.Sprintf("version: 1\nserver:\n  domain: %s:%d\n  hosts: [%s, api.%s]\n  tls: {cert: %s, key: %s.key}\n",
		suiteDomain, addr.Port, suiteDomain, suiteDomain, certificate, certificate))
	server := startUpAt(t, buildCroft(t), data, addr.String())
	create := []string{"key", "create", "--data", data, "--tenant", "suites", "--scope", "admin"}
	key, err := exec.CommandContext(t.Context(), filepath.Join(server.bin, "croft"), create...).Output()
	if err != nil {
		t.Fatal(err)
	}
	resolve, err := filepath.Abs("e2e/testdata/e2b/suites.resolve.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range suites {
		t.Run(name, func(t *testing.T) {
			s.need(t)
			dir := extractSuite(t, filepath.Join(repositories, name), s, name)
			report := filepath.Join(t.TempDir(), "report.json")
			config, err := filepath.Abs("e2e/testdata/e2b/suites.vitest.mjs")
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"node_modules/vitest/vitest.mjs", "run", "--config", config, "--root", dir, "--reporter=json", "--outputFile=" + report}
			cmd := exec.CommandContext(t.Context(), node, args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "CROFT_SUITE="+name, "CROFT_DOMAIN="+suiteDomain, fmt.Sprintf("E2B_DOMAIN=%s:%d", suiteDomain, addr.Port),
				"E2B_API_KEY="+strings.TrimSpace(string(key)), "NODE_EXTRA_CA_CERTS="+certificate, "NODE_OPTIONS=--import=file://"+resolve)
			out, runErr := cmd.CombinedOutput() // its status is 1 if a test fails
			got, passed := readReport(t, report, dir)
			if passed == 0 {
				t.Fatalf("no test passed: %v\n%s", runErr, out)
			}
			t.Logf("%s: %d tests passed, %d did not", name, passed, len(got)-passed)
			for _, wrong := range compareSuite(got, known[name]) {
				t.Error(wrong)
			}
		})
	}
}

// A knownTest is a test in suites.txt.
type knownTest struct {
	reason string
	either bool // it depends on the host whether it fails
}

// readSuitesTable reads suites.txt: the suites, and below "# REASON" the tests that fail for it; below
// "? REASON" they may pass, too.
func readSuitesTable(t *testing.T) map[string]map[string]knownTest {
	t.Helper()
	text, err := os.ReadFile(suitesTable)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]map[string]knownTest{}
	var name string
	var now knownTest
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "= "):
			name = line[2:]
			known[name] = map[string]knownTest{}
		case strings.HasPrefix(line, "# "), strings.HasPrefix(line, "? "):
			now = knownTest{line[2:], line[0] == '?'}
		default:
			known[name][line] = now
		}
	}
	return known
}

// readReport returns what failed of a suite: "FILE > TEST" with the message, "" for one that passed. A
// file that could not be run is a test, too.
func readReport(t *testing.T, name, dir string) (got map[string]string, passed int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		TestResults []struct {
			Name, Status, Message string
			AssertionResults      []struct {
				FullName, Status string
				FailureMessages  []string
			}
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	got = map[string]string{}
	for _, file := range report.TestResults {
		short := strings.TrimPrefix(file.Name, filepath.Join(dir, "tests")+"/")
		if file.Status == "failed" && len(file.AssertionResults) == 0 {
			got[short] = file.Message
		}
		for _, a := range file.AssertionResults {
			test := short + " > " + strings.Join(strings.Fields(a.FullName), " ")
			switch message := strings.Join(a.FailureMessages, "\n"); {
			case a.Status == "failed":
				got[test] = message + " " // never ""
			case a.Status == "passed" && got[test] == "":
				got[test] = ""
			}
		}
	}
	for _, message := range got {
		if message == "" {
			passed++
		}
	}
	return got, passed
}

// compareSuite returns what differs from suites.txt.
func compareSuite(got map[string]string, known map[string]knownTest) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(got)) {
		row, listed := known[name]
		message, _, _ := strings.Cut(got[name], "\n    at ")
		switch {
		case message != "" && !listed:
			wrong = append(wrong, fmt.Sprintf("%s failed, and is not in %s: %.1000s", name, suitesTable, message))
		case message == "" && listed && !row.either:
			wrong = append(wrong, fmt.Sprintf("%s passed, and is in %s: %s", name, suitesTable, row.reason))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if _, ran := got[name]; !ran && !known[name].either {
			wrong = append(wrong, fmt.Sprintf("%s is in %s, and did not run", name, suitesTable))
		}
	}
	return wrong
}

// TestCompareSuite: every difference from suites.txt is an error, in both directions.
func TestCompareSuite(t *testing.T) {
	known := map[string]knownTest{"expected": {}, "passes": {}, "gone": {}, "host": {either: true}, "host passes": {either: true}, "host gone": {either: true}}
	got := map[string]string{"expected": "no", "passes": "", "new": "no", "host": "no", "host passes": "", "good": ""}
	var names []string
	for _, wrong := range compareSuite(got, known) {
		name, _, _ := strings.Cut(wrong, " ")
		names = append(names, name)
	}
	if want := []string{"new", "passes", "gone"}; !slices.Equal(names, want) {
		t.Errorf("wrong are %q, want %q", names, want)
	}
}

// extractSuite returns a copy of a suite of HEAD with its packages of npm, which are kept in the cache
// directory.
func extractSuite(t *testing.T, repository string, s suite, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("skipped: host: it lacks a cache directory for the packages of E2B's tests: %v", err)
	}
	dir := filepath.Join(cache, "croft", "e2b-suites", name)
	for _, part := range []string{"src", "tests"} {
		if err := os.RemoveAll(filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unpack := exec.CommandContext(t.Context(), "sh", "-c", `git -C "$1" archive "HEAD:$2" | tar -x -C "$3"`, "sh", repository, s.dir, dir)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s of %s: %v\n%s", s.dir, repository, err, out)
	}
	// Of the packages for development, those that the tests need.
	var pkg map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &pkg)
	}
	if err != nil {
		t.Fatal(err)
	}
	dev, _ := pkg["devDependencies"].(map[string]any)
	maps.DeleteFunc(dev, func(name string, _ any) bool { return !slices.Contains(s.dev, name) })
	if len(dev) != len(s.dev) {
		t.Fatalf("%s: of the packages %q, package.json has only %v", repository, s.dev, dev)
	}
	if text, err = json.Marshal(pkg); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, "node_modules", ".croft-package.json")
	if now, err := os.ReadFile(marker); err == nil && string(now) == string(text) {
		return dir
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	if err := os.WriteFile(marker, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeCertificate writes a certificate for suiteDomain and the names below it, and its key beside it
// with the suffix .key.
func writeCertificate(t *testing.T, dir string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{suiteDomain, "*." + suiteDomain},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "server.pem")
	err = os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600)
	if err == nil {
		err = os.WriteFile(name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}
