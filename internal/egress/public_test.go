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

func TestIsPublic(t *testing.T) {
	for host, want := range map[string]bool{
		"example.com": true, "*": true, "*.example.com": true, "8.8.8.8": true, "8.8.8.0/24": true, "2606:4700::1111": true, "[2606:4700::1111]": true, "2606:4700::/32": true,
		"127.0.0.1": false, "127.0.0.0/8": false, "10.1.2.3": false, "10.0.0.0/30": false, "8.0.0.0/5": false, "0.0.0.0/0": false, "::/0": false, "0.0.0.0": false,
		"169.254.169.254": false, "168.63.129.16": false, "168.63.129.0/24": false, "::1": false, "[::1]": false, "::ffff:127.0.0.1": false, "::ffff:127.0.0.0/104": false,
		"64:ff9b::7f00:1": false, "64:ff9b::/96": false, "2002:7f00:1::": false, "2002::/16": false, "2000::/3": false, "fd00::/8": false, "fe80::1%eth0": false, "240.0.0.1": false,
	} {
		if got := IsPublic(host); got != want {
			t.Errorf("%s is public: %v, want %v", host, got, want)
		}
	}
}
