package eval_test

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/eval"
	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// TestThePlainHostHasNoLimits asks for each limit, which is refused, and for each as
// best effort.
func TestThePlainHostHasNoLimits(t *testing.T) {
	for _, r := range driver.Resources {
		req := eval.EnvSpec{Dir: t.TempDir(), InPlace: true, Limits: driver.Limits{r.Name: {Max: 1 << 30}}}
		_, err := eval.Host{}.Open(t.Context(), req)
		if fault.Of(err) != fault.Unsupported || !strings.Contains(err.Error(), "limit "+string(r.Name)) {
			t.Errorf("limit %s gives %v, want Unsupported with its name", r.Name, err)
		}
		req.Limits[r.Name] = driver.Limit{Max: 1 << 30, BestEffort: true}
		if _, err := (eval.Host{}).Open(t.Context(), req); err != nil {
			t.Errorf("limit %s as best effort gives %v", r.Name, err)
		}
	}
}
