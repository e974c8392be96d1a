package egress

import (
	"testing"

	"github.com/croft-run/croft/fault"
)

func TestControlPublic(t *testing.T) {
	for address, want := range map[string]fault.Code{
		"127.0.0.1:80": fault.PermissionDenied, "[::1]:80": fault.PermissionDenied, "10.1.2.3:443": fault.PermissionDenied,
		"169.254.169.254:80": fault.PermissionDenied, "[fd00:ec2::254]:80": fault.PermissionDenied, "[::ffff:127.0.0.1]:80": fault.PermissionDenied,
		"8.8.8.8:443": "", "[2606:4700::1]:443": "", "name:80": fault.InvalidArgument,
	} {
		if got := fault.Of(ControlPublic("tcp", address, nil)); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
