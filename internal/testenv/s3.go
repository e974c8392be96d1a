package testenv

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// NeedsS3 starts a server that speaks S3 (versitygw, which scripts/deps installs)
// over a directory of its own until the test ends, and returns the URL of an empty
// bucket on it, as gocloud.dev/blob takes it. The credentials are in the
// environment of the test.
func NeedsS3(t testing.TB) string {
	t.Helper()
	program := lookProgram("versitygw")
	if program == "" {
		t.Skip("skipped: host: versitygw, a server that speaks S3, is not installed: scripts/deps installs it")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "snapshots"), 0o755); err != nil {
		t.Fatal(err)
	}
	address, err := Loopback()
	if err != nil {
		t.Fatal(err)
	}
	const access, secret = "croft-access", "croft-secret"
	cmd := exec.Command(program, "--access", access, "--secret", secret, "--port", address, "posix", filepath.Join(dir, "data")) //nolint:noctx // it ends below
	cmd.SysProcAttr = dieWithParent(syscall.SIGKILL)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := startChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
		<-ended
	})
	for till := time.Now().Add(startTimeout); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + address) //nolint:noctx // it answers at once, or not at all
		if err == nil {
			res.Body.Close()
			break
		}
		gone := false
		select {
		case <-ended:
			gone = true
		default:
		}
		if gone || time.Now().After(till) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("versitygw does not answer: %v\n%s", err, text)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secret)
	return fmt.Sprintf("s3://snapshots?region=us-east-1&endpoint=http://%s&use_path_style=true&disable_https=true", address)
}
