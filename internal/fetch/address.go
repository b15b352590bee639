package fetch

import (
	"net"
	"net/netip"
	"sync"
)

// never are addresses that nobody can allow: they belong to the machine's own network segment or to the services
// that hand out its credentials.
var never = prefixes(
	"169.254.0.0/16",     // link-local; metadata of most clouds (RFC 3927)
	"fe80::/10",          // link-local (RFC 4291)
	"fd00:ec2::/32",      // metadata of AWS over IPv6
	"168.63.129.16/32",   // Azure's wire server
	"100.100.100.200/32", // metadata of Alibaba Cloud
	"192.0.0.0/24",       // IETF protocol assignments (RFC 6890); metadata of Oracle Cloud
	"0.0.0.0/8", "::/128", "255.255.255.255/32", "224.0.0.0/4", "ff00::/8",
)

// special are addresses of the registries of special purposes (RFC 6890 and its successors at IANA) that are not
// public and that netip has no method for.
var special = prefixes(
	"100.64.0.0/10",                                     // carrier-grade NAT (RFC 6598)
	"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", // documentation
	"192.88.99.0/24",             // 6to4 relays
	"198.18.0.0/15",              // benchmarks
	"240.0.0.0/4",                // reserved
	"2001::/23",                  // protocol assignments; Teredo holds an IPv4 address of anybody's choice
	"2001:db8::/32", "3fff::/20", // documentation
	"2002::/16", // 6to4: holds an IPv4 address of anybody's choice
)

// Of IPv6 only 2000::/3 is handed out; nat64 is the prefix by which networks without IPv4 reach it (RFC 6052).
var (
	global6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(texts ...string) func() []netip.Prefix {
	return sync.OnceValue(func() []netip.Prefix {
		out := make([]netip.Prefix, len(texts))
		for i, t := range texts {
			out[i] = netip.MustParsePrefix(t)
		}
		return out
	})
}

// kind says who can be at an address.
type kind int

const (
	public  kind = iota // anybody
	private             // this machine, its networks, or nobody: reached only if it is named with its port
	barred              // never reached
)

// classify says what kind of address a is. Forms that hold an IPv4 address count as that address.
func classify(a netip.Addr) kind {
	if a.Zone() != "" {
		return barred
	}
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		return classify(netip.AddrFrom4([4]byte(b[12:])))
	}
	switch {
	case in(never(), a):
		return barred
	case !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || in(special(), a):
		return private
	case a.Is6() && (!global6.Contains(a) || isatap(a) != public):
		return private
	}
	return public
}

// isatap is the kind of the IPv4 address that an ISATAP address holds (RFC 5214), public for any other.
func isatap(a netip.Addr) kind {
	b := a.As16()
	if b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		return classify(netip.AddrFrom4([4]byte(b[12:])))
	}
	return public
}

func in(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// ownAddress says whether a belongs to this machine: what listens there may count on a firewall that does not stand
// between a machine and itself.
func ownAddress(a netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, addr := range addrs {
		if p, err := netip.ParsePrefix(addr.String()); err == nil && p.Addr().WithZone("") == a.Unmap() {
			return true
		}
	}
	return false
}
