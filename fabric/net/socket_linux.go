package net

import "golang.org/x/sys/unix"

// dontFragment returns the options by which datagrams of an IP version stay whole, and none is
// refused because of what routers have reported.
func dontFragment(version int) []option {
	if version == 4 {
		return []option{{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}}
	}
	return []option{
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		{unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1},
	}
}
