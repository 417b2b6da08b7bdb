package inet

import "math/bits"

// The constants give the cost of a datagram in a socket's receive buffer (skb->truesize). The cost
// includes the sk_buff, and a block with the headers, the payload and the skb_shared_info.
const (
	skbSharedBytes = 320
	skbHeadBytes   = 28 + 64 // UDP and IP headers, and room for the link's
	skbBytes       = 256
	minSkbBytes    = 1024
	// The payload bytes above skbLinearMax are in pages of their own.
	skbLinearMax = 16 << 10
	pageBytes    = 4 << 10
)

// FixedBytes is the value of fabric.Caps.RecvFixedBytes, and assumes that a small datagram takes
// half a page, as with some drivers.
const FixedBytes = pageBytes/2 + skbBytes

// TruesizeBytes returns the cost of a datagram from this host in the receive buffer, rounded up
// where kernels differ. With drivers that give each datagram a whole page, small datagrams cost up
// to twice as much.
func TruesizeBytes(payload int) int {
	n := max(payload+skbHeadBytes+skbSharedBytes, minSkbBytes)
	if n <= skbLinearMax {
		return 1<<bits.Len(uint(n-1)) + skbBytes
	}
	return (payload+pageBytes-1)/pageBytes*pageBytes + minSkbBytes + skbBytes
}

// Capacity returns how many datagrams of mtu bytes a receive buffer can hold at any time. The
// argument buffer of Capacity is the size that getsockopt returns for SO_RCVBUF. Linux releases the
// memory of datagrams that were read only in units of a quarter of the buffer (udp_rmem_release).
// Capacity therefore counts three quarters of the buffer.
func Capacity(buffer, mtu int) int {
	return max((buffer-buffer/4)/TruesizeBytes(mtu), 1)
}
