//go:build unix

package workcmd

import (
	"io"
	"reflect"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/workspace/driver"
)

type panicView struct{}

func (panicView) frame(driver.Size) []string { panic("test") }

func (panicView) key(string) bool { return true }

// TestScreenIsRestoredAfterAPanic: the alternate screen is left, and the terminal echoes.
func TestScreenIsRestoredAfterAPanic(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer tty.Close()
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		a := &command{&console.Console{Streams: console.Streams{In: tty, Out: tty, Err: tty}}}
		_ = a.showScreen(t.Context(), panicView{}, nil)
	}()
	after, err := term.GetState(int(tty.Fd()))
	if err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal is in the state %v, %v, want %v", after, err, before)
	}
	text := make([]byte, len(enterScreen+leaveScreen))
	if _, err := io.ReadFull(master, text); err != nil || string(text) != enterScreen+leaveScreen {
		t.Errorf("the terminal got %q, %v", text, err)
	}
}
