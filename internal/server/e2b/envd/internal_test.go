package envd

import (
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/provider/memory"
	"github.com/croft-run/croft/workspace"
)

// SetRetain changes how long ended processes are kept.
func (s *Server) SetRetain(d time.Duration) { s.retain = d }

// memoryCall is a call on a workspace in memory, which has no shell.
func memoryCall(t testing.TB) *sandboxCall {
	t.Helper()
	ws, err := workspace.NewMux(new(memory.Provider)).Open(t.Context(), workspace.Spec{Kind: memory.Kind, ID: workspace.NewID()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &sandboxCall{Sandbox: Sandbox{ID: ws.ID(), Workspace: ws, Workdir: "work"}, box: New(Config{}).box(ws.ID())}
}

func TestLocate(t *testing.T) {
	c := memoryCall(t)
	for p, want := range map[string]location{
		"":                 {abs: "/home/user/work", name: "work"},
		".":                {abs: "/home/user", name: "."},
		"~":                {abs: "/home/user", name: "."},
		"~/x":              {abs: "/home/user/x", name: "x"},
		"~x":               {abs: "/home/user/~x", name: "~x"},
		"a/../b//c":        {abs: "/home/user/b/c", name: "b/c"},
		"/home/user":       {abs: "/home/user", name: "."},
		"/home/user/../..": {abs: "/", outside: true},
		"/home/username/x": {abs: "/home/username/x", outside: true},
		"../other":         {abs: "/home/other", outside: true},
		"/../../etc":       {abs: "/etc", outside: true},
		"/home/user/./f/":  {abs: "/home/user/f", name: "f"},
	} {
		if got, err := c.locate(p); err != nil || got != want {
			t.Errorf("%q is %+v, %v; want %+v", p, got, err, want)
		}
	}
}

func FuzzLocate(f *testing.F) {
	c := memoryCall(f)
	f.Add("~/../../x")
	f.Add("//home/user/\xff")
	f.Fuzz(func(t *testing.T, p string) {
		l, err := c.locate(p)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("%q: %v", p, err)
			}
			return
		}
		if !path.IsAbs(l.abs) || path.Clean(l.abs) != l.abs || l.outside != (l.name == "") {
			t.Fatalf("%q is %+v", p, l)
		}
		if !l.outside {
			if _, err := c.Workspace.Clean(l.name); err != nil && fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("%q is %+v: %v", p, l, err)
			}
		}
	})
}

// FuzzParse parses what programs inside may forge.
func FuzzParse(f *testing.F) {
	f.Add([]byte("f\x00f\x005\x00644\x00user\x00user\x001.5\x00\x00name\x00"))
	f.Add([]byte("4096\n100\n2\n1000\n1000 10\n1 (a b) S 0 0 0 0 0 0 0 0 0 0 5 6 0 0 0 0 0 0 0 0 7\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if list, err := parseEntries("/x", data); err == nil {
			for _, e := range list {
				e.message()
			}
		} else if fault.Of(err) != fault.Failed {
			t.Fatal(err)
		}
		if m, _, err := parseMetrics(string(data)); err == nil && (m.MemUsed < 0 || m.DiskUsed < 0) {
			t.Fatalf("got %+v", m)
		}
	})
}

// FuzzFiles makes requests for files of a workspace in memory.
func FuzzFiles(f *testing.F) {
	c := memoryCall(f)
	s := New(Config{})
	f.Add("POST", "path=a", "multipart/form-data; boundary=b", "", "", "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x/y\"\r\n\r\nhello\r\n--b--\r\n")
	f.Add("POST", "path=a&username=root", "application/octet-stream", "gzip", "", "\x1f\x8b\x08\x00")
	f.Add("GET", "path=a&signature=v1_x&signature_expiration=9", "", "", "bytes=0-1", "")
	f.Fuzz(func(t *testing.T, method, query, kind, encoding, ranges, body string) {
		if method != http.MethodPost {
			method = http.MethodGet
		}
		r := httptest.NewRequestWithContext(t.Context(), method, "/files", strings.NewReader(body))
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Content-Encoding", encoding)
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("Range", ranges)
		r.Header.Set("X-Metadata-"+kind, ranges)
		w := httptest.NewRecorder()
		s.ServeEnvd(w, r, c.Sandbox)
		if w.Code >= 500 && w.Code != http.StatusNotImplemented && w.Code != http.StatusInsufficientStorage {
			t.Fatalf("%s %q: %d %s", method, query, w.Code, w.Body)
		}
	})
}
