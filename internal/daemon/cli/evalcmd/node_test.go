package evalcmd

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/testenv"
)

// TestNodeOnAHostWithoutASandbox: Node leaves the sandbox only if the user named another provider,
// and croft says so.
func TestNodeOnAHostWithoutASandbox(t *testing.T) {
	testenv.NeedsProgram(t, "node")
	lacks := fmt.Errorf("this host isolates nothing: %w", fault.Unsupported)
	start := suite.NodeStart{Args: []string{"-e", "0"}, Tmp: t.TempDir()}
	for provider, runs := range map[string]bool{"": false, "sandbox": false, "local": true, "docker": true} {
		var said bytes.Buffer
		a := &command{&console.Console{Streams: console.Streams{Err: &said}}}
		p, err := a.startNodeWithout(t.Context(), provider, start, lacks)
		if runs != (err == nil) || runs != strings.Contains(said.String(), "runs without a sandbox: this host isolates nothing") {
			t.Errorf("provider %q: %v, said %q", provider, err, said.String())
		}
		if err == nil {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		} else if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "--provider local") {
			t.Errorf("provider %q: %v, want unsupported with the way out", provider, err)
		}
	}
}
