package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
)

func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'o', 'k', 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 1 << 10
		got, err := readMessage(bytes.NewReader(data), most)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeMessage(&again, got); err != nil || len(got) > most || !bytes.HasPrefix(data, again.Bytes()) {
			t.Errorf("%q was read from %q, %v", got, data, err)
		}
	})
}

// TestConverseTellsWhyAGuestCantServe plays guests that do not come up.
func TestConverseTellsWhyAGuestCantServe(t *testing.T) {
	wire, err := json.Marshal(fault.Encode(fault.ResourceExhausted))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		play func(conn net.Conn)
		want string
		code fault.Code
	}{
		"an error":      {func(c net.Conn) { writeMessage(c, wire) }, "resource", fault.Failed},
		"words":         {func(c net.Conn) { writeMessage(c, []byte("no")) }, `"no"`, fault.Failed},
		"its end":       {func(net.Conn) {}, "ended", fault.Unavailable},
		"a huge report": {func(c net.Conn) { c.Write([]byte{0xff, 0, 0, 0}) }, "bytes", fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				if _, err := readMessage(theirs, maxConfig); err == nil {
					test.play(theirs)
				}
			}()
			_, err := Converse(t.Context(), ours, Config{Version: "v", Workspace: "w"})
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
	if _, err := Converse(ctx, ours, Config{}); fault.Of(err) != fault.DeadlineExceeded {
		t.Errorf("a guest that says nothing gives %v, want %v", err, fault.DeadlineExceeded)
	}
}
