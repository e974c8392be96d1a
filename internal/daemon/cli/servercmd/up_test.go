package servercmd

import (
	"net"
	"testing"
)

// TestReachableAt: what listens on all interfaces is not told to clients as 0.0.0.0 or [::].
func TestReachableAt(t *testing.T) {
	for _, tt := range []struct {
		ip    string
		hosts []string
		want  string
	}{
		{"127.0.0.1", []string{"croft.example"}, "127.0.0.1:7070"},
		{"0.0.0.0", nil, "127.0.0.1:7070"},
		{"::", []string{"croft.example", "b.example"}, "croft.example:7070"},
	} {
		if got := reachableAt(&net.TCPAddr{IP: net.ParseIP(tt.ip), Port: 7070}, tt.hosts); got != tt.want {
			t.Errorf("%s with the names %q: %q, want %q", tt.ip, tt.hosts, got, tt.want)
		}
	}
}
