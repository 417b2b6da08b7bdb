package scenario

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/test/sim/trace"
)

// parseInject parses a command that sends a datagram that no module has posted.
func (p *parser) parseInject() func(*world) error {
	if strings.Contains(p.w.peek(), ">") {
		return p.injectMade()
	}
	name := p.w.next("the name of a kept packet")
	if !slices.Contains(p.kept, name) {
		p.w.fail("no packet is kept as %q", name)
	}
	at, patch, hasPatch := 0, []byte(nil), false
	if s, ok := p.w.key("set"); ok {
		at, patch = p.patch(s)
		hasPatch = true
	}
	toNode, toChannel := "", 0
	if s, ok := p.w.key("to"); ok {
		var channel string
		toNode, channel, _ = strings.Cut(s, ".")
		p.knownNode(toNode)
		toChannel = p.channel(channel)
	}
	return func(w *world) error {
		k, ok := w.kept[name]
		if !ok {
			return w.errorf("%s was not seen yet", name)
		}
		data := slices.Clone(k.data)
		if hasPatch && at+len(patch) > len(data) {
			return w.errorf("%s has %d bytes", name, len(data))
		}
		copy(data[min(at, len(data)):], patch)
		to := k.to
		if toNode != "" {
			to = sim.Port{Node: w.node(toNode).index, Index: toChannel}
		}
		w.net.Inject(k.from, to, data)
		return nil
	}
}

func (p *parser) patch(s string) (at int, patch []byte) {
	offset, digits, _ := strings.Cut(s, ":")
	at = int(p.w.number("offset", offset, 0, 1<<16))
	patch, err := hex.DecodeString(digits)
	if err != nil || len(patch) == 0 {
		p.w.fail("set=%s is not OFFSET:HEX", s)
	}
	return at, patch
}

func (p *parser) channel(s string) int {
	switch s {
	case "cmd":
		return 0
	case "data":
		return 1
	}
	p.w.fail("channel %q is neither cmd nor data", s)
	return 0
}

// injectMade parses a packet that the script describes.
func (p *parser) injectMade() func(*world) error {
	r := p.route()
	channel := p.channel(p.w.next("a channel"))
	var raw []byte
	var build func(w *world) ([]byte, error)
	if s, ok := p.w.key("hex"); ok {
		var err error
		if raw, err = hex.DecodeString(s); err != nil {
			p.w.fail("hex: %v", err)
		}
	} else {
		kind := p.w.oneOf("a kind", kinds[:len(kinds)-3]...)
		if kind == "hello" || kind == "hello-ack" {
			build = p.injectHello(r, kind)
		} else {
			build = p.injectPacket(r, kind)
		}
	}
	return func(w *world) (err error) {
		b := raw
		if build != nil {
			if b, err = build(w); err != nil {
				return err
			}
		}
		w.net.Inject(sim.Port{Node: w.node(r.from).index, Index: channel},
			sim.Port{Node: w.node(r.to).index, Index: channel}, b)
		return nil
	}
}

// kindOf holds the kinds of packets by name, where marks are Frags.
var kindOf = map[string]frag.Kind{
	"frag": frag.KindFrag, "bye": frag.KindFrag, "void": frag.KindFrag, "chunk": frag.KindChunk,
	"ack": frag.KindAck, "hello": frag.KindHello, "hello-ack": frag.KindHelloAck,
	"nack": frag.KindNack, "reject": frag.KindReject, "pack": frag.KindPack,
	"part": frag.KindPart, "ping": frag.KindPing, "pong": frag.KindPong,
}

// gridBytes is the size of chunks if a script does not define it.
const gridBytes = 1424

// injectPacket parses the fields of a packet: conn (b:1, by default the latest of the receiver's,
// or a number), seq and ack (relative), credit, credit_bytes (in units of 4096, by default no
// bound), tag, flags (ack+dup+put), id, at, of, handle, offset, first and chunk (the grid), payload
// (bytes, all zero), records (of a pack: TAG:BYTES,TAG:BYTES), record (the tag in a Nack that
// refuses one).
func (p *parser) injectPacket(r route, kind string) func(*world) ([]byte, error) {
	h := frag.Header{
		Kind:        kindOf[kind],
		Tag:         uint8(p.w.keyNumber("tag", defaultTag(kind), 0, 255)),
		Credit:      uint16(p.w.keyNumber("credit", 0, 0, 1<<16-1)),
		FragID:      uint32(p.w.keyNumber("id", 1, 0, 1<<32-1)),
		OffsetBytes: uint32(p.w.keyNumber("at", 0, 0, 1<<32-1)),
		SizeBytes:   uint32(p.w.keyNumber("of", 0, 0, 1<<32-1)),
		Handle:      uint64(p.w.keyNumber("handle", 0, 0, 1<<63-1)),
		PutOffset:   uint64(p.w.keyNumber("offset", 0, 0, 1<<63-1)),
		FirstBytes:  uint16(p.w.keyNumber("first", 0, 0, 1<<16-1)),
		ChunkBytes:  uint16(p.w.keyNumber("chunk", gridBytes, 0, 1<<16-1)),
		PayloadLen:  uint16(p.w.keyNumber("payload", 0, 0, 1<<16-1-frag.HeaderBytesMax)),
	}
	if h.FirstBytes == 0 {
		h.FirstBytes = uint16(min(h.SizeBytes, uint32(h.ChunkBytes)))
	}
	number := seq.Num(p.w.keyNumber("seq", 0, -1<<31, 1<<31))
	h.CreditBytes = uint16(p.w.keyNumber("credit_bytes", frag.CreditBytesAll, 0, 1<<16-1))
	ack, hasAck := p.w.key("ack")
	var acked seq.Num
	if hasAck {
		h.Flags |= frag.FlagAck
		acked = seq.Num(p.w.number("ack", ack, -1<<31, 1<<31))
	}
	if s, ok := p.w.key("flags"); ok {
		h.Flags |= p.flags(s)
	}
	payload := p.payload(int(h.PayloadLen))
	h.PayloadLen = uint16(len(payload))
	conn := p.connWord()
	return func(w *world) ([]byte, error) {
		c, tag, err := w.connection(r, conn)
		if err != nil {
			return nil, err
		}
		h := h
		h.Conn = tag
		switch kind {
		case "ack", "reject", "ping", "pong":
		case "nack":
			h.Seq = c.First.Add(uint32(number)) // it names one of the receiver's
		default:
			h.Seq = c.PeerFirst.Add(uint32(number))
		}
		if hasAck {
			h.Ack = c.First.Add(uint32(acked))
		}
		if kind == "reject" {
			b := make([]byte, frag.RejectBytes)
			frag.EncodeReject(b, h.Conn, frag.Version, frag.Reject{
				Reason: h.Tag, VersionMin: frag.Version, VersionMax: frag.Version, Nonce: c.Nonce,
			})
			return b, nil
		}
		b := make([]byte, frag.HeaderBytes(h.Kind, h.Flags)+len(payload))
		copy(b[h.Encode(b):], payload)
		return b, nil
	}
}

// The method payload makes the payload of a packet, which is zeros or the content of the keys
// records and record.
func (p *parser) payload(sizeBytes int) []byte {
	b := make([]byte, sizeBytes)
	if s, ok := p.w.key("record"); ok {
		b = append(b, byte(p.w.number("record", s, 0, 255)))
	}
	if s, ok := p.w.key("records"); ok {
		for one := range strings.SplitSeq(s, ",") {
			tag, size, _ := strings.Cut(one, ":")
			data := make([]byte, p.w.number("record", size, 0, 9000))
			at := len(b)
			b = append(b, make([]byte, frag.RecordHeaderBytes+len(data))...)
			frag.PutRecord(b[at:], uint8(p.w.number("tag", tag, 0, 255)), data)
		}
	}
	if len(b) > 1<<16-1-frag.HeaderBytesMax {
		p.w.fail("a payload of %d bytes", len(b))
		b = nil
	}
	return b
}

func defaultTag(kind string) int64 {
	switch kind {
	case "bye":
		return frag.TagBye
	case "void":
		return frag.TagVoid
	case "frag", "chunk", "nack":
		return 1
	case "reject":
		return frag.RejectFull
	}
	return 0
}

func (p *parser) flags(s string) (f frag.Flags) {
	for name := range strings.SplitSeq(s, "+") {
		switch name {
		case "ack":
			f |= frag.FlagAck
		case "dup":
			f |= frag.FlagDup
		case "put":
			f |= frag.FlagPut
		default:
			p.w.fail("unknown flag %q", name)
		}
	}
	return f
}

// connWord parses the key conn, where "" means the receiver's latest connection.
func (p *parser) connWord() string {
	s, _ := p.w.key("conn")
	if s != "" && !strings.Contains(s, ":") {
		p.w.number("conn", s, 0, 1<<63-1)
	}
	return s
}

// connection finds the receiver's side of a connection by its name in the trace.
func (w *world) connection(r route, name string) (c trace.Connection, tag uint64, err error) {
	if name != "" && !strings.Contains(name, ":") {
		tag, err = strconv.ParseUint(name, 0, 64)
		return c, tag, err
	}
	if name == "" {
		n := 1
		for ; ; n++ {
			if _, ok := w.trace.Connection(fmt.Sprintf("%s:%d", r.to, n)); !ok {
				break
			}
		}
		name = fmt.Sprintf("%s:%d", r.to, n-1)
	}
	c, ok := w.trace.Connection(name)
	if !ok {
		return c, 0, w.errorf("no connection %s was seen", name)
	}
	return c, c.Tag, nil
}

// injectHello parses the fields of a Hello: conn (0 if not said), from (its sender's tag, a:1 or a
// number), incarnation, expected, probe, proven, first.
func (p *parser) injectHello(r route, kind string) func(*world) ([]byte, error) {
	probe := 0
	if s, ok := p.w.key("probe"); ok {
		if probe = slices.Index(probes, s); probe < 0 {
			p.w.fail("probe %q is none of %s", s, strings.Join(probes, ", "))
			probe = 0
		}
	}
	conn, from := p.connWord(), ""
	if s, ok := p.w.key("from"); ok {
		if from = s; !strings.Contains(s, ":") {
			p.w.number("from", s, 1, 1<<63-1)
		}
	}
	m := frag.Hello{
		Incarnation: uint64(p.w.keyNumber("incarnation", 0xabcd, 1, 1<<63-1)),
		Tag:         0x5c210001,
		Expected:    uint64(p.w.keyNumber("expected", 0, 0, 1<<63-1)),
		Probe:       frag.Probe(probe),
		Proven:      uint8(p.w.keyNumber("proven", 0, 0, int64(frag.ProvenAll))),
		WindowPkts:  4096, FragBytesMax: 1 << 20, MTUBytes: 1472, CommandBytes: 768, Credit: 1,
		VersionMin: frag.Version, VersionMax: frag.Version,
	}
	first := seq.Num(p.w.keyNumber("first", 0, 0, 1<<32-1))
	return func(w *world) ([]byte, error) {
		m, h := m, frag.Header{Kind: kindOf[kind], Seq: first}
		var err error
		if conn != "" {
			if _, h.Conn, err = w.connection(r, conn); err != nil {
				return nil, err
			}
		}
		if from != "" {
			if _, m.Tag, err = w.connection(r, from); err != nil {
				return nil, err
			}
		}
		node := w.node(r.from).index
		m.CommandName, m.DataName = sim.Port{Node: node}.Name(), sim.Port{Node: node, Index: 1}.Name()
		b := make([]byte, frag.HelloBytesMax)
		return b[:m.Encode(b, &h)], nil
	}
}
