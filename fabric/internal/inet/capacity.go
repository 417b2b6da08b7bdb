package inet

import "math/bits"

// The constants below give the cost of a datagram in a socket's receive buffer (skb->truesize).
const (
	skbSharedBytes = 320
	skbHeadBytes   = 28 + 64 // UDP and IP headers, and room for the link's
	skbBytes       = 256
	minSkbBytes    = 1024
	// The payload bytes above skbLinearMax are in pages of their own.
	skbLinearMax = 16 << 10
	pageBytes    = 4 << 10
)

// FixedBytes is the value of fabric.Caps.RecvFixedBytes for UDP sockets. FixedBytes is computed for
// drivers with which a small datagram takes half a page.
const FixedBytes = pageBytes/2 + skbBytes

// TruesizeBytes returns the cost of a datagram from this host in the receive buffer. If kernels
// differ, the highest cost is returned. With drivers that give each datagram a whole page, small
// datagrams cost up to twice as much as TruesizeBytes returns.
func TruesizeBytes(payload int) int {
	n := max(payload+skbHeadBytes+skbSharedBytes, minSkbBytes)
	if n <= skbLinearMax {
		return 1<<bits.Len(uint(n-1)) + skbBytes
	}
	return (payload+pageBytes-1)/pageBytes*pageBytes + minSkbBytes + skbBytes
}

// Capacity returns how many datagrams, of mtu bytes each, a receive buffer is always able to hold.
// The argument buffer of Capacity is the size that getsockopt returns for SO_RCVBUF. Capacity
// counts three quarters of the buffer, because Linux may release the memory of read datagrams late
// (udp_rmem_release).
func Capacity(buffer, mtu int) int {
	return max((buffer-buffer/4)/TruesizeBytes(mtu), 1)
}
