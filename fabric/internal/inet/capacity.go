package inet

import "math/bits"

// The constants give the cost of a datagram in a socket's receive buffer (skb->truesize). The cost
// is the sk_buff itself, and the block with the headers, the bytes and the skb_shared_info.
const (
	skbSharedBytes = 320
	skbHeadBytes   = 28 + 64 // UDP and IP headers, and room for the link's
	skbBytes       = 256
	minSkbBytes    = 1024
	// Above skbLinearMax, the bytes are in pages of their own.
	skbLinearMax = 16 << 10
	pageBytes    = 4 << 10
)

// FixedBytes is fabric.Caps.RecvFixedBytes: the cost of a small datagram is assumed to be that of
// half a page, because some drivers use that much.
const FixedBytes = pageBytes/2 + skbBytes

// TruesizeBytes returns the cost of a datagram, rounded up where kernels differ. TruesizeBytes
// returns the cost of a datagram from this host. Drivers that give each datagram a whole page make
// small datagrams cost up to twice as much.
func TruesizeBytes(payload int) int {
	n := max(payload+skbHeadBytes+skbSharedBytes, minSkbBytes)
	if n <= skbLinearMax {
		return 1<<bits.Len(uint(n-1)) + skbBytes
	}
	return (payload+pageBytes-1)/pageBytes*pageBytes + minSkbBytes + skbBytes
}

// Capacity returns how many datagrams of mtu bytes a receive buffer holds at any time. The
// argument buffer of Capacity is the size that SO_RCVBUF reads back. Linux returns the memory
// of datagrams that were read only in units of a quarter of the buffer (udp_rmem_release). A
// receiver that reads some datagrams and lets its peers send as many again can therefore count on
// three quarters of the buffer.
func Capacity(buffer, mtu int) int {
	return max((buffer-buffer/4)/TruesizeBytes(mtu), 1)
}
