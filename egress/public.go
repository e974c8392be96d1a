package egress

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// ControlPublic is the Control function of a net.Dialer that connects to the public internet
// alone: it refuses addresses that are private, loopback, link-local, of a metadata service
// or of this host.
func ControlPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("egress: address %q: %w: %w", address, fault.InvalidArgument, err)
	}
	class := classify(at.Addr())
	if class == public && isHostAddr(at.Addr(), net.InterfaceAddrs) {
		class = hostAddr
	}
	if class != public {
		return fmt.Errorf("egress: connect to %s: %w: its address is %s", address, fault.PermissionDenied, class)
	}
	return nil
}
