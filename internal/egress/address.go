package egress

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// A class says why an address is not public, "" if it is. The text is used in messages: "its
// address is loopback".
type class string

const (
	public        class = ""
	metadata      class = "a metadata service" // reached by naming its address and in no other way
	private       class = "private"
	loopback      class = "loopback"
	linkLocal     class = "link-local"
	carrierShared class = "shared by a carrier"
	hostAddr      class = "one of this host"
	notPublic     class = "not of the public internet"
)

var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("169.254.170.2"),   // credentials of container tasks
	netip.MustParseAddr("169.254.170.23"),  // credentials of pods
	netip.MustParseAddr("169.254.42.42"),   // Scaleway
	netip.MustParseAddr("169.254.0.23"),    // Tencent
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("168.63.129.16"),   // Azure, whose agents get secrets there; it looks like a public address
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("fd20:ce::254"),
	netip.MustParseAddr("fd00:42::42"),
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"),
	netip.MustParseAddr("fe80::a9fe:a9fe"), // OpenStack
}

var classes = []struct {
	prefix netip.Prefix
	class  class
}{
	{netip.MustParsePrefix("10.0.0.0/8"), private},
	{netip.MustParsePrefix("172.16.0.0/12"), private},
	{netip.MustParsePrefix("192.168.0.0/16"), private},
	{netip.MustParsePrefix("127.0.0.0/8"), loopback},
	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
	{netip.MustParsePrefix("100.64.0.0/10"), carrierShared},
	{netip.MustParsePrefix("0.0.0.0/8"), notPublic},
	{netip.MustParsePrefix("192.0.0.0/24"), notPublic},
	{netip.MustParsePrefix("192.0.2.0/24"), notPublic},
	{netip.MustParsePrefix("192.88.99.0/24"), notPublic},
	{netip.MustParsePrefix("198.18.0.0/15"), notPublic},
	{netip.MustParsePrefix("198.51.100.0/24"), notPublic},
	{netip.MustParsePrefix("203.0.113.0/24"), notPublic},
	{netip.MustParsePrefix("224.0.0.0/4"), notPublic},
	{netip.MustParsePrefix("240.0.0.0/4"), notPublic},
	{netip.MustParsePrefix("::1/128"), loopback},
	{netip.MustParsePrefix("fc00::/7"), private},
	{netip.MustParsePrefix("fe80::/10"), linkLocal},
	{netip.MustParsePrefix("fec0::/10"), private},
	{netip.MustParsePrefix("2001::/23"), notPublic}, // Teredo among them
	{netip.MustParsePrefix("2001:db8::/32"), notPublic},
	{netip.MustParsePrefix("3fff::/20"), notPublic},
}

var (
	globalV6  = netip.MustParsePrefix("2000::/3")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// classify returns the class of an address. An IPv6 address with an embedded IPv4 address
// (mapped, NAT64, 6to4, ISATAP) has the class of that address, because packets go there.
// IPv6 addresses that are not global unicast are not public.
func classify(a netip.Addr) class {
	a = a.Unmap()
	for _, m := range metadataAddrs {
		if a.WithZone("") == m {
			return metadata
		}
	}
	if a.Zone() != "" {
		return linkLocal
	}
	for _, c := range classes {
		if c.prefix.Contains(a) {
			return c.class
		}
	}
	if a.Is4() {
		return public
	}
	if v4, ok := embeddedIPv4(a); ok {
		if c := classify(v4); c != public {
			return c
		}
	}
	if nat64.Contains(a) || globalV6.Contains(a) {
		return public
	}
	return notPublic
}

// embeddedIPv4 returns the IPv4 address that an IPv6 address carries.
func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	isatap := binary.BigEndian.Uint32(b[8:12])
	switch {
	case nat64.Contains(a), isatap == 0x00005efe, isatap == 0x02005efe:
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	for _, x := range b[:12] {
		if x != 0 {
			return netip.Addr{}, false
		}
	}
	return netip.AddrFrom4([4]byte(b[12:16])), true // the old "compatible" form
}

// isHostAddr reports whether a is an address of an interface of this host. Services that
// listen on all interfaces often trust local clients.
func isHostAddr(a netip.Addr, addrs func() ([]net.Addr, error)) bool {
	all, err := addrs()
	if err != nil {
		return false // private and loopback addresses are refused by their class
	}
	for _, x := range all {
		n, ok := x.(*net.IPNet)
		if !ok {
			continue
		}
		if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a.Unmap() {
			return true
		}
	}
	return false
}
