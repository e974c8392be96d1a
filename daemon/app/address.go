package app

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// CheckAddr judges an address to listen on. The host must be written out, and
// one beyond loopback needs a token that was given explicitly: the one that the
// data directory has is for programs of the same user.
func CheckAddr(addr string, explicitToken bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("system: address %q: %w: it is written HOST:PORT, with a port of 0 to 65535", addr, fault.InvalidArgument)
	}
	if host == "" {
		return fmt.Errorf("system: address %q: %w: write the host out, such as 127.0.0.1%s; 0.0.0.0%s binds every interface",
			addr, fault.InvalidArgument, addr, addr)
	}
	if !isLoopbackHost(host) && !explicitToken {
		return fmt.Errorf("system: address %q is beyond loopback: %w: give a token of your own with --token or CROFT_TOKEN", addr, fault.PermissionDenied)
	}
	return nil
}

// Loopback reports whether an address, HOST:PORT, is of this host alone.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && isLoopbackHost(host)
}

func isLoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
