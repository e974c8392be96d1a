package cli_test

import (
	"io"
	"net/http"
	"os/exec"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// A server is a croft up that a script started.
type server struct {
	cmd  *exec.Cmd
	done chan error
}

// servers holds the one server of each script.
var servers = &serverMap{of: map[*testscript.TestScript]*server{}}

type serverMap struct {
	mu sync.Mutex
	of map[*testscript.TestScript]*server
}

func (m *serverMap) put(ts *testscript.TestScript, s *server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[ts] = s
}

func (m *serverMap) take(ts *testscript.TestScript) *server {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of[ts]
	if s == nil {
		ts.Fatalf("no server is up")
	}
	delete(m.of, ts)
	return s
}

func copyTo(w io.Writer, res *http.Response) error {
	_, err := io.Copy(w, res.Body)
	return err
}
