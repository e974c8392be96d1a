package interpreters_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croft-run/croft/internal/testshell"
	"github.com/croft-run/croft/internal/wrap/interpreters"
	"github.com/croft-run/croft/interp/isolate"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace/driver"
	"github.com/croft-run/croft/workspace/workspacetest"
)

// checks leaves those of code and scripts; the others are the provider's own.
func checks(t *testing.T) {
	all := workspacetest.Checks
	workspacetest.Checks = slices.DeleteFunc(slices.Clone(all), func(c workspacetest.Check) bool {
		return !strings.HasPrefix(c.Name, "Code/") && !strings.HasPrefix(c.Name, "Script/")
	})
	t.Cleanup(func() { workspacetest.Checks = all })
}

func wrapped(t testing.TB, inner driver.Provider) driver.Provider {
	engine := &isolate.Engine{}
	t.Cleanup(func() {
		if err := engine.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return interpreters.Wrap(inner, interpreters.Config{Engine: engine})
}

func TestConformanceOverMemory(t *testing.T) {
	checks(t)
	var p memory.Provider
	workspacetest.Run(t, workspacetest.Harness{Provider: func(t testing.TB, _ string) driver.Provider { return wrapped(t, &p) }})
}

//croft:slow
func TestConformanceOverAShell(t *testing.T) {
	checks(t)
	workspacetest.Run(t, workspacetest.Harness{Provider: func(t testing.TB, dir string) driver.Provider {
		inner, err := testshell.New(filepath.Join(dir, "shell"))
		if err != nil {
			t.Fatal(err)
		}
		return wrapped(t, inner)
	}})
}
