package lsp

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/testenv"
	"github.com/croft-run/croft/workspace"
)

// reads is the beginning of a server that is written in Python.
const reads = `#!/usr/bin/env python3
import json, os, sys, time
def read():
    n = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line: sys.exit(0)
        if line.strip() == b'': break
        if line.lower().startswith(b'content-length:'): n = int(line.split(b':')[1])
    return json.loads(sys.stdin.buffer.read(n))
def answer(m, result):
    data = json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': result}).encode()
    sys.stdout.buffer.write(b'Content-Length: %d\r\n\r\n' % len(data) + data); sys.stdout.buffer.flush()
`

// fake puts a server of the test into a workspace.
func fake(t *testing.T, program string) (*Set, *server, *workspace.Workspace) {
	t.Helper()
	testenv.NeedsProgram(t, "python3")
	ws, dir := open(t, map[string]string{"a.go": "package a\n", "server": program})
	path := filepath.Join(dir, "server")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return newSet(t, ws), &server{name: "fake", commands: [][]string{{path}}}, ws
}

func question(ctx context.Context, c *client, _ *document) error {
	return c.call(ctx, "textDocument/hover", map[string]any{}, nil)
}

// TestServersThatDoNotWork: whatever is wrong with a server, a question ends with an
// error that says so, and nothing is left running.
func TestServersThatDoNotWork(t *testing.T) {
	for name, tt := range map[string]struct{ program, want string }{
		"it ends at once":          {"#!/bin/sh\necho no licence >&2\nexit 3\n", "the language server ended: it said: no licence"},
		"it is no language server": {"#!/bin/sh\necho Welcome!\nexec sleep 600\n", `header "Welcome!"`},
		"it promises too much":     {"#!/bin/sh\nprintf 'Content-Length: 99999999999\\r\\n\\r\\n'\nexec sleep 600\n", "0 to 67108864 are allowed"},
		"it sends no JSON":         {"#!/bin/sh\nprintf 'Content-Length: 3\\r\\n\\r\\n<x>'\nexec sleep 600\n", "a message that is not JSON"},
		"it ends when it is asked": {reads + "answer(read(), {'capabilities': {}})\nwhile read().get('method') != 'textDocument/hover': pass\n", "the language server ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s, spec, ws := fake(t, tt.program)
			err := s.askServer(t.Context(), "a.go", spec, question)
			if fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			// It was tried twice. Now it is left alone for a while, which shall not be over
			// before the question is asked.
			rest(t, s, spec)
			if err := s.askServer(t.Context(), "a.go", spec, question); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), "ended 2 times in a row") {
				t.Errorf("then %v", err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
			list, err := ws.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range list {
				if one.Running {
					t.Errorf("left running: %+v", one)
				}
			}
		})
	}
}

// rest makes the pause after a server has failed twice as long as one could wish.
func rest(t *testing.T, s *Set, spec *server) {
	t.Helper()
	sl, err := s.slotFor(spec)
	if err != nil {
		t.Fatal(err)
	}
	sl.mu.Lock()
	defer sl.mu.Unlock()
	if sl.failures > 1 && sl.next.IsZero() {
		t.Error("it may be tried again at once")
	}
	if sl.failures > 1 {
		sl.next = time.Now().Add(time.Hour)
	}
}

// TestAServerThatHangsAtItsStart: the first question waits for it, and those that
// follow are told, until it is tried again.
func TestAServerThatHangsAtItsStart(t *testing.T) {
	s, spec, ws := fake(t, "#!/bin/sh\necho started >> starts\nexec sleep 600\n")
	s.startTimeout = time.Second
	const want = "the language server for fake did not answer within 1s when it was started; it is tried again in "
	starts := func() int {
		data, err := fs.ReadFile(ws.FS(), "starts")
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // it may not have come to that
			t.Fatal(err)
		}
		return strings.Count(string(data), "started")
	}
	for try := 1; try <= 2; try++ {
		if err := s.askServer(t.Context(), "a.go", spec, question); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want %q", err, want)
		}
		sl, err := s.slotFor(spec)
		if err != nil {
			t.Fatal(err)
		}
		sl.mu.Lock()
		sl.next = time.Now().Add(time.Hour) // not over before the next question
		sl.mu.Unlock()
		if err := s.askServer(t.Context(), "a.go", spec, question); fault.Of(err) != fault.Unavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("then %v", err)
		}
		if n := starts(); n > try {
			t.Errorf("it was started %d times, want %d at most", n, try)
		}
		sl.mu.Lock()
		sl.next = time.Time{}
		sl.mu.Unlock()
	}
}

// TestAServerThatDoesNotRead: one that hangs keeps nobody who has something to tell
// it, such as an edit, and a question ends with its context.
func TestAServerThatDoesNotRead(t *testing.T) {
	s, spec, ws := fake(t, reads+"answer(read(), {'capabilities': {}})\nwhile read().get('method') != 'textDocument/hover': pass\ntime.sleep(600)\n")
	ctx, cancel := context.WithCancel(t.Context())
	err := s.askServer(ctx, "a.go", spec, func(ctx context.Context, c *client, _ *document) error {
		cancel()
		return question(ctx, c, nil)
	})
	if fault.Of(err) != fault.Canceled {
		t.Errorf("the question ended with %v", err)
	}
	for i := range 5 { // more than a pipe holds
		if _, err := ws.WriteFile(t.Context(), "a.go", []byte("package a\n"+strings.Repeat("// long\n", 20000+i)), nil); err != nil {
			t.Fatal(err)
		}
		if err := s.NotifyChanged(t.Context(), "a.go"); err != nil {
			t.Errorf("touch: %v", err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
