package net

import "golang.org/x/sys/unix"

// dontFragment returns the socket options that disable fragmentation for an IP version. A socket
// with the options that dontFragment returns ignores ICMP reports about the path MTU.
func dontFragment(version int) []option {
	if version == 4 {
		return []option{{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}}
	}
	return []option{
		{unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		{unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1},
	}
}
