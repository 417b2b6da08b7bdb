package frag

// The constants below are sizes, in bytes, of the answers to a Hello from an address that is not
// validated.
const (
	RejectBytes   = FragHeaderBytes + rejectBodyBytes // a whole Reject
	RejectBytesV1 = 26                                // a whole Reject of version 1
	RetryBytesMax = FragHeaderBytes + retryHeadBytes + AddrBytesMax + CookieBytesMax

	rejectBodyBytes = 12
	retryHeadBytes  = 12
)

// Retry is the body of a packet of the kind Retry. A Retry answers a Hello from a source address
// that is not validated yet. A module that receives a Retry sends its Hello again, and includes the
// cookie from the Retry.
type Retry struct {
	Nonce  uint64 // nonce of the Hello
	Probe  Probe  // channel of the Hello
	Addr   []byte // source address of the Hello as seen by the answering end
	Cookie []byte // cookie for the next Hello, 1 to CookieBytesMax bytes
}

// Encode writes a whole Retry at the start of b, and returns the length of the packet. The argument
// "tag" of Retry.Encode is the connection tag that the Hello contains (Hello.Tag). Retry.Encode
// panics if a field of the Retry is out of its range.
func (r *Retry) Encode(b []byte, tag uint64) int {
	if len(r.Addr) > AddrBytesMax || len(r.Cookie) < 1 || len(r.Cookie) > CookieBytesMax ||
		r.Probe >= ProbeCount {
		panic("frag: invalid Retry")
	}
	n := retryHeadBytes + len(r.Addr) + len(r.Cookie)
	h := Header{Kind: KindRetry, Conn: tag, PayloadLen: uint16(n)}
	h.Encode(b)
	p := b[FragHeaderBytes:][:n]
	le.PutUint64(p, r.Nonce)
	p[8], p[9], p[10], p[11] = byte(r.Probe), byte(len(r.Addr)), byte(len(r.Cookie)), 0
	copy(p[retryHeadBytes+copy(p[retryHeadBytes:], r.Addr):], r.Cookie)
	return FragHeaderBytes + n
}

// DecodeRetry decodes the payload of a Retry that Decode has accepted. The slices in *r alias the
// slice "payload". The errors of DecodeRetry are ErrShort, ErrLength, ErrReserved, and (for a field
// out of its range) ErrHello.
func DecodeRetry(payload []byte, r *Retry) error {
	if len(payload) < retryHeadBytes {
		return ErrShort
	}
	addrEnd := retryHeadBytes + int(payload[9])
	end := addrEnd + int(payload[10])
	switch {
	case payload[8] >= ProbeCount || payload[9] > AddrBytesMax ||
		payload[10] < 1 || payload[10] > CookieBytesMax:
		return ErrHello
	case payload[11] != 0:
		return ErrReserved
	case len(payload) != end:
		return ErrLength
	}
	*r = Retry{
		Nonce: le.Uint64(payload), Probe: Probe(payload[8]),
		Addr:   payload[retryHeadBytes:addrEnd:addrEnd],
		Cookie: payload[addrEnd:end:end],
	}
	return nil
}

// RetryBytes returns the length of a whole Retry packet with an address and a cookie of the given
// lengths.
func RetryBytes(addrBytes, cookieBytes int) int {
	return FragHeaderBytes + retryHeadBytes + addrBytes + cookieBytes
}

// The constants below are the length of a Hello of version 1, and the offsets of the fields that
// ForeignHello reads. The prefix "v1" in the name of a constant stands for protocol version 1, and
// the prefix "later" stands for all versions above 1.
const (
	v1HelloBytes  = 208
	v1TagAt       = 32
	v1NameLenAt   = 74
	v1NameAt      = 80
	laterTagAt    = FragHeaderBytes + 8
	laterNonceAt  = FragHeaderBytes + 24
	laterExtendAt = FragHeaderBytes + helloFixedBytes
)

// ForeignHello examines a packet for which Decode returned ErrVersion. The result "ok" of
// ForeignHello says whether the packet is a Hello of a foreign protocol version. The result f of
// ForeignHello contains the fields of the Hello that are needed to answer it with a Reject. From a
// Hello of a version above 1, ForeignHello reads only fields that have the same position in all
// versions above 1.
func ForeignHello(pkt []byte) (f Foreign, ok bool) {
	if len(pkt) < 2 || pkt[0] != Magic || Kind(pkt[1]&0x0F) != KindHello {
		return Foreign{}, false
	}
	switch f.Version = pkt[1] >> 4; f.Version {
	case Version, 0:
		return Foreign{}, false
	case 1:
		if len(pkt) < v1HelloBytes || pkt[v1NameLenAt] > AddrBytesMax {
			return Foreign{}, false
		}
		end := v1NameAt + int(pkt[v1NameLenAt])
		f.Tag, f.CommandName = le.Uint64(pkt[v1TagAt:]), pkt[v1NameAt:end:end]
	default:
		if len(pkt) < laterExtendAt {
			return Foreign{}, false
		}
		f.Tag, f.Nonce = le.Uint64(pkt[laterTagAt:]), le.Uint64(pkt[laterNonceAt:])
		var m Hello
		if m.decodeExtensions(pkt[laterExtendAt:]) != nil {
			return Foreign{}, false
		}
		f.CommandName = m.CommandName
	}
	if f.Tag == 0 {
		return Foreign{}, false
	}
	return f, true
}

// Foreign contains the fields that ForeignHello can decode from a Hello whose protocol version is
// not Version.
type Foreign struct {
	Tag         uint64 // the connection tag of the Hello's sender
	Nonce       uint64 // 0 in version 1, which has none
	CommandName []byte // the sender's command endpoint, aliasing the packet; may be empty
	Version     uint8
}

// Reject is the body of a packet that refuses a Hello.
type Reject struct {
	Reason     uint8 // one of the Reject constants
	VersionMin uint8 // the versions that the sender of the Reject speaks
	VersionMax uint8 //
	// If the Reason of a Reject is RejectOwner or RejectLater, the application that refuses the peer
	// has chosen the Code. If the Reason of a Reject is RejectKept, the Code is a time in
	// milliseconds. If the Reason of a Reject is none of RejectOwner, RejectLater and RejectKept, the
	// Code is 0.
	Code  uint16
	Nonce uint64 // nonce of the Hello, which proves that the sender has received it
}

// EncodeReject writes a Reject at the start of b, and returns the length of the packet. A Reject is
// always shorter than a Hello. The argument "tag" of EncodeReject is the connection tag that the
// Hello contains (Hello.Tag or Foreign.Tag). The argument "version" of EncodeReject is the protocol
// version of the refused Hello (Version or Foreign.Version).
func EncodeReject(b []byte, tag uint64, version uint8, r Reject) int {
	if version == 1 { // a header of 24 bytes, and the versions
		b = b[:RejectBytesV1]
		clear(b)
		b[0], b[1], b[3] = Magic, 1<<4|byte(KindReject), r.Reason
		le.PutUint64(b[4:], tag)
		b[20], b[24], b[25] = 2, r.VersionMin, r.VersionMax
		return RejectBytesV1
	}
	h := Header{Kind: KindReject, Conn: tag, Tag: r.Reason, PayloadLen: rejectBodyBytes}
	b = b[:RejectBytes]
	h.Encode(b)
	b[1] = version<<4 | byte(KindReject)
	p := b[FragHeaderBytes:]
	p[0], p[1] = r.VersionMin, r.VersionMax
	le.PutUint16(p[2:], r.Code)
	le.PutUint64(p[4:], r.Nonce)
	return RejectBytes
}

// DecodeReject decodes a Reject from the header and payload that Decode returned.
func DecodeReject(h *Header, payload []byte) Reject {
	return Reject{
		Reason: h.Tag, VersionMin: payload[0], VersionMax: payload[1], Code: le.Uint16(payload[2:]),
		Nonce: le.Uint64(payload[4:]),
	}
}

// checkAnswer checks the tag, the sequence number, the packet number and the payload length in the
// header of a Reject or a Retry.
func checkAnswer(h *Header) error {
	if h.Seq != 0 || h.Number != 0 {
		return ErrReserved
	}
	if h.Kind == KindRetry {
		if h.Tag != 0 {
			return ErrTag
		}
		if h.PayloadLen < retryHeadBytes+1 {
			return ErrLength
		}
		return nil
	}
	if h.Tag < RejectVersion { // unknown reasons are accepted, because they end a handshake
		return ErrTag
	}
	if h.PayloadLen != rejectBodyBytes {
		return ErrLength
	}
	return nil
}

// checkAnswerBody checks the payload of a Reject or a Retry.
func checkAnswerBody(p []byte, h *Header) error {
	if h.Kind == KindRetry {
		var r Retry
		return DecodeRetry(p, &r)
	}
	r := DecodeReject(h, p)
	if !versionRange(r.VersionMin, r.VersionMax) {
		return ErrBounds
	}
	if r.Code != 0 && !hasCode(r.Reason) {
		return ErrReserved
	}
	return nil
}

func versionRange(lo, hi uint8) bool { return lo >= 1 && lo <= hi && hi <= VersionLimit }

// hasCode reports whether a Reject with the given reason is allowed to have a Code other than 0. A
// Reject with an unknown reason is allowed to have any Code.
func hasCode(reason uint8) bool {
	return reason == RejectOwner || reason == RejectLater || reason == RejectKept ||
		reason > rejectLast
}
