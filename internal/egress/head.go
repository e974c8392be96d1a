package egress

import (
	"bufio"
	"bytes"
	"errors"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A head is the parsed head of a request.
type head struct {
	method, uri string
	host        string // of the Host header
	hasHost     bool
}

// peekHead returns the head of the next request, with its empty line, without consuming it. It
// may be as long as the buffer of br.
func peekHead(br *bufio.Reader) ([]byte, error) {
	for n := 1; ; {
		_, err := br.Peek(n)
		b, _ := br.Peek(br.Buffered())
		if i := bytes.Index(b, []byte("\r\n\r\n")); i >= 0 {
			return b[:i+4], nil
		}
		if len(b) >= br.Size() {
			return nil, &refusal{code: fault.ResourceExhausted, reason: "the head of the request is too long"}
		}
		if err != nil {
			return nil, err
		}
		n = len(b) + 1
	}
}

// parseHead parses a head more strictly than net/http, to prevent request smuggling: net/http
// and the server might interpret an ambiguous head differently. It refuses a length that is
// given twice or in two ways, folded lines, bare line feeds and spaces around names.
func parseHead(b []byte) (head, error) {
	lines := strings.Split(strings.TrimSuffix(string(b), "\r\n\r\n"), "\r\n")
	var h head
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || !isToken(parts[0]) || parts[1] == "" || hasControl(parts[1]) {
		return head{}, invalidRequest("the request line is malformed")
	}
	h.method, h.uri = parts[0], parts[1]
	if v := parts[2]; v != "HTTP/1.1" && v != "HTTP/1.0" {
		return head{}, invalidRequest("the version must be HTTP/1.1 or HTTP/1.0")
	}
	var length, encoding int
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) || hasControl(strings.ReplaceAll(value, "\t", " ")) {
			return head{}, invalidRequest("a header line is malformed")
		}
		value = strings.Trim(value, " \t")
		switch strings.ToLower(name) {
		case "host":
			if h.hasHost {
				return head{}, invalidRequest("there are two Host headers")
			}
			h.host, h.hasHost = value, true
		case "content-length":
			if length++; value == "" || strings.Trim(value, "0123456789") != "" {
				return head{}, invalidRequest("Content-Length must be a number")
			}
		case "transfer-encoding":
			if encoding++; !strings.EqualFold(value, "chunked") {
				return head{}, invalidRequest("Transfer-Encoding must be chunked")
			}
		}
	}
	switch {
	case length+encoding > 1:
		return head{}, invalidRequest("the length of the body is given more than once")
	case encoding > 0 && parts[2] == "HTTP/1.0":
		return head{}, invalidRequest("HTTP/1.0 has no Transfer-Encoding")
	case !h.hasHost && parts[2] == "HTTP/1.1":
		return head{}, invalidRequest("there is no Host header")
	}
	return h, nil
}

func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// asRefusal returns err as a refusal.
func asRefusal(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	if c := fault.Of(err); c == fault.InvalidArgument {
		return &refusal{code: c, reason: err.Error()}
	}
	return classifyDial(err)
}
