package inet

import "math/bits"

// The following constants determine the size that a datagram occupies in a socket's receive buffer
// (skb->truesize).
const (
	skbSharedBytes = 320
	skbHeadBytes   = 28 + 64 // UDP and IP headers, and room for the link's
	skbBytes       = 256
	minSkbBytes    = 1024
	// The kernel stores the payload bytes after the first skbLinearMax bytes in separate memory pages.
	skbLinearMax = 16 << 10
	pageBytes    = 4 << 10
)

// FixedBytes is the value of fabric.Caps.RecvFixedBytes for UDP sockets. The value of FixedBytes
// assumes a network driver that uses half a memory page for a small datagram.
const FixedBytes = pageBytes/2 + skbBytes

// TruesizeBytes returns the size that a datagram sent by this host occupies in a socket's receive
// buffer. If the size that the datagram occupies differs between kernel versions, TruesizeBytes
// returns the largest of these sizes. With network drivers that use a whole page for each datagram,
// small datagrams occupy up to twice the size that TruesizeBytes returns.
func TruesizeBytes(payload int) int {
	n := max(payload+skbHeadBytes+skbSharedBytes, minSkbBytes)
	if n <= skbLinearMax {
		return 1<<bits.Len(uint(n-1)) + skbBytes
	}
	return (payload+pageBytes-1)/pageBytes*pageBytes + minSkbBytes + skbBytes
}

// Capacity returns how many datagrams of "mtu" bytes a socket's receive buffer can always hold. The
// argument "buffer" of Capacity is the size that getsockopt returns for SO_RCVBUF. In its
// calculation, Capacity uses only three quarters of the buffer size, because Linux can delay the
// release of the memory of read datagrams (udp_rmem_release).
func Capacity(buffer, mtu int) int {
	return max((buffer-buffer/4)/TruesizeBytes(mtu), 1)
}
