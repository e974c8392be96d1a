package e2b

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
)

// servePort passes a request on to a program that listens in the sandbox, WebSocket
// included. The program sees none of the sandbox's tokens.
func (s *Server) servePort(w http.ResponseWriter, r *http.Request, box sandbox, ws *workspace.Workspace, port int) {
	target := &url.URL{Scheme: "http", Host: net.JoinHostPort("localhost", strconv.Itoa(port))}
	// One request per connection: the sandbox may be paused or end at any time.
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return ws.Dial(ctx, port) },
		DisableKeepAlives: true, DisableCompression: true,
	}
	proxy := httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.SetXForwarded()
			p.Out.Host = p.In.Host
			if box.MaskHost != "" {
				p.Out.Host = strings.ReplaceAll(box.MaskHost, "${PORT}", strconv.Itoa(port))
			}
			for _, header := range []string{trafficHeader, idHeader, portHeader} {
				p.Out.Header.Del(header)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			switch {
			case r.Context().Err() != nil:
				return
			case fault.Of(err) == fault.Unsupported:
				s.writeError(w, r, err)
			default:
				writeGone(w, box.ID, "The sandbox is running but port is not open", port)
			}
		},
	}
	proxy.ServeHTTP(w, r)
}
