package e2b

import (
	"net/http"

	"github.com/croft-run/croft/server/portproxy"
	"github.com/croft-run/croft/workspace"
)

// servePort passes a request on to a program that listens in the sandbox.
func servePort(w http.ResponseWriter, r *http.Request, box sandbox, ws *workspace.Workspace, port int) {
	portproxy.Handler(portproxy.Target{ID: box.ID, Port: port, Dial: ws.Dial, Host: box.MaskHost}).ServeHTTP(w, r)
}
