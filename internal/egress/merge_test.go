package egress

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/testenv"
)

// TestAttackRefusalFlood makes many refused requests, which must not fill the audit stream.
func TestAttackRefusalFlood(t *testing.T) {
	testenv.ReportAttack(t, "flood of refused network requests", "egress proxy", testenv.Prevented, "merged in the audit stream")
	w := newWorld(t, allow("a.test"), nil)
	const many = 500
	client := w.client()
	get := func(u string) int {
		resp, err := client.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body) // so that the connection is used again
		resp.Body.Close()
		return resp.StatusCode
	}
	for i := range many {
		get("http://b.test/")
		get(fmt.Sprintf("http://%d.test/", i))
	}
	client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.p.WaitIdle(ctx); err != nil {
		t.Fatal(err)
	}
	// b.test, the other kinds, and one event for what was counted of each of both.
	events := w.events(maxRefusals + 2)
	total := int64(0)
	for _, f := range events {
		if f["verdict"] != event.VerdictDeny {
			t.Errorf("event %v", f)
		}
		if n, merged := f[event.FieldCount].(int64); merged {
			total += n
			continue
		}
		total++
	}
	if total != 2*many {
		t.Errorf("%d events stand for %d refusals, want %d", len(events), total, 2*many)
	}
	if status := get("http://c.test/"); status != http.StatusForbidden {
		t.Errorf("after it: %d", status)
	}
	w.events(maxRefusals + 3)
}
