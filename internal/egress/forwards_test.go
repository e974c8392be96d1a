package egress

import (
	"slices"
	"testing"

	"github.com/croft-run/croft/workspace/driver"
)

func TestForwards(t *testing.T) {
	got := Forwards(driver.Network{Allow: []driver.NetRule{
		{Host: "127.0.0.1", Ports: []int{8080, RelayPort}}, {Host: "127.0.0.1", Ports: []int{8080}, Credential: "key"}, {Host: "[::1]", Ports: []int{1}},
		{Host: "localhost", Ports: []int{2}}, {Host: "Localhost", Ports: []int{3}, Private: true}, {Host: "127.0.0.2"},
		{Host: "127.0.0.0/8", Ports: []int{4}}, {Host: "10.0.0.1", Ports: []int{5}}, {Host: "*"}, {Host: "example.com", Ports: []int{6}},
	}})
	want := []string{"127.0.0.1:8080", "[::1]:1", "localhost:3", "127.0.0.2:80", "127.0.0.2:443"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
