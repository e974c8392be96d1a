//go:build unix

package testenv

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// terminalTime is after how long a program on a terminal is taken for one that hangs.
const terminalTime = time.Minute

// A Terminal is a program on a pseudo-terminal.
type Terminal struct {
	Cmd   *exec.Cmd
	File  *os.File      // the side of the terminal
	Ended chan struct{} // closed when the program has ended
	Err   error         // of its end, when Ended is closed

	t testing.TB

	mu  sync.Mutex
	out bytes.Buffer // guarded by mu
}

// StartTerminal starts a command on a pseudo-terminal of the given size, and kills it at the
// end of the test.
func StartTerminal(t testing.TB, cmd *exec.Cmd, rows, cols uint16) *Terminal {
	t.Helper()
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: rows, Cols: cols})
	if err != nil {
		t.Fatal(err)
	}
	m := &Terminal{Cmd: cmd, File: file, Ended: make(chan struct{}), t: t}
	var all sync.WaitGroup
	all.Go(m.read)
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-m.Ended
		file.Close()
		all.Wait()
	})
	go func() { // ends with the program
		m.Err = cmd.Wait()
		close(m.Ended)
	}()
	return m
}

// read keeps what the program writes, and answers what programs ask a terminal: the
// cursor's position, and which one it is.
func (m *Terminal) read() {
	for buf := make([]byte, 4096); ; {
		n, err := m.File.Read(buf)
		m.mu.Lock()
		m.out.Write(buf[:n])
		m.mu.Unlock()
		for ask, answer := range map[string]string{"\x1b[6n": "\x1b[1;1R", "\x1b[c": "\x1b[?62c"} {
			if bytes.Contains(buf[:n], []byte(ask)) {
				_, _ = io.WriteString(m.File, answer) // the program may have ended
			}
		}
		if err != nil {
			return
		}
	}
}

// Text returns all that was written to the terminal.
func (m *Terminal) Text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.out.String()
}

// Last returns the end of Text, for messages.
func (m *Terminal) Last() string {
	const most = 3000
	text := m.Text()
	return text[max(0, len(text)-most):]
}

// WaitFor waits until what was shown meets a condition, and reports whether it did.
func (m *Terminal) WaitFor(within time.Duration, met func(shown string) bool) bool {
	m.t.Helper()
	for end := time.Now().Add(within); !met(m.Text()); time.Sleep(50 * time.Millisecond) {
		if !time.Now().Before(end) {
			m.t.Errorf("after %v the terminal shows %q", within, m.Last())
			return false
		}
		select {
		case <-m.Ended:
			end = time.Now().Add(-time.Second) // its output may still be on the way
			time.Sleep(100 * time.Millisecond)
		default:
		}
	}
	return true
}

// Shows waits until the terminal shows a text.
func (m *Terminal) Shows(text string) {
	m.t.Helper()
	if !m.WaitFor(terminalTime, func(shown string) bool { return strings.Contains(shown, text) }) {
		m.t.Fatalf("it does not show %q", text)
	}
}

// Types writes to the terminal what a user types.
func (m *Terminal) Types(text string) {
	m.t.Helper()
	if _, err := io.WriteString(m.File, text); err != nil {
		m.t.Fatal(err)
	}
}

// Ends waits for the end of the program, and returns its error.
func (m *Terminal) Ends() error {
	m.t.Helper()
	select {
	case <-m.Ended:
	case <-time.After(terminalTime):
		m.t.Fatalf("it does not end: %q", m.Last())
	}
	return m.Err
}

// Interrupt presses ctrl-c until the program ends.
func (m *Terminal) Interrupt() {
	m.t.Helper()
	for end := time.Now().Add(terminalTime); ; {
		select {
		case <-m.Ended:
			return
		case <-time.After(400 * time.Millisecond):
		}
		if time.Now().After(end) {
			m.t.Errorf("it does not end: %q", m.Last())
			return
		}
		_, _ = io.WriteString(m.File, "\x03") // it may have ended
	}
}
