package guest

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto"
)

// TestStartStdioReturnsWhyAGuestCantServe plays guests that do not come up.
func TestStartStdioReturnsWhyAGuestCantServe(t *testing.T) {
	wire, err := json.Marshal(fault.Encode(fault.ResourceExhausted))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		play func(conn net.Conn)
		want string
		code fault.Code
	}{
		"an error":      {func(c net.Conn) { guestproto.WriteMessage(c, wire) }, "resource", fault.Failed},
		"words":         {func(c net.Conn) { guestproto.WriteMessage(c, []byte("no")) }, `"no"`, fault.Failed},
		"its end":       {func(net.Conn) {}, "ended", fault.Unavailable},
		"a huge report": {func(c net.Conn) { c.Write([]byte{0xff, 0, 0, 0}) }, "bytes", fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := guestproto.ReadMessage(theirs, 1<<20); err == nil {
					test.play(theirs)
				}
			}()
			_, err := StartStdio(t.Context(), ours, guestproto.Config{Version: "v", Workspace: "w"})
			if fault.Of(err) != test.code || !strings.Contains(strings.ToLower(err.Error()), test.want) {
				t.Errorf("got %v, want %v with %q", err, test.code, test.want)
			}
		})
	}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go io.Copy(io.Discard, theirs) // it listens and says nothing
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := StartStdio(ctx, ours, guestproto.Config{}); fault.Of(err) != fault.DeadlineExceeded {
		t.Errorf("a guest that says nothing gives %v, want %v", err, fault.DeadlineExceeded)
	}
}
