//go:build darwin || freebsd

package net

import "golang.org/x/sys/unix"

func dontFragment(version int) []option {
	if version == 4 {
		return []option{{unix.IPPROTO_IP, unix.IP_DONTFRAG, 1}}
	}
	return []option{{unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1}}
}
