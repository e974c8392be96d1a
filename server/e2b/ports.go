package e2b

import (
	"net/http"

	"github.com/croft-run/croft/workspace"
)

// servePort passes a request on to a program that listens in the sandbox.
func (s *Server) servePort(w http.ResponseWriter, r *http.Request, box sandbox, ws *workspace.Workspace, port int) {
	writeGone(w, box.ID, "The sandbox is running but port is not open", port)
}
