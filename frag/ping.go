package frag

// A Ping tests whether a datagram of a certain size reaches the peer, and whether the peer answers.
// The size of a Ping is the datagram size that the Ping tests. A Pong is at most as large as the
// Ping that it answers.
//
//	payload of a Ping: nonce u64, then zeros
//	payload of a Pong: nonce u64, that of the Ping

// The constants below are sizes of Pings and Pongs, in bytes.
const (
	PingBytesMin = FragHeaderBytes + nonceBytes // the smallest Ping
	PongBytes    = FragHeaderBytes + nonceBytes // every Pong

	nonceBytes = 8
)

// EncodePing writes a whole Ping or Pong of sizeBytes at the start of b, and returns sizeBytes. The
// caller sets the fields Kind (Ping or Pong), Conn and Number of the header h, and EncodePing sets
// all remaining fields of h. The payload is the nonce followed by zeros. EncodePing panics if
// sizeBytes is less than PingBytesMin, greater than the length of the longest packet, or greater
// than len(b).
func EncodePing(b []byte, h *Header, nonce uint64, sizeBytes int) int {
	if sizeBytes < PingBytesMin || sizeBytes > FragHeaderBytes+PayloadBytesMax {
		panic("frag: invalid Ping")
	}
	b = b[:sizeBytes]
	*h = Header{
		Kind: h.Kind, Conn: h.Conn, Number: h.Number,
		PayloadLen: uint16(sizeBytes - FragHeaderBytes),
	}
	h.Encode(b)
	le.PutUint64(b[FragHeaderBytes:], nonce)
	clear(b[PingBytesMin:])
	return sizeBytes
}

// NonceOf returns the nonce in the payload of a Ping or Pong that Decode has accepted.
func NonceOf(payload []byte) uint64 { return le.Uint64(payload) }

// pingLength reports whether n bytes are a valid payload length for a packet of the given kind, a
// Ping or a Pong.
func pingLength(kind Kind, n int) bool {
	return n == nonceBytes || kind == KindPing && n > nonceBytes
}

// allZero reports whether every byte of b is zero.
func allZero(b []byte) bool {
	for len(b) >= 8 {
		if le.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
