package cli_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/provider/docker"
)

// TestGCRemovesKilledRunsInContainers kills runs without notice, and looks for what
// is left once gc has been: records, directories, containers and volumes.
//
//croft:slow
func TestGCRemovesKilledRunsInContainers(t *testing.T) {
	testenv.NeedsDocker(t)
	d, err := testenv.StartDockerd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("stop dockerd: %v", err)
		}
	})
	t.Setenv("DOCKER_HOST", d.Host())
	data := t.TempDir()
	settings := "version: 1\nproviders:\n  away: {kind: docker, options: {files: volume}}\n"
	if err := os.WriteFile(filepath.Join(data, "croft.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, provider := range []string{"docker", "away"} {
		cmd := croft(t, data, "run", "--provider", provider, "--", "sh", "-c", "echo started; sleep 1000")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, _ := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
			t.Errorf("%s: the command says %q: %s", provider, line, &said)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	if out, err := croft(t, data, "gc").CombinedOutput(); err != nil {
		t.Fatalf("gc: %v, %s", err, out)
	}
	var list []any
	out, err := croft(t, data, "ws", "list", "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil || len(list) > 0 {
		t.Errorf("there are records: %s, %v", out, err)
	}
	if left, err := filepath.Glob(filepath.Join(data, "ws", "[a-z0-9]*")); err != nil || len(left) > 0 {
		t.Errorf("there are directories: %v, %v", left, err)
	}
	e, err := docker.Connect(d.Host())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if left, err := e.List(t.Context(), map[string]string{docker.LabelWorkspace: ""}); err != nil || len(left) > 0 {
		t.Errorf("there are containers: %+v, %v", left, err)
	}
	if left, err := e.Volumes(t.Context(), nil); err != nil || len(left) > 0 {
		t.Errorf("there are volumes: %+v, %v", left, err)
	}
}
