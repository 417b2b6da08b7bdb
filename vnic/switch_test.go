package vnic

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/internal/mono"
)

// side is a port with both its directions, on a host of its own.
type side struct {
	t      *testing.T
	tables *Tables
	fdb    FDB
	near   Neighbours
	out    *Egress
	in     *Ingress
	host   Host
}

// newSide makes a port of a switch whose members are the given LIDs; change may alter its tables.
func newSide(t *testing.T, vesw uint16, lid uint32, members []uint32, change func(*Tables)) *side {
	s := &side{t: t}
	s.tables = &Tables{
		Info: VportInfo{
			VESW: vesw, McastDLID: GroupLID(vesw), EthMTU: 1500, EncapSLID: lid,
			BaseMAC: MACFor(vesw, lid), ConfigState: StateForwarding, OperState: StateForwarding,
		},
		Options: Options{}.WithDefaults(), Members: members,
	}
	if change != nil {
		change(s.tables)
	}
	s.fdb.Configure(s.tables.Options)
	s.out = NewEgress(&s.fdb, &s.near, nil, 1)
	s.in = NewIngress(&s.fdb, &s.near, nil)
	s.set(s.tables)
	return s
}

func (s *side) set(t *Tables) {
	s.tables = t
	s.out.SetTables(t)
	s.host.SetTables(s.in, t)
}

// frame makes a frame of a type; vlan below 0 is none, else the tag's 16 bits.
func frame(dst, src MAC, vlan int, kind uint16, payload ...byte) []byte {
	f := append(dst.Bytes(), src.Bytes()...)
	if vlan >= 0 {
		f = be.AppendUint16(f, typeVLAN)
		f = be.AppendUint16(f, uint16(vlan))
	}
	f = be.AppendUint16(f, kind)
	f = append(f, payload...)
	for len(f) < FrameBytesMin {
		f = append(f, 0)
	}
	return f
}

// count expects a counter of a part, and nothing else of its errors.
func (s *side) count(what string, c *Counts, want Counter, n uint64) {
	s.t.Helper()
	if c[want] != n {
		s.t.Errorf("%s: %v is %d, want %d", what, want, c[want], n)
	}
}

const tick = mono.Time(1)

func TestForwarding(t *testing.T) {
	a := newSide(t, 5, 1, []uint32{1, 2, 3, 0x123456}, func(x *Tables) {
		x.MACs, _ = NewMACTable(7, []MACEntry{
			{MAC: 0x001122334455, DLID: 2},
			{MAC: 0x001122334466, DLID: 3, SD: sourceEntry},
			{MAC: 0x001122334477, DLID: 1},
			{MAC: 0x001122334488, DLID: 9},
			{MAC: 0x001122334499, DLID: 0},
		})
	})
	local := MACFor(5, 0x123456)
	for _, c := range []struct {
		name    string
		dst     MAC
		verdict Verdict
		dlid    uint32
		drop    Counter
	}{
		{"table", 0x001122334455, Unicast, 2, 0},
		{"source entries are no destinations", 0x001122334466, Dropped, 0, TxDLIDZero},
		{"to oneself", 0x001122334477, Dropped, 0, TxSelf},
		{"to no member", 0x001122334488, Dropped, 0, TxNoPeer},
		{"DLID 0", 0x001122334499, Dropped, 0, TxDLIDZero},
		{"broadcast", Broadcast, ToGroup, GroupLID(5), 0},
		{"multicast", 0x01005E000001, ToGroup, GroupLID(5), 0},
		{"LID in the address", local, Unicast, 0x123456, 0},
		{"LID of nobody in the address", MACFor(5, 77), Dropped, 0, TxNoPeer},
		{"unknown, no default port", 0x00AABBCCDDEE, Dropped, 0, TxDLIDZero},
	} {
		a.out.Counts = Counts{}
		d := a.out.Forward(tick, frame(c.dst, 0x020000000001, -1, typeIPv4), 60)
		if d.Verdict != c.verdict || d.Header.DLID != c.dlid {
			t.Errorf("%s: verdict %d to %#x, want %d to %#x", c.name, d.Verdict, d.Header.DLID, c.verdict,
				c.dlid)
		}
		if c.verdict == Dropped {
			a.count(c.name, &a.out.Counts, c.drop, 1)
			a.count(c.name, &a.out.Counts, TxErrors, 1)
		}
	}
	if d := a.out.Forward(tick, make([]byte, 1519), 1519); d.Verdict != Dropped ||
		a.out.Counts[TxOversize] != 1 {
		t.Errorf("a frame above the MTU: verdict %d", d.Verdict)
	}
}

// TestRouter: unknown unicast goes to a default port, picked by entropy from the set bits.
func TestRouter(t *testing.T) {
	a := newSide(t, 5, 1, []uint32{1, 20, 30, 40}, func(x *Tables) {
		x.Info.DefPortMask = 1<<2 | 1<<5 | 1<<15
		x.Info.UcastDLID[2], x.Info.UcastDLID[5], x.Info.UcastDLID[15] = 20, 30, 40
	})
	// The table of 32 is filled with 20, 30, 40, 20, 30, ... ; the index is (e&15)+(e>>4).
	for _, c := range []struct {
		entropy uint8
		want    uint32
	}{{0, 20}, {1, 30}, {2, 40}, {3, 20}, {0x10, 30}, {0xFF, 20}, {0xF0, 20}, {0x1F, 30}} {
		if got, ok := a.tables.router(c.entropy); !ok || got != c.want {
			t.Errorf("entropy %#x: default port %d, want %d", c.entropy, got, c.want)
		}
	}
	d := a.out.Forward(tick, frame(0x00AABBCCDDEE, 0x020000000001, -1, typeIPv4), 60)
	want, _ := a.tables.router(uint8(d.Header.Entropy))
	if d.Verdict != Unicast || d.Header.DLID != want {
		t.Errorf("verdict %d to %d, want %d", d.Verdict, d.Header.DLID, want)
	}
}

// TestPriorities: the priority in a VLAN tag picks the service class, and that of VLAN 0 too.
func TestPriorities(t *testing.T) {
	a := newSide(t, 5, 1, []uint32{1, 2}, func(x *Tables) {
		for i := range 8 {
			x.Info.PCPToSCUni[i], x.Info.PCPToSCMulti[i] = uint8(10+i), uint8(20+i)
		}
		x.Info.SCUni, x.Info.SCMulti = 3, 4
		x.Info.RC = 1 | 2<<4 | 3<<8 | 4<<12 | 5<<16 | 6<<20 | 7<<24
	})
	to := MACFor(5, 2)
	for pcp := range 8 {
		for _, vid := range []int{0, 100} {
			f := frame(to, 2<<40|1, pcp<<13|vid, typeARP)
			if d := a.out.Forward(tick, f, 60); d.Header.SC != uint8(10+pcp) || d.Header.RC != 1 {
				t.Errorf("priority %d, VLAN %d: SC %d, RC %d", pcp, vid, d.Header.SC, d.Header.RC)
			}
			f = frame(Broadcast, 2<<40|1, pcp<<13|vid, typeARP)
			if d := a.out.Forward(tick, f, 60); d.Header.SC != uint8(20+pcp) {
				t.Errorf("priority %d, VLAN %d, broadcast: SC %d", pcp, vid, d.Header.SC)
			}
		}
	}
	if d := a.out.Forward(tick, frame(to, 2<<40|1, -1, typeARP), 60); d.Header.SC != 3 {
		t.Errorf("without a tag: SC %d", d.Header.SC)
	}
	ip4 := func(proto byte) []byte {
		p := make([]byte, 40)
		p[0], p[9] = 0x45, proto
		return p
	}
	for proto, rc := range map[byte]uint8{1: 2, protoUDP: 3, protoTCP: 4} {
		if d := a.out.Forward(tick, frame(to, 2<<40|1, -1, typeIPv4, ip4(proto)...),
			60); d.Header.RC != rc {
			t.Errorf("IPv4, protocol %d: RC %d, want %d", proto, d.Header.RC, rc)
		}
	}
	ip6 := func(proto byte) []byte {
		p := make([]byte, 60)
		p[0], p[6] = 0x60, proto
		return p
	}
	for proto, rc := range map[byte]uint8{58: 5, protoTCP: 6, protoUDP: 7} {
		if d := a.out.Forward(tick, frame(to, 2<<40|1, -1, typeIPv6, ip6(proto)...),
			74); d.Header.RC != rc {
			t.Errorf("IPv6, protocol %d: RC %d, want %d", proto, d.Header.RC, rc)
		}
	}
}

// TestAccept: each reason to refuse a packet has its counter, and only it counts.
func TestAccept(t *testing.T) {
	b := newSide(t, 5, 2, []uint32{1, 2, 3}, func(x *Tables) { x.Info.PKey = 0x8001 })
	h := Header{SLID: 1, DLID: 2, VESW: 5, PKey: 0x8001}
	f := frame(MACFor(5, 2), 2<<40|9, -1, typeIPv4)
	for _, c := range []struct {
		name   string
		from   uint32
		header Header
		frame  []byte
		port   bool
		want   Counter
	}{
		{"nobody known", 0, h, f, false, RxForged},
		{"another's SLID", 3, h, f, false, RxForged},
		{"no such switch", 1, Header{SLID: 1, DLID: 2, VESW: 6, PKey: 0x8001}, f, false, RxBadVESW},
		{"equal mod 256", 1, Header{SLID: 1, DLID: 2, VESW: 5 + 256, PKey: 0x8001}, f, false, RxBadVESW},
		{"partition", 1, Header{SLID: 1, DLID: 2, VESW: 5}, f, true, RxBadPKey},
		{"no member", 9, Header{SLID: 9, DLID: 2, VESW: 5, PKey: 0x8001}, f, true, RxNotMember},
		{"for another", 1, Header{SLID: 1, DLID: 3, VESW: 5, PKey: 0x8001}, f, true, RxBadDLID},
		{"one's own", 2, Header{SLID: 2, DLID: 2, VESW: 5, PKey: 0x8001}, f, true, RxBadDLID},
		{"oversize", 1, h, append(f, make([]byte, 1459)...), true, RxOversize},
	} {
		b.host.Strangers, b.in.Counts = Counts{}, Counts{}
		p, err := c.header.Append(nil, c.frame)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := b.host.Accept(tick, c.from, p); ok {
			t.Errorf("%s: accepted", c.name)
		}
		got, other := &b.host.Strangers, &b.in.Counts
		if c.port {
			got, other = other, got
		}
		if got[c.want] != 1 || got[RxErrors] != 1 || *other != (Counts{}) {
			t.Errorf("%s: %v is %d, errors %d", c.name, c.want, got[c.want], got[RxErrors])
		}
	}
	p, _ := h.Append(nil, append(f, make([]byte, 1458)...)) // MTU+18 is still right
	if a, ok := b.host.Accept(tick, 1, p); !ok || a.Port != b.in || len(a.Frame) != 1518 {
		t.Error("a good frame is refused")
	}
	b.in.Counts = Counts{}
	congested := Header{SLID: 1, DLID: 2, VESW: 5, PKey: 0x8001, FECN: true, BECN: true}
	told, _ := congested.Append(nil, f)
	if a, ok := b.host.Accept(tick, 1, told); !ok || !a.Header.FECN || !a.Header.BECN ||
		b.in.Counts[RxFECN] != 1 || b.in.Counts[RxBECN] != 1 {
		t.Error("a packet that tells of congestion is refused, or not counted")
	}
	beyond := bytes.Clone(p)
	beyond[19] = 0x10 // a switch that is 5 by its lower bits
	for _, bad := range []struct {
		p    []byte
		want Counter
	}{{beyond, RxBadVESW}, {nil, RxRunt}, {p[:24], RxRunt}, {p[:80], RxMalformed}} {
		b.host.Strangers = Counts{}
		if _, ok := b.host.Accept(tick, 1, bad.p); ok || b.host.Strangers[bad.want] != 1 {
			t.Errorf("%d bytes: %v is %d", len(bad.p), bad.want, b.host.Strangers[bad.want])
		}
	}
	for _, state := range []struct {
		change func()
		want   Counter
	}{
		{func() { b.in.Down = true }, RxEthDown},
		{func() { b.tables.Info.OperState = StateDropAll }, RxDropState},
	} {
		state.change()
		b.in.Counts = Counts{}
		if _, ok := b.host.Accept(tick, 1, p); ok || b.in.Counts[state.want] != 1 {
			t.Errorf("%v is %d", state.want, b.in.Counts[state.want])
		}
	}
	if d := b.out.Forward(tick, f, 60); d.Verdict != Dropped || b.out.Counts[TxDropState] != 1 {
		t.Error("a port that drops all sends")
	}
}

// TestLearning: learned addresses come second, age, move, and are bounded.
func TestLearning(t *testing.T) {
	const m = MAC(0x00AA00000001)
	b := newSide(t, 5, 2, []uint32{1, 2, 3}, func(x *Tables) {
		x.Options = Options{Learning: true, Flood: true, LearnedMax: 4, AgeingSeconds: 10}.WithDefaults()
		x.MACs, _ = NewMACTable(1, []MACEntry{{MAC: 0x00AA000000FF, DLID: 3}})
	})
	now := mono.Time(time.Hour)
	hear := func(src MAC, vlan int, from uint32) {
		t.Helper()
		p, _ := (&Header{SLID: from, DLID: 2, VESW: 5}).Append(nil, frame(MACFor(5, 2), src, vlan,
			typeARP))
		if _, ok := b.host.Accept(now, from, p); !ok {
			t.Fatal("not accepted")
		}
	}
	to := func(dst MAC, vlan int) Decision {
		return b.out.Forward(now, frame(dst, 2<<40|2, vlan, typeARP), 60)
	}
	if d := to(m, -1); d.Verdict != ToGroup {
		t.Errorf("unknown: verdict %d, want flooding", d.Verdict)
	}
	hear(m, -1, 1)
	if d := to(m, -1); d.Verdict != Unicast || d.Header.DLID != 1 {
		t.Errorf("learned: verdict %d to %d", d.Verdict, d.Header.DLID)
	}
	if d := to(m, 7); d.Verdict != ToGroup {
		t.Error("learned on one VLAN, known on another")
	}
	hear(m, -1, 3)
	if d := to(m, -1); d.Header.DLID != 3 {
		t.Errorf("moved: to %d", d.Header.DLID)
	}
	hear(0x00AA000000FF, -1, 1)
	if d := to(0x00AA000000FF, -1); d.Header.DLID != 3 {
		t.Error("a frame has overruled the manager's table")
	}
	for i := range MAC(10) {
		hear(0x00BB00000000+i, -1, 1)
	}
	if b.fdb.Len() != 4 || b.in.Counts[FDBRefused] != 7 {
		t.Errorf("%d learned, %d refused", b.fdb.Len(), b.in.Counts[FDBRefused])
	}
	now = now.Add(11 * time.Second)
	if d := to(m, -1); d.Verdict != ToGroup {
		t.Error("an aged address is still known")
	}
	hear(0x00CC00000001, -1, 1)
	if b.fdb.Len() != 1 {
		t.Errorf("%d entries after all have aged", b.fdb.Len())
	}
	b.fdb.Forget(func(lid uint32) bool { return lid != 1 })
	if b.fdb.Len() != 0 {
		t.Error("what was learned of a host that left stays")
	}
}

// TestStorm: no more group frames than the rate, and those are counted.
func TestStorm(t *testing.T) {
	a := newSide(t, 5, 1, []uint32{1, 2}, func(x *Tables) { x.Options.GroupRate = 100 })
	f := frame(Broadcast, 2<<40|1, -1, typeARP)
	sent := 0
	for ms := range 2000 {
		if a.out.Forward(mono.Time(ms+1)*1e6, f, 60).Verdict == ToGroup {
			sent++
		}
	}
	if sent < 298 || sent > 300 || a.out.Counts[TxStorm] != uint64(2000-sent) {
		t.Errorf("%d of 2000 in two seconds with 100 a second and as many at once; %d counted", sent,
			a.out.Counts[TxStorm])
	}
}

// TestSuppression: questions for known neighbours are answered here, for ARP and for IPv6.
func TestSuppression(t *testing.T) {
	b := newSide(t, 5, 2, []uint32{1, 2}, func(x *Tables) { x.Options.Suppress = true })
	peer, own := MACFor(5, 1), MACFor(5, 2)
	arp := func(op uint16, sha MAC, spa uint32, tpa uint32) []byte {
		p := be.AppendUint64(nil, 0x000108000604<<16|uint64(op))
		p = append(p, sha.Bytes()...)
		p = be.AppendUint32(p, spa)
		p = append(p, make([]byte, 6)...)
		return be.AppendUint32(p, tpa)
	}
	ask := frame(Broadcast, own, -1, typeARP, arp(arpRequest, own, 0x0A000002, 0x0A000001)...)
	if d := b.out.Forward(tick, ask, 60); d.Verdict != ToGroup {
		t.Fatal("an unknown neighbour is answered for")
	}
	hear := func(f []byte) {
		t.Helper()
		p, _ := (&Header{SLID: 1, DLID: GroupLID(5), VESW: 5}).Append(nil, f)
		if _, ok := b.host.Accept(tick, 1, p); !ok {
			t.Fatal("not accepted")
		}
	}
	// Somebody who speaks for another is not believed.
	hear(frame(own, 0x020000000099, -1, typeARP, arp(arpReply, peer, 0x0A000001, 0x0A000002)...))
	if d := b.out.Forward(tick, ask, 60); d.Verdict != ToGroup {
		t.Error("an ARP reply from another address is believed")
	}
	hear(frame(own, peer, -1, typeARP, arp(arpReply, peer, 0x0A000001, 0x0A000002)...))
	d := b.out.Forward(tick, ask, 60)
	want := frame(own, peer, -1, typeARP, append(be.AppendUint32(append(append(
		be.AppendUint64(nil, 0x000108000604<<16|arpReply), peer.Bytes()...), 10, 0, 0, 1), 0)[:18],
		append(own.Bytes(), 10, 0, 0, 2)...)...)[:42]
	if d.Verdict != Answered || string(d.Reply) != string(want) {
		t.Errorf("verdict %d\n got %x\nwant %x", d.Verdict, d.Reply, want)
	}
	late := tick.Add((nearSeconds + 1) * time.Second)
	if d := b.out.Forward(late, ask, 60); d.Verdict != ToGroup {
		t.Error("an old answer is given for ever")
	}
	testNeighbour6(t, b, hear)
}

func testNeighbour6(t *testing.T, b *side, hear func([]byte)) {
	peer, own := MACFor(5, 1), MACFor(5, 2)
	ip6 := func(src, dst, kind byte, target byte, option MAC) []byte {
		p := make([]byte, ip6Bytes+neighbourLen)
		p[0], p[5], p[6], p[7] = 0x60, neighbourLen, protoICMPv6, 255
		p[8], p[23], p[24], p[39] = 0xFD, src, 0xFD, dst
		p[ip6Bytes], p[ip6Bytes+8], p[ip6Bytes+23] = kind, 0xFD, target
		p[ip6Bytes+24], p[ip6Bytes+25] = 2, 1
		option.Put(p[ip6Bytes+26:])
		return p
	}
	ask := frame(0x3333FF000001, own, -1, typeIPv6, ip6(2, 1, neighbourAsk, 1, own)...)
	if d := b.out.Forward(tick, ask, len(ask)); d.Verdict != ToGroup {
		t.Fatal("an unknown IPv6 neighbour is answered for")
	}
	hear(frame(own, peer, -1, typeIPv6, ip6(1, 2, neighbourTell, 1, peer)...))
	d := b.out.Forward(tick, ask, len(ask))
	if d.Verdict != Answered || len(d.Reply) != ethBytes+ip6Bytes+neighbourLen ||
		MACOf(d.Reply[ethBytes+ip6Bytes+26:]) != peer || d.Reply[ethBytes+ip6Bytes+4] != 0x60 {
		t.Fatalf("verdict %d, %x", d.Verdict, d.Reply)
	}
	// A router stays one: hosts would give up their routes by it.
	tell := ip6(1, 2, neighbourTell, 1, peer)
	tell[ip6Bytes+4] |= neighbourRouter
	hear(frame(own, peer, -1, typeIPv6, tell...))
	d = b.out.Forward(tick, ask, len(ask))
	if d.Verdict != Answered || d.Reply[ethBytes+ip6Bytes+4] != 0xE0 {
		t.Fatalf("of a router: verdict %d, %x", d.Verdict, d.Reply)
	}
	// The checksum of the answer, pseudo header included, is right.
	sum := uint32(neighbourLen) + protoICMPv6
	for at := ethBytes + 8; at < len(d.Reply); at += 2 {
		sum += uint32(be.Uint16(d.Reply[at:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	if sum != 0xFFFF {
		t.Errorf("checksum: sum %#x", sum)
	}
}

// TestSwap: two ports that exchange their switches are both found, whichever is told first.
func TestSwap(t *testing.T) {
	var h Host
	var in [2]*Ingress
	for i := range in {
		in[i] = NewIngress(new(FDB), new(Neighbours), nil)
	}
	tables := func(vesw uint16) *Tables { return &Tables{Info: VportInfo{VESW: vesw}} }
	h.SetTables(in[0], tables(5))
	h.SetTables(in[1], tables(257))
	h.SetTables(in[0], tables(257))
	h.SetTables(in[1], tables(5))
	if h.ports[257] != in[0] || h.ports[5] != in[1] {
		t.Error("a port is lost")
	}
	h.SetTables(in[0], nil)
	if h.ports[257] != nil || h.ports[5] != in[1] {
		t.Error("a port that was deleted is found, or the other is not")
	}
}

// TestHostileFrames: a million packets, good ones damaged, by hosts and by strangers. Each that is
// not delivered is counted once, and nothing is learned of it.
func TestHostileFrames(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	b := newSide(t, 5, 2, []uint32{1, 2, 3}, func(x *Tables) { x.Options.Learning = true })
	tables := b.tables
	good, _ := (&Header{SLID: 1, DLID: 2, VESW: 5}).Append(nil,
		frame(MACFor(5, 2), 0x00AA00000001, -1, typeIPv4))
	p := make([]byte, 0, 2*len(good))
	delivered, total := 0, 1_000_000
	for range total {
		p = append(p[:0], good...)
		p[HeaderBytes+11] = byte(r.Uint32()) // one of 256 senders
		for range r.IntN(3) {
			switch r.IntN(8) {
			case 0:
				p = p[:r.IntN(len(p)+1)]
			case 1:
				p = append(p, make([]byte, r.IntN(32))...)
			default:
				if len(p) > 0 {
					p[r.IntN(len(p))] ^= 1 << r.IntN(8)
				}
			}
		}
		if _, ok := b.host.Accept(tick, uint32(r.IntN(5)), p); ok {
			delivered++
		}
	}
	dropped := b.host.Strangers[RxErrors] + b.in.Counts[RxErrors]
	reasons := uint64(0)
	for _, c := range []Counter{
		RxRunt, RxMalformed, RxForged, RxBadVESW, RxBadPKey, RxNotMember, RxBadDLID, RxOversize,
	} {
		n := b.host.Strangers[c] + b.in.Counts[c]
		reasons += n
		t.Logf("%v %d", c, n)
	}
	if delivered+int(dropped) != total || reasons != dropped || delivered == 0 || b.tables != tables {
		t.Errorf("%d delivered, %d dropped, %d with a reason", delivered, dropped, reasons)
	}
}

// TestHotPath: deciding about a frame, and judging a packet, allocate nothing.
func TestHotPath(t *testing.T) {
	a := newSide(t, 5, 1, []uint32{1, 2}, func(x *Tables) { x.Options.Learning = true })
	b := newSide(t, 5, 2, []uint32{1, 2}, func(x *Tables) { x.Options.Learning = true })
	f := frame(MACFor(5, 2), 2<<40|1, -1, typeIPv4)
	p := make([]byte, PacketBytesMax)
	n := testing.AllocsPerRun(100, func() {
		d := a.out.Forward(tick, f, len(f))
		copy(p[HeaderBytes:], f)
		if _, ok := b.host.Accept(tick, 1, d.Header.Seal(p, len(f))); !ok {
			t.Fatal("not accepted")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}
