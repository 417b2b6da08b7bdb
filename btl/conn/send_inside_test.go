package conn

import "testing"

// A Write is divided into the least number of messages, none of which is much shorter than the
// others, within the peer's window.
func TestMessageSizes(t *testing.T) {
	const chunk = 65470 // of a datagram over the loopback device
	for _, tc := range []struct{ bytes, room, messages int }{
		{1, 1 << 20, 1},
		{chunk, 1 << 20, 1},
		{64 << 10, 1 << 20, 2},
		{1 << 20, 2 << 20, 17},
		{1 << 20, 256 << 10, 5},
		{1 << 20, 1, 1},
		{2*chunk + 1, 1 << 20, 3},
	} {
		c := &Conn{}
		c.chunk, c.off, c.limit = chunk, 1000, uint64(1000+tc.room)
		b := make([]byte, tc.bytes)
		messages, shortest, longest := 0, chunk, 0
		for len(b) > 0 && c.off < c.limit {
			n := c.nextBytes(b)
			if n < 1 || n > len(b) || n > chunk || uint64(n) > c.limit-c.off {
				t.Fatalf("%d bytes: a message of %d of %d bytes", tc.bytes, n, len(b))
			}
			messages, shortest, longest = messages+1, min(shortest, n), max(longest, n)
			b, c.off = b[n:], c.off+uint64(n)
		}
		if messages != tc.messages || shortest < longest*9/10 {
			t.Errorf("%d bytes, room for %d: %d messages of %d to %d bytes, want %d", tc.bytes, tc.room,
				messages, shortest, longest, tc.messages)
		}
	}
}
