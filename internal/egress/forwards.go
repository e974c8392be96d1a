package egress

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// Forwards lists the ports of this host's loopback interface that a policy allows, as
// "127.0.0.1:8080", for guests: inside, programs do not ask a proxy for addresses of the
// loopback interface (NO_PROXY), where servers of the workspace itself listen.
func Forwards(n driver.Network) []string {
	var list []string
	for _, r := range n.Allow {
		host := strings.ToLower(strings.Trim(r.Host, "[]"))
		if a, err := netip.ParseAddr(host); (err != nil || !a.IsLoopback()) && (host != localhost || !r.Private) {
			continue
		}
		ports := r.Ports
		if ports == nil {
			ports = []int{80, 443}
		}
		for _, port := range ports {
			at := net.JoinHostPort(host, strconv.Itoa(port))
			if port != RelayPort && !slices.Contains(list, at) {
				list = append(list, at)
			}
		}
	}
	return list
}
