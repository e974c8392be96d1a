package e2b

import (
	"net/http"

	"github.com/croft-run/croft/internal/server/httplog"
	"github.com/croft-run/croft/internal/server/portproxy"
	"github.com/croft-run/croft/workspace"
)

// servePort passes a request on to a program that listens in the sandbox. Keys of this server and
// the sandbox's access token are left out, wherever a client sends them.
func (s *Server) servePort(w http.ResponseWriter, r *http.Request, box sandbox, ws *workspace.Workspace, port int) {
	httplog.SetRoute(r.Context(), "port/")
	credentials := s.cfg.Guard.KeyHeaders(r)
	if s.hasToken(r, "X-Access-Token", envdPurpose, box.ID) {
		credentials = append(credentials, "X-Access-Token")
	}
	portproxy.Handler(portproxy.Target{ID: box.ID, Port: port, Dial: ws.Dial, Host: box.MaskHost, Credentials: credentials}).ServeHTTP(w, r)
}
