package envd_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
)

// A reply is an answer without its body.
type reply struct {
	StatusCode    int
	Header        http.Header
	ContentLength int64
}

// do makes a request; a header is "Name: value".
func (h *host) do(method, path, body string, header ...string) (reply, string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	if req.Header.Get("Accept-Encoding") == "" {
		req.Header.Set("Accept-Encoding", "identity") // without it Go asks for gzip and decodes it
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, res.ContentLength}, string(data)
}

func compressed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.String()
}

const auth = "X-Access-Token: " + token

// form returns a multipart body with files by name, and its content type.
func form(files ...[2]string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range files {
		part, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="file"; filename="%s"`, f[0])}})
		part.Write([]byte(f[1]))
	}
	w.WriteField("other", "ignored")
	w.Close()
	return b.String(), "Content-Type: " + w.FormDataContentType()
}

const octets = "Content-Type: application/octet-stream"

// A drainingBody is a body before which the server drains.
type drainingBody struct {
	io.Reader
	drain func()
}

func (b drainingBody) Read(p []byte) (int, error) {
	b.drain()
	return b.Reader.Read(p)
}

// TestUploadWhileDraining drains the server while it waits for the body of an upload.
//
//croft:race
func TestUploadWhileDraining(t *testing.T) {
	h := newHost(t)
	body := drainingBody{strings.NewReader("content"), h.srv.Drain}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/files?path=late", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("X-Access-Token", token)
	req.Header.Set("Expect", "100-continue") // the body is read when the server asks for it
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	got, err := h.box.Workspace.FS().ReadFile("late")
	if res.StatusCode != http.StatusOK || err != nil || string(got) != "content" {
		t.Errorf("the answer is %d %s, and the file has %q, %v", res.StatusCode, answer, got, err)
	}
	if late, text := h.do(http.MethodGet, "/files?path=late", "", auth); late.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "retry") {
		t.Errorf("a request that comes later: %d %s, want 503 with the word retry", late.StatusCode, text)
	}
}

func TestFilesOverHTTP(t *testing.T) {
	h := newHost(t)
	for _, base := range []string{"", "/tmp/"} {
		t.Run("write and read "+base, func(t *testing.T) {
			abs := base
			if abs == "" {
				abs = "/home/user/"
			}
			body, kind := form([2]string{base + "d/one", "1"}, [2]string{base + "d/two", "\x00\xff2"})
			res, text := h.do("POST", "/files", body, auth, kind)
			var list []struct{ Path, Name, Type string }
			if err := json.Unmarshal([]byte(text), &list); err != nil || res.StatusCode != 200 || len(list) != 2 || list[0].Path != abs+"d/one" || list[1].Name != "two" || list[1].Type != "file" {
				t.Fatalf("upload: %d %s", res.StatusCode, text)
			}
			if status, got := h.get("/files?path=" + base + "d/two"); status != 200 || got != "\x00\xff2" {
				t.Errorf("download: %d %q", status, got)
			}
			body, kind = form([2]string{"ignored", "named by the query"})
			if res, text := h.do("POST", "/files?path="+base+"q", body, auth, kind); res.StatusCode != 200 || !strings.Contains(text, abs+"q") {
				t.Errorf("upload: %d %s", res.StatusCode, text)
			}
			if res, text := h.do("POST", "/files?path="+base+"z", compressed("squeezed"), auth, octets, "Content-Encoding: gzip"); res.StatusCode != 200 {
				t.Errorf("upload of gzip: %d %s", res.StatusCode, text)
			}
			if _, got := h.get("/files?path=" + base + "z"); got != "squeezed" {
				t.Errorf("got %q", got)
			}
			res, got := h.do("GET", "/files?path="+base+"z", "", auth, "Accept-Encoding: gzip")
			z, err := gzip.NewReader(strings.NewReader(got))
			if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
				t.Fatal(err, res.Header)
			}
			if plain, _ := io.ReadAll(z); string(plain) != "squeezed" {
				t.Errorf("got %q", plain)
			}
			if res, text := h.do("POST", "/files?path="+base+"d", "x", auth, octets); res.StatusCode != 400 {
				t.Errorf("a directory: %d %s", res.StatusCode, text)
			}
			if res, text := h.do("POST", "/files?path="+base+"d/one/below", "x", auth, octets); res.StatusCode != 400 {
				t.Errorf("below a file: %d %s", res.StatusCode, text)
			}
			if status, text := h.get("/files?path=" + base + "d"); status != 400 || !strings.Contains(text, `"code":400`) {
				t.Errorf("a directory: %d %s", status, text)
			}
			if status, text := h.get("/files?path=" + base + "none"); status != 404 || !strings.Contains(text, `"message":`) {
				t.Errorf("a missing file: %d %s", status, text)
			}
			compose := `{"source_paths": ["` + base + `d/one", "` + base + `q"], "destination": "` + base + `joined"}`
			if res, text := h.do("POST", "/files/compose", compose, auth); res.StatusCode != 200 || !strings.Contains(text, abs+"joined") {
				t.Errorf("compose: %d %s", res.StatusCode, text)
			}
			if _, got := h.get("/files?path=" + base + "joined"); got != "1named by the query" {
				t.Errorf("joined: %q", got)
			}
			if status, _ := h.get("/files?path=" + base + "q"); status != 404 {
				t.Errorf("a source of a composed file is still there: %d", status)
			}
		})
	}
	t.Run("ranges", func(t *testing.T) {
		h.do("POST", "/files?path=r", "0123456789", auth, octets)
		res, got := h.do("GET", "/files?path=r", "", auth, "Range: bytes=2-4")
		if res.StatusCode != 206 || got != "234" || res.Header.Get("Content-Range") != "bytes 2-4/10" {
			t.Errorf("got %d %q %v", res.StatusCode, got, res.Header)
		}
		whole, _ := h.do("GET", "/files?path=r", "", auth)
		if res, got := h.do("GET", "/files?path=r", "", auth, "Range: bytes=-1", "If-Range: "+whole.Header.Get("Last-Modified")); res.StatusCode != 206 || got != "9" {
			t.Errorf("got %d %q", res.StatusCode, got)
		}
		if res, got := h.do("GET", "/files?path=r", "", auth, "Range: bytes=-1", "If-Range: Mon, 02 Jan 2006 15:04:05 GMT"); res.StatusCode != 200 || got != "0123456789" {
			t.Errorf("got %d %q", res.StatusCode, got)
		}
		if res, _ := h.do("GET", "/files?path=r", "", auth, "Range: bytes=20-"); res.StatusCode != 416 {
			t.Errorf("got %d", res.StatusCode)
		}
		if res, _ := h.do("GET", "/files?path=r", "", auth, "Accept-Encoding: br;q=1, identity;q=0"); res.StatusCode != 406 {
			t.Errorf("got %d", res.StatusCode)
		}
		if res, got := h.do("HEAD", "/files?path=r", "", auth); res.StatusCode != 200 || got != "" || res.ContentLength != 10 {
			t.Errorf("HEAD: %d %q", res.StatusCode, got)
		}
	})
	t.Run("files that can't be read", func(t *testing.T) {
		h.bash("echo secret > /tmp/closed; chmod 000 /tmp/closed")
		for _, path := range []string{"/tmp/closed", "/proc/1/environ"} {
			for _, encoding := range []string{"identity", "gzip"} {
				res, text := h.do("GET", "/files?path="+path, "", auth, "Accept-Encoding: "+encoding)
				if res.StatusCode != 403 || !strings.Contains(text, `"message":"permission denied: cat: `+path) || res.Header.Get("Content-Encoding") != "" {
					t.Errorf("%s, %s: %d %s %v", path, encoding, res.StatusCode, text, res.Header)
				}
			}
		}
		if res, text := h.do("POST", "/files?path=/usr/new", "x", auth, octets); res.StatusCode != 403 || !strings.Contains(text, "/usr/new: Read-only file system; write below") {
			t.Errorf("a write to the system: %d %s", res.StatusCode, text)
		}
	})
	t.Run("metadata", func(t *testing.T) {
		res, text := h.do("POST", "/files?path=m", "x", auth, octets, "X-Metadata-Owner: me", "X-Metadata-k2: a b")
		if res.StatusCode != 200 || !strings.Contains(text, `"metadata":{"k2":"a b","owner":"me"}`) {
			t.Fatalf("got %d %s", res.StatusCode, text)
		}
		want := func(meta map[string]string) {
			t.Helper()
			got, err := h.filesystem("json").Stat(t.Context(), &envdpb.StatRequest{Path: "m"})
			if err != nil || fmt.Sprint(got.GetEntry().GetMetadata()) != fmt.Sprint(meta) {
				t.Errorf("got %v, %v; want %v", got, err, meta)
			}
		}
		want(map[string]string{"owner": "me", "k2": "a b"})
		list, err := h.filesystem("json").ListDir(t.Context(), &envdpb.ListDirRequest{Path: "."})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.GetEntries() {
			if (e.GetName() == "m") != (e.GetMetadata()["owner"] == "me") {
				t.Errorf("listed %v", e)
			}
		}
		h.do("POST", "/files?path=m", "y", auth, octets, "X-Metadata-k3: z")
		want(map[string]string{"k3": "z"})
		h.do("POST", "/files?path=m", "y", auth, octets)
		want(nil)
		for _, header := range []string{"X-Metadata-" + strings.Repeat("k", 247) + ": v", "X-Metadata-k: " + strings.Repeat("v", 4096), "X-Metadata-k: \xc3\xa9"} {
			if res, text := h.do("POST", "/files?path=m", "y", auth, octets, header); res.StatusCode != 400 {
				t.Errorf("%.40q: %d %s", header, res.StatusCode, text)
			}
		}
	})
	t.Run("bad bodies", func(t *testing.T) {
		twice, kind := form([2]string{"same", "1"}, [2]string{"./same", "2"})
		whole, kind2 := form([2]string{"cut", strings.Repeat("x", 1000)})
		for name, tt := range map[string]struct {
			path, body string
			header     []string
		}{
			"no type":          {"/files?path=b", "x", nil},
			"no path":          {"/files", "x", []string{octets}},
			"a form":           {"/files", "x", []string{"Content-Type: multipart/form-data; boundary=b"}},
			"no boundary":      {"/files", "x", []string{"Content-Type: multipart/form-data"}},
			"twice":            {"/files", twice, []string{kind}},
			"a form that ends": {"/files", whole[:500], []string{kind2}},
			"no gzip":          {"/files?path=b", "x", []string{octets, "Content-Encoding: gzip"}},
			"gzip that ends":   {"/files?path=cut", compressed("squeezed")[:15], []string{octets, "Content-Encoding: gzip"}},
			"encoding":         {"/files?path=b", "x", []string{octets, "Content-Encoding: br"}},
			"NUL":              {"/files?path=%00", "x", []string{octets}},
			"compose":          {"/files/compose", "{}", nil},
			"compose no JSON":  {"/files/compose", "{", nil},
			"compose itself":   {"/files/compose", `{"source_paths": ["r"], "destination": "./r"}`, nil},
		} {
			res, text := h.do("POST", tt.path, tt.body, append(tt.header, auth)...)
			if res.StatusCode != 400 || !strings.Contains(text, `"message"`) {
				t.Errorf("%s: %d %s", name, res.StatusCode, text)
			}
		}
		if status, _ := h.get("/files?path=cut"); status != 404 {
			t.Errorf("a body that ended early was written: %d", status)
		}
	})
	t.Run("signatures", func(t *testing.T) {
		h.do("POST", "/files?path=s", "signed", auth, octets)
		sign := func(path, op, user, expiration string) string {
			parts := []string{path, op, user, token}
			if expiration != "" {
				parts = append(parts, expiration)
			}
			sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
			q := url.Values{"path": {path}, "signature": {"v1_" + base64.RawStdEncoding.EncodeToString(sum[:])}}
			if user != "" {
				q.Set("username", user)
			}
			if expiration != "" {
				q.Set("signature_expiration", expiration)
			}
			return "/files?" + q.Encode()
		}
		second := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
		for name, tt := range map[string]struct {
			method, path string
			header       string
			want         int
		}{
			"valid":                {"GET", sign("s", "read", "", ""), "", 200},
			"with user":            {"GET", sign("s", "read", "root", ""), "", 200},
			"with time":            {"GET", sign("s", "read", "user", second(time.Minute)), "", 200},
			"expired":              {"GET", sign("s", "read", "", second(-time.Minute)), "", 401},
			"no number":            {"GET", sign("s", "read", "", "soon"), "", 401},
			"of writing":           {"GET", sign("s", "write", "", ""), "", 401},
			"time left out":        {"GET", strings.Split(sign("s", "read", "", second(time.Minute)), "&signature_expiration")[0], "", 401},
			"another path":         {"GET", strings.Replace(sign("s", "read", "", ""), "path=s", "path=r", 1), "", 401},
			"none":                 {"GET", "/files?path=s", "", 401},
			"another token":        {"GET", sign("s", "read", "", ""), "X-Access-Token: other", 401},
			"unknown user":         {"GET", sign("s", "read", "stranger", ""), "", 401},
			"writing":              {"POST", sign("s", "write", "", second(time.Minute)), "", 200},
			"writing with reading": {"POST", sign("s", "read", "", ""), "", 401},
			"compose":              {"POST", "/files/compose", "", 401},
			"envs":                 {"GET", "/envs", "", 401},
			"metrics":              {"GET", "/metrics", "", 401},
			"health":               {"GET", "/health", "", 204},
			"unknown":              {"POST", "/init", auth, 404},
		} {
			res, text := h.do(tt.method, tt.path, "signed", octets, cmpOr(tt.header, "X-Nothing: 1"))
			if res.StatusCode != tt.want {
				t.Errorf("%s: %d %s, want %d", name, res.StatusCode, text, tt.want)
			}
			if want := `"signature is already expired"`; name == "expired" && !strings.Contains(text, want) { // programs compare it
				t.Errorf("%s: %s, want %s", name, text, want)
			}
		}
	})
	t.Run("envs and metrics", func(t *testing.T) {
		if status, text := h.get("/envs"); status != 200 || strings.TrimSpace(text) != `{"GIVEN":"yes"}` {
			t.Errorf("got %d %s", status, text)
		}
		s, err := h.processes("json").Start(t.Context(), bash("while :; do :; done"))
		if err != nil || !s.Receive() {
			t.Fatal(err)
		}
		s.Close()
		h.get("/metrics")
		time.Sleep(500 * time.Millisecond)
		status, text := h.get("/metrics")
		var m map[string]float64
		if err := json.Unmarshal([]byte(text), &m); err != nil || status != 200 || m["cpu_used_pct"] < 5 || m["cpu_count"] < 1 || m["mem_used"] < 1<<20 ||
			m["mem_total"] <= m["mem_used"] || m["disk_total"] < m["disk_used"] || m["disk_total"] == 0 || time.Since(time.Unix(int64(m["ts"]), 0)) > time.Minute {
			t.Errorf("got %d %s", status, text)
		}
	})
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
