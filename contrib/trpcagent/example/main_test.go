package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testshell"
)

func TestMain(m *testing.M) { testshell.Main(m) }

func TestExample(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(testshell.Guest(t))+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	err := run(t.Context(), &out)
	if err != nil && strings.Contains(err.Error(), "trpcagent: sandbox") {
		t.Skipf("skipped: host: it lacks what the sandbox needs: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "calls workspace_exec") || !strings.Contains(got, "There are 25") {
		t.Errorf("it said %q", got)
	}
}
