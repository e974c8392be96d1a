package openfiles_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/croft-run/croft/internal/openfiles"
)

const tellEnv = "CROFT_TEST_TELL"

func TestMain(m *testing.M) {
	if os.Getenv(tellEnv) != "" {
		l, ok := openfiles.Given()
		if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"given": l, "known": ok}); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestGiven: it is what the process began with, not what Go made of it.
func TestGiven(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		if _, ok := openfiles.Given(); ok {
			t.Error("it is known here")
		}
		return
	}
	for script, want := range map[string]openfiles.Limit{
		`ulimit -Sn 100; ulimit -Hn 512; exec "$0"`: {Cur: 100, Max: 512},
		`ulimit -Sn 333; ulimit -Hn 333; exec "$0"`: {Cur: 333, Max: 333},
	} {
		cmd := exec.Command("sh", "-c", script, os.Args[0])
		cmd.Env = append(os.Environ(), tellEnv+"=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Given openfiles.Limit
			Known bool
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !got.Known || got.Given != want {
			t.Errorf("%s: got %+v, want %+v", script, got, want)
		}
	}
}
