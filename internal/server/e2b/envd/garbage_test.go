package envd_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/croft-run/croft/internal/server/e2b/envd/envdpb"
)

// oddTexts are values that parsers and file systems treat specially.
var oddTexts = []string{
	"", ".", "..", "/", "~", "a", "a/b", "../../etc/passwd", "/tmp/x", "/proc/self/mem", "/dev/null", "\x00", "a\x00b", "-rf", "$(id)", "\n", "é☃",
	strings.Repeat("x", 300), strings.Repeat("x/", 3000), "/bin/true", "true", "1", "-1", "18446744073709551616", "null", "{}", "user", "root",
}

// garble fills a message with odd values.
func garble(r *rand.Rand, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if r.IntN(3) == 0 {
			continue
		}
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOf(oddTexts[r.IntN(len(oddTexts))]).MapKey(), protoreflect.ValueOf(oddTexts[r.IntN(len(oddTexts))]))
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			for range r.IntN(3) {
				m.Mutable(f).List().Append(protoreflect.ValueOf(oddTexts[r.IntN(len(oddTexts))]))
			}
		case f.IsList():
		case f.Kind() == protoreflect.MessageKind && depth < 5:
			garble(r, m.Mutable(f).Message(), depth+1)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOf(oddTexts[r.IntN(len(oddTexts))]))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOf([]byte(oddTexts[r.IntN(len(oddTexts))])))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOf(r.IntN(2) == 0))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOf(protoreflect.EnumNumber(r.IntN(20)-2)))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOf([]uint32{0, 1, 2, 80, 65536, 1<<32 - 1}[r.IntN(6)]))
		}
	}
}

// TestGarbage sends malformed requests to every method and route. None may be an internal
// error.
func TestGarbage(t *testing.T) {
	h := newHost(t)
	r := rand.New(rand.NewPCG(1, 2))
	h.bash("mkdir a; echo x > a/b")
	var methods []protoreflect.MethodDescriptor
	for _, file := range []protoreflect.FileDescriptor{envdpb.File_process_process_proto, envdpb.File_filesystem_filesystem_proto} {
		for i := range file.Services().Len() {
			for j := range file.Services().Get(i).Methods().Len() {
				methods = append(methods, file.Services().Get(i).Methods().Get(j))
			}
		}
	}
	const each = 40
	for _, m := range methods {
		name := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
		streams := m.IsStreamingServer() || m.IsStreamingClient()
		for range each {
			msg := dynamicpb.NewMessage(m.Input())
			garble(r, msg, 0)
			text, kind := mutate(r, msg)
			if streams {
				kind = "connect+" + kind
				head := make([]byte, 5)
				binary.BigEndian.PutUint32(head[1:], uint32(len(text)))
				if r.IntN(8) == 0 {
					head[r.IntN(5)] ^= byte(r.IntN(256))
				}
				text = append(head, text...)
			}
			status, body := h.post(name, text, "application/"+kind, "Connect-Protocol-Version: 1", "Connect-Timeout-Ms: 400")
			if status == 500 || strings.Contains(body, `"code":"internal"`) || strings.Contains(body, `"code":"unknown"`) {
				t.Errorf("%s %q %s: %d %s", name, text, kind, status, body)
			}
		}
	}
	for range 400 {
		text := func() string { return oddTexts[r.IntN(len(oddTexts))] }
		q := url.Values{"path": {text()}, "username": {text()}, "signature": {text()}, "signature_expiration": {text()}}
		kinds := []string{"application/octet-stream", "multipart/form-data; boundary=b", "multipart/form-data", "text/plain", "application/json"}
		paths := []string{"/files?" + q.Encode(), "/files/compose", "/envs", "/metrics?" + q.Encode(), "/" + url.PathEscape(text())}
		body := text()
		if r.IntN(2) == 0 {
			data, _ := json.Marshal(map[string]any{"source_paths": []string{text(), text()}, "destination": text(), "username": text()})
			body = string(data)
		}
		status, answer := h.post(paths[r.IntN(len(paths))], []byte(body), kinds[r.IntN(len(kinds))], "Content-Encoding: "+[]string{"", "gzip", "x"}[r.IntN(3)])
		if status == 500 {
			t.Errorf("%v: %s", q, answer)
		}
		if status, answer := h.get("/files?"+q.Encode(), "Range: "+url.QueryEscape(text())); status == 500 {
			t.Errorf("%v: %s", q, answer)
		}
	}
	h.url = h.ci
	for range 100 {
		text := func() string { return oddTexts[r.IntN(len(oddTexts))] }
		data, _ := json.Marshal(map[string]any{"code": text(), "context_id": text(), "language": text() + "x", "cwd": text(), "env_vars": map[string]string{text(): text()}})
		if r.IntN(3) == 0 {
			data = data[:r.IntN(len(data))]
		}
		path := []string{"/execute", "/contexts", "/contexts/" + url.PathEscape(text()) + "/restart"}[r.IntN(3)]
		if status, answer := h.post(path, data, "application/json"); status == 500 || status == 200 {
			t.Errorf("%s %s: %d %s", path, data, status, answer)
		}
	}
}

// mutate encodes a message, and damages some.
func mutate(r *rand.Rand, m proto.Message) (data []byte, kind string) {
	kind = "json"
	data, err := protojson.Marshal(m)
	if r.IntN(2) == 0 || err != nil {
		kind = "proto"
		data, _ = proto.MarshalOptions{AllowPartial: true}.Marshal(m) // text that is not UTF-8 is refused
	}
	switch r.IntN(4) {
	case 0:
		if len(data) > 0 {
			data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
		}
	case 1:
		data = data[:r.IntN(len(data)+1)]
	}
	return data, kind
}

// post posts a body with the token.
func (h *host) post(path string, body []byte, kind string, header ...string) (status int, answer string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("X-Access-Token", token)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatalf("%s: %v", path, err)
	}
	return res.StatusCode, string(data)
}
