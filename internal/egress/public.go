package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/croft-run/croft/fault"
)

// IsPublic reports whether the host of a rule is of the public internet alone. A name is: what
// it resolves to is checked when it is used. An address or a range is not if one of its
// addresses is one that ControlPublic refuses.
func IsPublic(host string) bool {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return classify(addr) == public && !isHostAddr(addr, net.InterfaceAddrs)
	}
	wide, err := netip.ParsePrefix(host)
	if err != nil {
		return true
	}
	if wide = wide.Masked(); !wide.Addr().Is4() && (wide.Bits() < globalV6.Bits() || !globalV6.Contains(wide.Addr()) || wide.Overlaps(sixToFour)) {
		return false
	}
	if slices.ContainsFunc(metadataAddrs, wide.Contains) {
		return false
	}
	for _, c := range classes {
		if c.prefix.Overlaps(wide) {
			return false
		}
	}
	addrs, err := net.InterfaceAddrs()
	return err == nil && !slices.ContainsFunc(addrs, func(a net.Addr) bool {
		of, err := netip.ParsePrefix(a.String())
		return err == nil && wide.Contains(of.Addr().Unmap())
	})
}

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
