package console

import (
	"net"

	"github.com/spf13/pflag"
)

// RegisterInsecureHTTP adds the flag that allows plain HTTP beyond loopback.
func RegisterInsecureHTTP(f *pflag.FlagSet, value *bool, with string) {
	f.BoolVar(value, "insecure-http", false, with+"listen beyond loopback without TLS: the token and all files can be read on the way")
}

// AllowedHosts returns the names that the Host header of requests to a server at addr may have.
func AllowedHosts(addr string, hosts []string) []string {
	if host, _, err := net.SplitHostPort(addr); err == nil && net.ParseIP(host) == nil {
		hosts = append(hosts, host)
	}
	return hosts
}
