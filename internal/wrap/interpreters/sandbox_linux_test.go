package interpreters_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/croft-run/croft/provider/sandbox"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

func TestConformanceOverASandbox(t *testing.T) {
	checks(t)
	workspacetest.Run(t, workspacetest.Harness{Provider: func(t testing.TB, dir string) driver.Provider {
		inner, err := sandbox.New(&sandbox.Config{Root: filepath.Join(dir, "ws")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inner.Probe(t.Context()); err != nil {
			t.Skipf("skipped: host: it lacks what a sandbox needs: %v", err)
		}
		if c, ok := driver.Provider(inner).(io.Closer); ok {
			t.Cleanup(func() { _ = c.Close() })
		}
		return wrapped(t, inner)
	}})
}
