package app

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// CheckAddr refuses an address to listen on without a host. An address beyond
// loopback needs an explicitly given token, because that of the data directory is for
// programs of the same user, and TLS or consent to do without it, because the token and
// all files would cross the network unencrypted.
func CheckAddr(addr string, explicitToken, tlsOrConsent bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fault.Advise(fmt.Errorf("app: address %q: %w", addr, fault.InvalidArgument), "give HOST:PORT, with a port from 0 to 65535")
	}
	if host == "" {
		return fmt.Errorf("app: address %q: %w: write the host out, such as 127.0.0.1%s; 0.0.0.0%s binds every interface",
			addr, fault.InvalidArgument, addr, addr)
	}
	if isLoopbackHost(host) {
		return nil
	}
	if !explicitToken {
		return fault.Advise(fmt.Errorf("app: address %q is beyond loopback: %w", addr, fault.PermissionDenied),
			"give a token of your own with --token or CROFT_TOKEN")
	}
	if !tlsOrConsent {
		return fmt.Errorf("app: address %q is beyond loopback: %w: HTTP has no TLS, so the token and all files can be read on the way; "+
			"give a certificate with --tls-cert and --tls-key, listen on 127.0.0.1:%s behind a proxy that has TLS, or give --insecure-http where the network is trusted", addr, fault.PermissionDenied, port)
	}
	return nil
}

// Loopback reports whether an address, HOST:PORT, is a loopback address.
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
