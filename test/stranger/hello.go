package stranger

import "bytes"

// hello is the body of section 7, without its extensions except those in ext.
type hello struct {
	incarnation, tag, expected, nonce uint64
	features, required                uint64
	window, fragmentMax, ackDelay     uint32
	mtu, command, credit              uint16
	versionMin, versionMax            byte
	channel, proven, overhead         byte
	ext                               []extension
}

type extension struct {
	kind  byte // with the bit 0x80 of a critical one
	value []byte
}

type retry struct {
	nonce           uint64
	channel         byte
	address, cookie []byte
}

type reject struct {
	versionMin, versionMax byte
	code                   uint16
	nonce                  uint64
}

func (p *packet) decodeHello(b []byte) bool {
	if len(b) < 72 {
		return false
	}
	q := func(at int) uint64 { return le.Uint64(b[at:]) }
	h := &hello{
		incarnation: q(0), tag: q(8), expected: q(16), nonce: q(24), features: q(32),
		required: q(40), window: le.Uint32(b[48:]), fragmentMax: le.Uint32(b[52:]),
		ackDelay: le.Uint32(b[56:]), mtu: le.Uint16(b[60:]), command: le.Uint16(b[62:]),
		credit: le.Uint16(b[64:]), versionMin: b[66], versionMax: b[67], channel: b[68],
		proven: b[69], overhead: b[70],
	}
	p.hello = h
	ok := h.incarnation != 0 && h.tag != 0 && h.required&^h.features == 0 &&
		h.window >= 1 && h.window <= 65536 && h.fragmentMax != 0 && h.ackDelay <= 1000000 &&
		h.mtu >= 256 && h.command >= 256 && h.versionMin >= 1 && h.versionMax <= 15 &&
		h.versionMin <= 2 && h.versionMax >= 2 && h.channel <= 1 && h.proven <= 3 &&
		h.overhead <= 64 && b[71] == 0
	return ok && h.decodeExtensions(b[72:])
}

func (h *hello) decodeExtensions(b []byte) bool {
	last := byte(0)
	for len(b) > 0 {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return false
		}
		kind, n := b[0]&0x7F, int(b[1])
		if kind <= last {
			return false
		}
		last = kind
		e := extension{b[0], b[2 : 2+n]}
		if kind <= 7 && (b[0]&0x80 != 0 || !extensionFits(kind, e.value)) {
			return false
		}
		h.ext, b = append(h.ext, e), b[2+n:]
	}
	return true
}

func extensionFits(kind byte, v []byte) bool {
	switch kind {
	case 1, 2:
		return len(v) >= 1 && len(v) <= 64
	case 3, 4, 5:
		return len(v) >= 1 && len(v) <= 32
	case 7:
		return len(v) >= 1 && len(v) <= 64 && bytes.Count(v, []byte{0}) == len(v)
	}
	return len(v) == 4 && le.Uint32(v) != 0
}

// pad extends a Hello to the length of the longest answer, if it is shorter.
func (h *hello) pad() {
	want, n := 72+34+6, 72
	for _, e := range h.ext {
		n += 2 + len(e.value)
		if e.kind <= 2 {
			want += 2 + len(e.value)
		}
	}
	if n < want {
		h.ext = append(h.ext, extension{7, make([]byte, max(want-n-2, 1))})
	}
}

func (h *hello) body() (b []byte) {
	for _, v := range []uint64{
		h.incarnation, h.tag, h.expected, h.nonce, h.features, h.required,
	} {
		b = le.AppendUint64(b, v)
	}
	for _, v := range []uint32{h.window, h.fragmentMax, h.ackDelay} {
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint16{h.mtu, h.command, h.credit} {
		b = le.AppendUint16(b, v)
	}
	b = append(b, h.versionMin, h.versionMax, h.channel, h.proven, h.overhead, 0)
	for _, e := range h.ext {
		b = append(append(b, e.kind, byte(len(e.value))), e.value...)
	}
	return b
}

func (p *packet) decodeRetry(b []byte) bool {
	if len(b) < 12 {
		return false
	}
	addr, cookie := int(b[9]), int(b[10])
	if b[8] > 1 || addr > 64 || cookie < 1 || cookie > 32 || b[11] != 0 ||
		len(b) != 12+addr+cookie {
		return false
	}
	p.retry = &retry{le.Uint64(b), b[8], b[12 : 12+addr], b[12+addr:]}
	return true
}

func (r *retry) body() []byte {
	b := append(le.AppendUint64(nil, r.nonce), r.channel, byte(len(r.address)),
		byte(len(r.cookie)), 0)
	return append(append(b, r.address...), r.cookie...)
}

func (p *packet) decodeReject(b []byte) bool {
	if len(b) != 12 || p.tag < 1 || p.tag > 9 {
		return false
	}
	p.reject = &reject{b[0], b[1], le.Uint16(b[2:]), le.Uint64(b[4:])}
	r := p.reject
	return r.versionMin >= 1 && r.versionMin <= r.versionMax && r.versionMax <= 15 &&
		(r.code == 0 || p.tag == 4 || p.tag == 5 || p.tag == 9)
}

func (r *reject) body() []byte {
	b := le.AppendUint16([]byte{r.versionMin, r.versionMax}, r.code)
	return le.AppendUint64(b, r.nonce)
}
