package trace

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// decoder converts packets to text, with numbers relative to those of the handshakes.
type decoder struct {
	ends  map[uint64]*end // by connection tag
	names map[string]*end // by name
	count map[string]int  // tags told by each node
	lives map[uint64]string
	hdr   frag.Header
	hello frag.Hello
	sack  frag.Sack
}

// end is one side of a connection, as its Hellos describe it.
type end struct {
	name  string // "a:1": the first connection of node a
	tag   uint64
	first seq.Num // its first sequence number
	peer  *end    // the other side, once a Hello has named both
	nonce uint64  // of its latest Hello

	reliable bool // it relies on its network
}

func newDecoder() *decoder {
	return &decoder{
		ends: map[uint64]*end{}, names: map[string]*end{},
		count: map[string]int{}, lives: map[uint64]string{},
	}
}

// learn records what a packet of a node tells about its connection.
func (d *decoder) learn(node string, pkt []byte) {
	payload, err := frag.Decode(pkt, &d.hdr)
	if err != nil || d.hdr.Kind != frag.KindHello && d.hdr.Kind != frag.KindHelloAck ||
		frag.DecodeHello(payload, &d.hello) != nil {
		return
	}
	e := d.ends[d.hello.Tag]
	if e == nil {
		d.count[node]++
		name := node + ":" + strconv.Itoa(d.count[node])
		e = &end{name: name, tag: d.hello.Tag, first: d.hdr.Seq}
		e.reliable = d.hello.Features&frag.FeatureReliable != 0
		d.ends[e.tag], d.names[name] = e, e
	}
	if d.hdr.Kind == frag.KindHello {
		e.nonce = d.hello.Nonce
	}
	if p := d.ends[d.hdr.Conn]; p != nil {
		e.peer, p.peer = p, e
	}
}

// Packet is a packet as a trace shows it.
type Packet struct {
	frag.Header

	Name     string // kind, mark, or "foreign" of another version: "frag", "bye"
	Seq      int64  // relative to the first number of its sender's, if SeqKnown; else absolute
	SeqKnown bool
	Probe    string // of a Hello or HelloAck: "cmd"
}

// Connection is one side of a connection, as its Hellos describe it.
type Connection struct {
	Tag       uint64  // what the other side puts in Header.Conn
	Nonce     uint64  // of the latest Hello of this side
	First     seq.Num // the first number of this side
	PeerFirst seq.Num // that of the other side, 0 while it is not known
	PeerTag   uint64  // the other side's tag, 0 while it is not known
}

// Look decodes a packet with the information of the handshakes that the Writer has seen.
func (w *Writer) Look(pkt []byte) (Packet, error) {
	d := w.d
	payload, err := frag.Decode(pkt, &d.hdr)
	if errors.Is(err, frag.ErrVersion) {
		return Packet{Name: "foreign"}, nil
	}
	if err != nil {
		return Packet{}, err
	}
	p := Packet{Header: d.hdr, Name: kindName(&d.hdr), Seq: int64(d.hdr.Seq)}
	e, sender := d.sides(&d.hdr)
	if d.hdr.Kind != frag.KindNack { // the number in it is the receiver's
		e = sender
	}
	if e != nil {
		p.Seq, p.SeqKnown = int64(d.hdr.Seq.Sub(e.first)), true
	}
	if d.hdr.Kind == frag.KindHello || d.hdr.Kind == frag.KindHelloAck {
		if err := frag.DecodeHello(payload, &d.hello); err != nil {
			return Packet{}, err
		}
		p.Probe = probeName(d.hello.Probe)
	}
	var r frag.Retry
	if d.hdr.Kind == frag.KindRetry && frag.DecodeRetry(payload, &r) == nil {
		p.Probe = probeName(r.Probe)
	}
	return p, nil
}

// Connection finds a side of a connection by its name in the trace, such as "a:1".
func (w *Writer) Connection(name string) (c Connection, ok bool) {
	e := w.d.names[name]
	if e == nil {
		return c, false
	}
	c = Connection{Nonce: e.nonce, Tag: e.tag, First: e.first}
	if e.peer != nil {
		c.PeerFirst, c.PeerTag = e.peer.first, e.peer.tag
	}
	return c, true
}

// appendBrief appends the kind and the number of a packet.
func (d *decoder) appendBrief(b, pkt []byte) []byte {
	payload, err := frag.Decode(pkt, &d.hdr)
	if err != nil {
		return d.appendPacket(b, pkt)
	}
	h := &d.hdr
	b = append(b, kindName(h)...)
	receiver, sender := d.sides(h)
	switch h.Kind {
	case frag.KindFrag, frag.KindChunk, frag.KindPack, frag.KindPart:
		b = appendSeq(b, h.Seq, sender)
	case frag.KindNack:
		b = appendSeq(b, h.Seq, receiver)
	case frag.KindAck:
		b = d.appendAck(b, h)
	case frag.KindHello, frag.KindHelloAck:
		if frag.DecodeHello(payload, &d.hello) == nil {
			b = fmt.Appendf(b, " probe=%s", probeName(d.hello.Probe))
		}
	default:
	}
	return b
}

// sides returns the two sides of the connection of a packet, or nil for an unknown side.
func (d *decoder) sides(h *frag.Header) (receiver, sender *end) {
	if receiver = d.ends[h.Conn]; receiver != nil {
		sender = receiver.peer
	}
	return receiver, sender
}

// appendPacket appends the content of a packet.
func (d *decoder) appendPacket(b, pkt []byte) []byte {
	payload, err := frag.Decode(pkt, &d.hdr)
	if errors.Is(err, frag.ErrVersion) { // magic, version and kind mean the same in all
		return fmt.Appendf(b, "foreign   version=%d kind=%s %d B", pkt[1]>>4, frag.Kind(pkt[1]&0xf),
			len(pkt))
	}
	if err != nil {
		reason := strings.TrimPrefix(err.Error(), "frag: ")
		return fmt.Appendf(b, "not a packet: %s, %d bytes", reason, len(pkt))
	}
	h := &d.hdr
	b = fmt.Appendf(b, "%-9s", kindName(h))
	receiver, sender := d.sides(h)
	b = appendTag(append(b, " to="...), h.Conn, receiver)
	switch h.Kind {
	case frag.KindFrag, frag.KindChunk:
		return d.appendData(b, h, sender)
	case frag.KindPack:
		b = d.appendAck(appendSeq(b, h.Seq, sender), h)
		return appendRecords(b, payload)
	case frag.KindAck:
		if h.Flags&frag.FlagAsk != 0 {
			b = appendSeq(append(b, " asks"...), h.Seq, sender)
		}
		return d.appendSack(d.appendAck(b, h), h, payload, receiver)
	case frag.KindNack:
		b = appendSeq(b, h.Seq, receiver)
		b = fmt.Appendf(b, " refused=%s", nackName(h.Tag))
		if h.Tag == frag.NackRecord {
			b = fmt.Appendf(b, ":%d", payload[0])
		}
		return d.appendAck(b, h)
	case frag.KindReject:
		r := frag.DecodeReject(h, payload)
		b = fmt.Appendf(b, " %s versions=%d..%d", rejectName(h.Tag), r.VersionMin, r.VersionMax)
		if r.Code != 0 {
			b = fmt.Appendf(b, " code=%d", r.Code)
		}
		return b
	case frag.KindRetry:
		var r frag.Retry
		_ = frag.DecodeRetry(payload, &r) // Decode has done it
		return fmt.Appendf(b, " probe=%s seen=%q %d B", probeName(r.Probe), r.Addr, len(pkt))
	case frag.KindPing, frag.KindPong:
		return fmt.Appendf(b, " %d B", len(pkt))
	case frag.KindPart:
		offset, total, slice := frag.ReadPart(payload)
		return fmt.Appendf(appendSeq(b, h.Seq, sender), " at=%d of=%d %d B", offset, total, len(slice))
	default:
		return d.appendHello(b, h, payload, len(pkt))
	}
}

// appendData appends a Frag or Chunk.
func (d *decoder) appendData(b []byte, h *frag.Header, sender *end) []byte {
	mark := h.Kind == frag.KindFrag && h.Flags&frag.FlagPut == 0 && h.Tag > frag.TagUserMax
	if !mark && h.Flags&frag.FlagPut == 0 {
		b = fmt.Appendf(b, " tag=%d", h.Tag)
	}
	b = appendSeq(b, h.Seq, sender)
	if h.Flags&frag.FlagPut != 0 {
		// The upper part of a handle is random, and the lower part is an index.
		b = fmt.Appendf(b, " put=%04x.%d+%d", h.Handle>>16&0xffff, h.Handle&0xffff, h.PutOffset)
	}
	if h.Kind == frag.KindChunk {
		b = fmt.Appendf(b, " frag=%d at=%d of=%d", h.FragID, h.OffsetBytes, h.SizeBytes)
	}
	b = d.appendAck(b, h)
	if h.Flags&frag.FlagLater != 0 {
		b = append(b, " later"...)
	}
	if !mark {
		b = fmt.Appendf(b, " %d B", h.PayloadLen)
	}
	return b
}

// appendRecords appends the number of records of a Pack, and their tags and sizes, where "7:8*3"
// means three records of 8 bytes with tag 7.
func appendRecords(b, payload []byte) []byte {
	at := len(b)
	count, alike := 0, 0
	for len(payload) > 0 {
		tag, data, rest := frag.NextRecord(payload)
		count, alike = count+1, alike+1
		if frag.IsPiece(payload) {
			var h frag.Header
			n := len(frag.DecodePiece(tag, data, &h))
			b = fmt.Appendf(b, " %d:frag=%d at=%d of=%d %d B", tag, h.FragID, h.OffsetBytes, h.SizeBytes, n)
			payload, alike = rest, 0
			continue
		}
		payload = rest
		if len(rest) > 0 {
			if next, nextData, _ := frag.NextRecord(rest); next == tag &&
				len(nextData) == len(data) && !frag.IsPiece(rest) {
				continue
			}
		}
		b = fmt.Appendf(b, " %d:%d", tag, len(data))
		if alike > 1 {
			b = fmt.Appendf(b, "*%d", alike)
		}
		alike = 0
	}
	return slices.Insert(b, at, fmt.Appendf(nil, " records=%d", count)...)
}

// appendAck appends the acknowledgement of a packet that has one.
func (d *decoder) appendAck(b []byte, h *frag.Header) []byte {
	if h.Flags&frag.FlagAck == 0 {
		return b
	}
	b = append(b, " ack="...)
	if receiver := d.ends[h.Conn]; receiver != nil {
		b = strconv.AppendInt(b, int64(h.Ack.Sub(receiver.first)), 10)
	} else {
		b = fmt.Appendf(b, "%#08x", uint32(h.Ack))
	}
	b = fmt.Appendf(b, " credit=%d", h.Credit)
	if h.Flags&frag.FlagDup != 0 {
		b = append(b, " dup"...)
	}
	return b
}

// appendSack appends the content of a selective acknowledgement, which is the number that arrived
// last and its age, the duplicates, and the numbers that arrived beyond a gap.
func (d *decoder) appendSack(b []byte, h *frag.Header, payload []byte, receiver *end) []byte {
	if h.Flags&frag.FlagSack == 0 {
		return b
	}
	frag.DecodeSack(payload, &d.sack)
	var first seq.Num // absolute numbers if the connection is not known
	if receiver != nil {
		first = receiver.first
	}
	number := func(ahead int) int64 { return int64((h.Ack + seq.Num(ahead)).Sub(first)) }
	b = fmt.Appendf(b, " last=%d/%dus copies=%d", int64(d.sack.Last.Sub(first)), d.sack.DelayUs,
		d.sack.Copies)
	sep := " have="
	for _, r := range d.sack.Ranges[:d.sack.Count] {
		from := int(r.Start) + frag.SackAhead
		b = strconv.AppendInt(append(b, sep...), number(from), 10)
		if r.More > 0 {
			b = strconv.AppendInt(append(b, ".."...), number(from+int(r.More)), 10)
		}
		sep = ","
	}
	return b
}

// appendHello appends a Hello or HelloAck.
func (d *decoder) appendHello(b []byte, h *frag.Header, payload []byte, sizeBytes int) []byte {
	m := &d.hello
	if err := frag.DecodeHello(payload, m); err != nil {
		reason := strings.TrimPrefix(err.Error(), "frag: ")
		return fmt.Appendf(b, " (%s), %d bytes", reason, sizeBytes)
	}
	b = fmt.Appendf(b, " probe=%s proven=%02b from=", probeName(m.Probe), m.Proven)
	b = appendTag(b, m.Tag, d.ends[m.Tag])
	b = fmt.Appendf(b, " life=%s", d.life(m.Incarnation))
	if m.Expected != 0 {
		b = fmt.Appendf(b, " expected=%s", d.life(m.Expected))
	}
	if m.Features&frag.FeatureReliable != 0 {
		b = append(b, " reliable"...)
	}
	if len(m.CommandCookie) > 0 || len(m.DataCookie) > 0 {
		b = append(b, " cookies"...)
	}
	return fmt.Appendf(b, " first=%#08x window=%d mtu=%d/%d credit=%d %d B", uint32(h.Seq),
		m.WindowPkts, m.CommandBytes, m.MTUBytes, m.Credit, sizeBytes)
}

// life returns the name of an incarnation.
func (d *decoder) life(incarnation uint64) string {
	if name, ok := d.lives[incarnation]; ok {
		return name
	}
	return fmt.Sprintf("%#x", incarnation)
}

// appendSeq appends a sequence number, relative to its side's first one if that is known, or "-"
// for a packet without a number.
func appendSeq(b []byte, n seq.Num, e *end) []byte {
	b = append(b, " seq="...)
	if e == nil {
		return fmt.Appendf(b, "%#08x", uint32(n))
	}
	if n == 0 && e.reliable && e.peer != nil && e.peer.reliable {
		return append(b, '-')
	}
	return strconv.AppendInt(b, int64(n.Sub(e.first)), 10)
}

// appendTag appends the name of a connection tag.
func appendTag(b []byte, tag uint64, e *end) []byte {
	switch {
	case e != nil:
		return append(b, e.name...)
	case tag == 0:
		return append(b, '-')
	}
	return fmt.Appendf(b, "%#x", tag)
}

func kindName(h *frag.Header) string {
	if h.Kind == frag.KindFrag && h.Flags&frag.FlagPut == 0 {
		switch h.Tag {
		case frag.TagBye:
			return "bye"
		case frag.TagVoid:
			return "void"
		}
	}
	return h.Kind.String()
}

func probeName(p frag.Probe) string {
	if p == frag.ProbeData {
		return "data"
	}
	return "cmd"
}

func nackName(reason uint8) string {
	switch reason {
	case frag.NackAccess:
		return "access"
	case frag.NackNoHandler:
		return "no-handler"
	case frag.NackRecord:
		return "record"
	case frag.NackMemory:
		return "memory"
	case frag.NackBounds:
		return "bounds"
	case frag.NackRight:
		return "right"
	}
	return strconv.Itoa(int(reason))
}

func rejectName(reason uint8) string {
	switch reason {
	case frag.RejectVersion:
		return "version"
	case frag.RejectFull:
		return "full"
	case frag.RejectStale:
		return "stale"
	case frag.RejectOwner:
		return "owner"
	case frag.RejectLater:
		return "later"
	case frag.RejectFeature:
		return "feature"
	case frag.RejectCrowded:
		return "crowded"
	case frag.RejectAddress:
		return "address"
	case frag.RejectKept:
		return "kept"
	}
	return strconv.Itoa(int(reason))
}
