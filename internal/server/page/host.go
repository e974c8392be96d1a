package page

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/server/httpguard"
)

const hostPath = "/page/host"

// Host is the answer of /page/host: what the commands that the page shows need to reach this
// server. It needs no key, since the page shows the command that makes one.
type Host struct {
	Local   bool   `json:"local"`             // the browser is on the server's host
	Data    string `json:"data,omitempty"`    // data directory, where Local
	Config  string `json:"config,omitempty"`  // configuration file that a command names, where Local
	Default bool   `json:"default,omitempty"` // croft uses Data without --data, unless the environment says otherwise
}

// serveHost tells a browser on this host where the data directory is, and others nothing.
func (s *Server) serveHost(w http.ResponseWriter, r *http.Request) {
	err := s.cfg.Guard.CheckHost(r.Host)
	if err == nil {
		err = httpguard.CheckOrigin(r)
	}
	if err == nil {
		err = checkPage(r)
	}
	if err == nil && r.Method != http.MethodGet && r.Method != http.MethodHead {
		err = fmt.Errorf("%.20s %s: %w: the route takes GET", r.Method, hostPath, fault.InvalidArgument)
	}
	if err != nil {
		s.writeError(w, err)
		return
	}
	var out Host
	if s.cfg.Data != "" && isLocal(r) {
		out = Host{Local: true, Data: s.cfg.Data, Config: s.cfg.File}
		if home, err := os.UserHomeDir(); err == nil {
			out.Default = s.cfg.Data == filepath.Join(home, ".local", "share", "croft")
		}
	}
	writeJSON(w, http.StatusOK, out)
}

// isLocal reports whether a browser on this host made a request: over loopback, under a name of
// loopback, and not through a proxy.
func isLocal(r *http.Request) bool {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(from)
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	return ip != nil && ip.IsLoopback() && isLoopbackName(r.Host)
}
