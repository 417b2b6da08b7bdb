package wireshark

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gobtl/frag"
)

// packet is a datagram as package frag reads it.
type packet struct {
	frag.Header
	payload []byte
	hello   *frag.Hello // of a Hello or HelloAck
}

// decode is package frag's verdict on a datagram.
func decode(pkt []byte) (*packet, error) {
	p := new(packet)
	var err error
	if p.payload, err = frag.Decode(pkt, &p.Header); err != nil {
		return nil, err
	}
	if p.Kind == frag.KindHello || p.Kind == frag.KindHelloAck {
		p.hello = new(frag.Hello)
		if err := frag.DecodeHello(p.payload, p.hello); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *packet) put() bool  { return p.Flags&frag.FlagPut != 0 }
func (p *packet) mark() bool { return p.Kind == frag.KindFrag && p.Tag > frag.TagUserMax }

// ofSack is a field of the Sack of an Ack.
func ofSack(name string, get func(*frag.Sack) any) field {
	return field{"gobtl.sack." + name, func(p *packet) any {
		if p.Flags&frag.FlagSack == 0 {
			return nil
		}
		var s frag.Sack
		frag.DecodeSack(p.payload, &s)
		return get(&s)
	}}
}

// field is a field of the dissector that stands on the wire, and its value in a packet: a number,
// text or bytes; nil if the packet does not have it.
type field struct {
	name string
	want func(p *packet) any
}

func when(cond bool, v any) any {
	if cond {
		return v
	}
	return nil
}

func flag1(cond bool) uint64 {
	if cond {
		return 1
	}
	return 0
}

// onWire are all of them.
var onWire = append([]field{
	{"gobtl.magic", func(*packet) any { return frag.Magic }},
	{"gobtl.version", func(*packet) any { return frag.Version }},
	{"gobtl.kind", func(p *packet) any { return p.Kind }},
	{"gobtl.flags", func(p *packet) any { return p.Flags }},
	{"gobtl.flags.reserved", func(*packet) any { return 0 }},
	{"gobtl.flags.ack", func(p *packet) any { return flag1(p.Flags&frag.FlagAck != 0) }},
	{"gobtl.flags.put", func(p *packet) any { return flag1(p.put()) }},
	{"gobtl.flags.op", func(p *packet) any { return flag1(p.Flags&frag.FlagOp != 0) }},
	{"gobtl.flags.dup", func(p *packet) any { return flag1(p.Flags&frag.FlagDup != 0) }},
	{"gobtl.flags.later", func(p *packet) any { return flag1(p.Flags&frag.FlagLater != 0) }},
	{"gobtl.flags.ask", func(p *packet) any { return flag1(p.Flags&frag.FlagAsk != 0) }},
	{"gobtl.flags.sack", func(p *packet) any { return flag1(p.Flags&frag.FlagSack != 0) }},
	ofSack("delay_us", func(s *frag.Sack) any { return s.DelayUs }),
	ofSack("unread_us", func(s *frag.Sack) any { return s.UnreadUs }),
	ofSack("copies", func(s *frag.Sack) any { return s.Copies }),
	ofSack("last", func(s *frag.Sack) any { return s.Last }),
	ofSack("last_number", func(s *frag.Sack) any { return s.LastNumber }),
	ofSack("marks", func(s *frag.Sack) any { return s.Marks }),
	ofSack("last_data", func(s *frag.Sack) any {
		if s.LastData {
			return uint8(1)
		}
		return uint8(0)
	}),
	ofSack("start", func(s *frag.Sack) any {
		var values each
		for _, r := range s.Ranges[:s.Count] {
			values = append(values, r.Start)
		}
		return when(len(values) > 0, values)
	}),
	ofSack("more", func(s *frag.Sack) any {
		var values each
		for _, r := range s.Ranges[:s.Count] {
			values = append(values, r.More)
		}
		return when(len(values) > 0, values)
	}),
	{"gobtl.tag", func(p *packet) any { return p.Tag }},
	{"gobtl.mark", func(p *packet) any { return when(p.mark(), p.Tag) }},
	{"gobtl.nack.reason", func(p *packet) any { return when(p.Kind == frag.KindNack, p.Tag) }},
	{"gobtl.nack.record_tag", func(p *packet) any {
		if p.Kind != frag.KindNack || p.Tag != frag.NackRecord {
			return nil
		}
		return p.payload[0]
	}},
	{"gobtl.reject.reason", func(p *packet) any { return when(p.Kind == frag.KindReject, p.Tag) }},
	{"gobtl.conn", func(p *packet) any { return p.Conn }},
	{"gobtl.number", func(p *packet) any { return p.Number }},
	{"gobtl.seq", func(p *packet) any { return p.Seq }},
	{"gobtl.ack", func(p *packet) any { return p.Ack }},
	{"gobtl.payload_len", func(p *packet) any { return p.PayloadLen }},
	{"gobtl.credit", func(p *packet) any { return p.Credit }},
	{"gobtl.credit_bytes", func(p *packet) any { return p.CreditBytes }},
	{"gobtl.extras_words", func(p *packet) any {
		return (frag.HeaderBytes(p.Kind, p.Flags) - frag.FragHeaderBytes) / 4
	}},
	{"gobtl.reserved", func(*packet) any { return 0 }},
	{"gobtl.chunk.frag_id", func(p *packet) any { return when(p.Kind == frag.KindChunk, p.FragID) }},
	{"gobtl.chunk.size", func(p *packet) any { return when(p.Kind == frag.KindChunk, p.SizeBytes) }},
	{"gobtl.chunk.offset", func(p *packet) any {
		return when(p.Kind == frag.KindChunk, p.OffsetBytes)
	}},
	{"gobtl.chunk.first", func(p *packet) any { return when(p.Kind == frag.KindChunk, p.FirstBytes) }},
	{"gobtl.chunk.bytes", func(p *packet) any { return when(p.Kind == frag.KindChunk, p.ChunkBytes) }},
	{"gobtl.op", func(p *packet) any { return when(p.Flags&frag.FlagOp != 0, p.Op) }},
	{"gobtl.op.code", func(p *packet) any { return when(p.Flags&frag.FlagOp != 0, p.OpCode) }},
	{"gobtl.op.notice_bytes", func(p *packet) any {
		return when(p.Flags&frag.FlagOp != 0, p.OpBytes)
	}},
	{"gobtl.op.reserved", func(p *packet) any { return when(p.Flags&frag.FlagOp != 0, 0) }},
	{"gobtl.put.handle", func(p *packet) any { return when(p.put(), p.Handle) }},
	{"gobtl.put.offset", func(p *packet) any { return when(p.put(), p.PutOffset) }},
	{"gobtl.payload", func(p *packet) any {
		return when(p.Kind <= frag.KindChunk && len(p.payload) > 0 && !p.mark(), p.payload)
	}},
	{"gobtl.bye.code", func(p *packet) any {
		return when(p.mark() && len(p.payload) > 0, frag.ByeCode(p.payload))
	}},
	inRecords("", func(_ uint8, record []byte) any { return record }),
	inRecords(".tag", func(tag uint8, _ []byte) any { return tag }),
	inRecords(".flags", func(_ uint8, record []byte) any { return record[1] }),
	inRecords(".piece", func(_ uint8, record []byte) any { return record[1] & 1 }),
	inRecords(".length", func(_ uint8, record []byte) any {
		return len(record) - frag.RecordHeaderBytes
	}),
	inRecords(".payload", func(_ uint8, record []byte) any {
		payload := record[frag.RecordHeaderBytes:]
		if record[1] == 1 {
			payload = payload[frag.PieceExtraBytes:]
		}
		return when(len(payload) > 0, payload)
	}),
	inPieces(".frag_id", func(h *frag.Header) any { return h.FragID }),
	inPieces(".size", func(h *frag.Header) any { return h.SizeBytes }),
	inPieces(".offset", func(h *frag.Header) any { return h.OffsetBytes }),
	inPieces(".first", func(h *frag.Header) any { return h.FirstBytes }),
	inPieces(".chunk", func(h *frag.Header) any { return h.ChunkBytes }),
	{"gobtl.reject.version_min", func(p *packet) any {
		if p.Kind != frag.KindReject {
			return nil
		}
		return p.payload[0]
	}},
	{"gobtl.reject.version_max", func(p *packet) any {
		if p.Kind != frag.KindReject {
			return nil
		}
		return p.payload[1]
	}},
	ofReject("code", func(r frag.Reject) any { return r.Code }),
	ofReject("nonce", func(r frag.Reject) any { return r.Nonce }),
	ofRetry("nonce", func(r *frag.Retry) any { return r.Nonce }),
	ofRetry("channel", func(r *frag.Retry) any { return r.Probe }),
	ofRetry("address_len", func(r *frag.Retry) any { return len(r.Addr) }),
	ofRetry("cookie_len", func(r *frag.Retry) any { return len(r.Cookie) }),
	ofRetry("reserved", func(*frag.Retry) any { return 0 }),
	ofRetry("cookie", func(r *frag.Retry) any { return r.Cookie }),
	ofPart("offset", func(offset, _ int, _ []byte) any { return offset }),
	ofPart("total", func(_, total int, _ []byte) any { return total }),
	ofPart("slice", func(_, _ int, slice []byte) any { return slice }),
	{"gobtl.ping.nonce", func(p *packet) any {
		if p.Kind != frag.KindPing && p.Kind != frag.KindPong {
			return nil
		}
		return frag.NonceOf(p.payload)
	}},
	{"gobtl.ping.padding", func(p *packet) any {
		if p.Kind != frag.KindPing || len(p.payload) == nonceBytes {
			return nil
		}
		return p.payload[nonceBytes:]
	}},
}, slices.Concat(helloFields(), extensionFields(), nameFields("gobtl.retry.seen_",
	func(p *packet) []byte {
		if r := p.retry(); r != nil {
			return r.Addr
		}
		return nil
	}))...)

const nonceBytes = 8

// ofReject makes a field of the body of a Reject.
func ofReject(name string, get func(frag.Reject) any) field {
	return field{"gobtl.reject." + name, func(p *packet) any {
		if p.Kind != frag.KindReject {
			return nil
		}
		return get(frag.DecodeReject(&p.Header, p.payload))
	}}
}

// retry is the body of a Retry, nil of other packets.
func (p *packet) retry() *frag.Retry {
	var r frag.Retry
	if p.Kind != frag.KindRetry || frag.DecodeRetry(p.payload, &r) != nil {
		return nil
	}
	return &r
}

// ofRetry makes a field of the body of a Retry.
func ofRetry(name string, get func(*frag.Retry) any) field {
	return field{"gobtl.retry." + name, func(p *packet) any {
		if r := p.retry(); r != nil {
			return get(r)
		}
		return nil
	}}
}

// ofPart makes a field of the payload of a Part.
func ofPart(name string, get func(offset, total int, slice []byte) any) field {
	return field{"gobtl.part." + name, func(p *packet) any {
		if p.Kind != frag.KindPart {
			return nil
		}
		return get(frag.ReadPart(p.payload))
	}}
}

// ofExtension makes a field of the extensions that package frag does not know; raw is all of one.
func ofExtension(name string, get func(raw []byte) any) field {
	return field{"gobtl.hello.extension" + name, func(p *packet) any {
		if p.hello == nil {
			return nil
		}
		var values each
		for rest := p.payload[frag.HelloBytesMin-frag.FragHeaderBytes:]; len(rest) > 0; {
			raw := rest[:2+int(rest[1])]
			rest = rest[len(raw):]
			const lastKnown = 8
			if v := get(raw); raw[0]&0x7F > lastKnown && v != nil {
				values = append(values, v)
			}
		}
		return when(len(values) > 0, values)
	}}
}

func extensionFields() []field {
	return []field{
		ofExtension("", func(raw []byte) any { return raw }),
		ofExtension(".type", func(raw []byte) any { return raw[0] & 0x7F }),
		ofExtension(".critical", func(raw []byte) any { return flag1(raw[0]&0x80 != 0) }),
		ofExtension(".length", func(raw []byte) any { return raw[1] }),
		ofExtension(".value", func(raw []byte) any { return when(len(raw) > 2, raw[2:]) }),
	}
}

// each is the values of a field that a packet has several times.
type each []any

// inRecords makes a field that each record of a Pack may have; record is all of it, with its
// header.
func inRecords(name string, want func(tag uint8, record []byte) any) field {
	return field{"gobtl.record" + name, func(p *packet) any {
		if p.Kind != frag.KindPack {
			return nil
		}
		var values each
		for rest := p.payload; len(rest) > 0; {
			tag, data, next := frag.NextRecord(rest)
			if v := want(tag, rest[:frag.RecordHeaderBytes+len(data)]); v != nil {
				values = append(values, v)
			}
			rest = next
		}
		return when(len(values) > 0, values)
	}}
}

// inPieces makes a field that each piece in a Pack has.
func inPieces(name string, want func(h *frag.Header) any) field {
	return inRecords(name, func(tag uint8, record []byte) any {
		if !frag.IsPiece(record) {
			return nil
		}
		var h frag.Header
		frag.DecodePiece(tag, record[frag.RecordHeaderBytes:], &h)
		return want(&h)
	})
}

// inHello makes a field of the body of a Hello.
func inHello(name string, want func(m *frag.Hello) any) field {
	return field{"gobtl.hello." + name, func(p *packet) any {
		if p.hello == nil {
			return nil
		}
		return want(p.hello)
	}}
}

func helloFields() []field {
	list := []field{
		inHello("incarnation", func(m *frag.Hello) any { return m.Incarnation }),
		inHello("tag", func(m *frag.Hello) any { return m.Tag }),
		inHello("expected", func(m *frag.Hello) any { return m.Expected }),
		inHello("features", func(m *frag.Hello) any { return m.Features }),
		inHello("window", func(m *frag.Hello) any { return m.WindowPkts }),
		inHello("fragment_max", func(m *frag.Hello) any { return m.FragBytesMax }),
		inHello("mtu", func(m *frag.Hello) any { return m.MTUBytes }),
		inHello("command_bytes", func(m *frag.Hello) any { return m.CommandBytes }),
		inHello("credit", func(m *frag.Hello) any { return m.Credit }),
		inHello("version_min", func(m *frag.Hello) any { return m.VersionMin }),
		inHello("version_max", func(m *frag.Hello) any { return m.VersionMax }),
		inHello("nonce", func(m *frag.Hello) any { return m.Nonce }),
		inHello("required", func(m *frag.Hello) any { return m.Required }),
		inHello("overhead", func(m *frag.Hello) any { return m.Overhead }),
		inHello("probe", func(m *frag.Hello) any { return m.Probe }),
		inHello("proven", func(m *frag.Hello) any { return m.Proven }),
		inHello("away_ms", func(m *frag.Hello) any { return when(m.AwayMs != 0, m.AwayMs) }),
		inHello("padding", func(m *frag.Hello) any {
			return when(m.Padding != 0, strings.Repeat("00", int(m.Padding)))
		}),
		inHello("moved", func(m *frag.Hello) any {
			return when(len(m.Moved) > 0, hex.EncodeToString(m.Moved))
		}),
		inHello("ack_delay_us", func(m *frag.Hello) any { return m.AckDelayUs }),
	}
	for bit := range frag.Probe(frag.ProbeCount) {
		list = append(list, inHello(fmt.Sprintf("proven.%d", bit), func(m *frag.Hello) any {
			return flag1(m.Proven&bit.Bit() != 0)
		}))
	}
	for _, e := range []struct {
		name string
		get  func(m *frag.Hello) []byte
	}{
		{"command_cookie", func(m *frag.Hello) []byte { return m.CommandCookie }},
		{"data_cookie", func(m *frag.Hello) []byte { return m.DataCookie }},
		{"label", func(m *frag.Hello) []byte { return m.Label }},
	} {
		list = append(list, inHello(e.name, func(m *frag.Hello) any {
			return when(len(e.get(m)) > 0, e.get(m))
		}))
	}
	list = append(list, inHello("reserved", func(*frag.Hello) any { return 0 }))
	name := func(get func(m *frag.Hello) []byte) func(p *packet) []byte {
		return func(p *packet) []byte {
			if p.hello == nil {
				return nil
			}
			return get(p.hello)
		}
	}
	return slices.Concat(list,
		nameFields("gobtl.hello.command_", name(func(m *frag.Hello) []byte { return m.CommandName })),
		nameFields("gobtl.hello.data_", name(func(m *frag.Hello) []byte { return m.DataName })))
}

// nameFields are an address, and what it says if it is one of a provider.
func nameFields(prefix string, name func(p *packet) []byte) []field {
	return []field{
		{prefix + "name", func(p *packet) any { return when(len(name(p)) > 0, name(p)) }},
		{prefix + "addr", func(p *packet) any {
			addr, ok := sockaddr(name(p))
			return when(ok && addr.Addr().Is4(), addr.Addr().String())
		}},
		{prefix + "addr6", func(p *packet) any {
			addr, ok := sockaddr(name(p))
			return when(ok && addr.Addr().Is6(), addr.Addr().String())
		}},
		{prefix + "port", func(p *packet) any {
			addr, ok := sockaddr(name(p))
			return when(ok, addr.Port())
		}},
	}
}

// sockaddr reads a sockaddr_in or sockaddr_in6, or an address of the provider udp.
func sockaddr(name []byte) (netip.AddrPort, bool) {
	if len(name) == 7 && name[0] == 4 || len(name) == 19 && name[0] == 6 {
		ip, _ := netip.AddrFromSlice(name[3:])
		return netip.AddrPortFrom(ip, uint16(name[1])<<8|uint16(name[2])), true
	}
	if len(name) < 8 {
		return netip.AddrPort{}, false
	}
	port := uint16(name[2])<<8 | uint16(name[3])
	switch {
	case name[0] == 2 && name[1] == 0:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(name[4:8])), port), true
	case name[0] == 10 && name[1] == 0 && len(name) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(name[8:24])), port), true
	}
	return netip.AddrPort{}, false
}

// text is a value as normal makes it of what tshark prints.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return hex.EncodeToString(v)
	case string:
		return v
	case each:
		list := make([]string, len(v))
		for i := range v {
			list[i] = text(v[i])
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprintf("%d", v)
}

// normal makes a value that tshark prints comparable: numbers decimal, bytes without colons.
func normal(printed string, want any) string {
	switch want := want.(type) {
	case each:
		list := strings.Split(printed, ",")
		for i := range list {
			list[i] = normal(list[i], want[0])
		}
		return strings.Join(list, ",")
	case []byte:
		return strings.ReplaceAll(printed, ":", "")
	case string, nil:
		return printed
	}
	switch printed {
	case "True":
		return "1"
	case "False":
		return "0"
	}
	n, err := strconv.ParseUint(printed, 0, 64)
	if err != nil {
		return printed
	}
	return strconv.FormatUint(n, 10)
}

// apart cuts a captured datagram into its packets: more than one if the interface has them joined.
func apart(pkt []byte) (parts [][]byte) {
	for len(pkt) >= frag.FragHeaderBytes {
		header := frag.HeaderBytes(frag.Kind(pkt[1]&0x0F), frag.Flags(pkt[2]))
		n := min(len(pkt), header+int(pkt[24])+int(pkt[25])<<8)
		parts, pkt = append(parts, pkt[:n]), pkt[n:]
	}
	if len(pkt) > 0 {
		parts = append(parts, pkt)
	}
	return parts
}

// all is the values of a field in packets that are joined.
func all(f field, joined []*packet) any {
	var values each
	for _, p := range joined {
		switch v := f.want(p).(type) {
		case nil:
		case each:
			values = append(values, v...)
		default:
			values = append(values, v)
		}
	}
	return when(len(values) > 0, values)
}

// checkFields compares every field of every packet of a capture with package frag. filter chooses
// the frames; each must be one packet, or several that are joined. It returns the packets, and how
// often each field was there.
func checkFields(t *testing.T, file, filter string, args ...string) ([]*packet, map[string]int) {
	t.Helper()
	names := []string{
		"frame.number", "_ws.col.Protocol", "_ws.expert.severity", "udp.payload",
		"_ws.malformed",
	}
	fixed := len(names)
	for _, f := range onWire {
		names = append(names, f.name)
	}
	var packets []*packet
	seen := map[string]int{}
	for _, row := range rows(t, file, names, append(args, "-Y", filter)...) {
		frame := row[0]
		pkt, err := hex.DecodeString(strings.ReplaceAll(row[3], ":", ""))
		if err != nil {
			t.Fatalf("frame %s: %v", frame, err)
		}
		var joined []*packet
		for _, part := range apart(pkt) {
			p, err := decode(part)
			if err != nil {
				t.Fatalf("frame %s is no packet: %v\n%x", frame, err, pkt)
			}
			joined = append(joined, p)
		}
		if row[1] != "gobtl" || row[4] != "" {
			t.Fatalf("frame %s is of protocol %s, malformed %q", frame, row[1], row[4])
		}
		for severity := range strings.SplitSeq(row[2], ",") {
			const errorSeverity = 0x00800000
			if n, err := strconv.ParseUint(severity, 0, 64); err == nil && n >= errorSeverity {
				t.Errorf("frame %s: an expert error", frame)
			}
		}
		for i, f := range onWire {
			want := all(f, joined)
			if got := normal(row[fixed+i], want); got != text(want) {
				t.Errorf("frame %s, %v: %s is %q, want %q", frame, joined[0].Kind, f.name, got, text(want))
			}
			if want != nil {
				seen[f.name]++
			}
		}
		packets = append(packets, joined...)
	}
	return packets, seen
}
