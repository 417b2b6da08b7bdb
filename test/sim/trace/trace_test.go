package trace

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/test/sim/cluster"
)

// story is a network on which everything that a trace can show happens.
type story struct {
	net     *cluster.Cluster
	a, b    *btl.Module
	events  int
	packets [sim.NumKinds]int
}

func tell(tb testing.TB, observe func(*sim.Network, *sim.Event)) *story {
	tb.Helper()
	s := &story{}
	var err error
	s.net, err = cluster.New(sim.Config{Seed: 7, Observe: func(e *sim.Event) {
		s.events++
		s.packets[e.Kind]++
		observe(s.net.Network, e)
	}})
	if err != nil {
		tb.Fatal(err)
	}
	s.a, s.b = s.open(tb, "alice", 0xfffffffe), s.open(tb, "bob", 5)
	nodes := s.net.Nodes()
	s.net.SetPaths(sim.Path{Delay: 10 * time.Microsecond})
	ep, err := s.a.Connect(s.a.Now(), s.b.Name())
	if err != nil {
		tb.Fatal(err)
	}
	nodes[0].Kick()
	s.net.Advance(time.Millisecond)
	dropped := false
	s.net.SetFilter(func(d *sim.Datagram) (v sim.Verdict) {
		if len(d.Data) > 1000 && !dropped {
			v.Drop, dropped = true, true
		}
		return v
	})
	region, err := s.b.Expose(make([]byte, 100), btl.RemoteWrite)
	if err != nil {
		tb.Fatal(err)
	}
	for _, size := range []int{10, 3000} {
		f, err := ep.Alloc(3, size)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := ep.Send(ep.Now(), f); err != nil {
			tb.Fatal(err)
		}
	}
	f, err := ep.PreparePut(make([]byte, 20), region.Handle(), 80)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		tb.Fatal(err)
	}
	if err := ep.SendImmediate(ep.Now(), 99, nil); err != nil && !errors.Is(err, btl.ErrAgain) {
		tb.Fatal(err)
	}
	nodes[0].Kick()
	s.net.Advance(time.Millisecond)
	s.net.Inject(sim.Port{Node: 0, Index: 1}, sim.Port{Node: 1}, []byte("junk"))
	s.net.Advance(300 * time.Millisecond)
	ep.Close(ep.Now())
	nodes[0].Kick()
	s.net.Advance(10 * time.Millisecond)
	nodes[1].Crash()
	s.net.Inject(sim.Port{Node: 0}, sim.Port{Node: 1}, nil)
	s.net.Advance(10 * time.Millisecond)
	return s
}

func (s *story) open(tb testing.TB, name string, first uint64) *btl.Module {
	tb.Helper()
	node := s.net.Add(name)
	n := uint64(node.Index()+1) << 40
	cfg := btl.Config{
		SendBuffers: 64, RecvDepth: 64,
		Random: func() uint64 { n += 1 << 32; return n | first },
	}
	if err := node.Open(cfg); err != nil {
		tb.Fatal(err)
	}
	if err := node.Mod.Handle(3, func(*btl.Endpoint, btl.Tag, []byte) {}); err != nil {
		tb.Fatal(err)
	}
	node.Start(nil)
	tb.Cleanup(func() { _ = node.Mod.Close() })
	return node.Mod
}

// TestWriter: the lines say what happened, in words that can be searched.
func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := New(&out)
	w.Life(2<<40|5<<32|5, "bob1") // four numbers are the key of cookies
	s := tell(t, w.Event)
	w.Note(s.net.Now(), "alice", "is done")
	if err := w.Err(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n != s.events+1 {
		t.Errorf("%d lines for %d events and a note", n, s.events)
	}
	for _, want := range []string{
		`^ +0\.001 alice +open$`,
		` alice>bob cmd +sent +#1 +hello +to=- probe=cmd proven=00 from=alice:1 ` +
			`life=0x1\w+ expected=bob1 first=0xfffffffe window=4096 mtu=768/1472 credit=1 164 B$`,
		` bob>alice data +sent +#\d+ +hello-ack to=alice:1 probe=data .* life=bob1 ` +
			`first=0x00000005 .* 124 B$`,
		` alice>bob cmd +delivered +#\d+ +frag +to=bob:1 tag=3 seq=0 10 B$`,
		` alice>bob data +sent +#\d+ +chunk +to=bob:1 tag=3 seq=3 frag=\d+ at=0 of=3000 1424 B$`,
		` alice>bob data +filtered +#\d+ +chunk +to=bob:1 tag=3 seq=3 `,
		` alice>bob cmd +sent +#\d+ +frag +to=bob:1 seq=\d put=[0-9a-f]{4}\.0\+80 20 B$`,
		` bob>alice cmd +sent +#\d+ +ack +to=alice:1 ack=-1 credit=\d+ dup last=-1/\d+us copies=0$`,
		` bob>alice cmd +sent +#\d+ +ack +to=alice:1 ack=5 credit=\d+ last=3/0us copies=0$`,
		` alice>bob cmd +sent +#\d+ +bye +to=bob:1 seq=6`,
		` alice>bob data>cmd +injected +#\d+ +not a packet: packet shorter than its header, 4 bytes$`,
		` alice>bob cmd +unreachable +#\d+ +not a packet: packet shorter than its header, 0 bytes$`,
		`^ +\d+\.\d{3} bob +crash$`,
		`^ +\d+\.\d{3} alice +app +is done$`,
	} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(text) {
			t.Errorf("no line like %s", want)
		}
	}
	if t.Failed() {
		t.Log("\n" + text)
	}
}

// TestBrief: an event that shows a datagram again says little of it.
func TestBrief(t *testing.T) {
	var out bytes.Buffer
	w := New(&out, Brief(), Without(sim.KindOpen, sim.KindInjected))
	tell(t, w.Event)
	for _, want := range []string{
		` delivered +#\d+ +hello probe=cmd$`, ` delivered +#\d+ +chunk seq=4$`,
		` filtered +#\d+ +chunk seq=3$`, ` delivered +#\d+ +ack ack=5 credit=\d+$`,
		` sent +#\d+ +chunk +to=bob:1 tag=3 seq=4 frag=\d+ at=1424 `,
	} {
		if !regexp.MustCompile(`(?m)` + want).MatchString(out.String()) {
			t.Errorf("no line like %s", want)
		}
	}
	for _, unwanted := range []string{" open", " injected "} {
		if strings.Contains(out.String(), unwanted) {
			t.Errorf("there is a line with%s", unwanted)
		}
	}
}

// TestMute: what is muted is learned and not shown, and does not count.
func TestMute(t *testing.T) {
	var whole, part bytes.Buffer
	all, w := New(&whole), New(&part)
	muted := true
	w.Mute()
	tell(t, func(nw *sim.Network, e *sim.Event) {
		if muted && e.Kind == sim.KindSent && e.At > 1_000_000 {
			w.Unmute()
			muted = false
		}
		all.Event(nw, e)
		w.Event(nw, e)
	})
	first, _, _ := strings.Cut(part.String(), "\n")
	if !strings.Contains(first, " #1 ") || !strings.Contains(first, "to=bob:1 tag=3 seq=0") {
		t.Errorf("the first line is %s", first)
	}
	if !strings.Contains(whole.String(), strings.Fields(first)[0]) {
		t.Errorf("nothing like it in the whole: %s", first)
	}
	if c, ok := w.Connection("bob:1"); !ok || c.First != 5 || c.PeerFirst != 0xfffffffe {
		t.Errorf("connection %+v, %v", c, ok)
	}
	if _, ok := w.Connection("bob:2"); ok {
		t.Error("a connection that never was")
	}
}

// TestPackets: what a packet is called, without any handshake.
func TestPackets(t *testing.T) {
	enc := func(h frag.Header) []byte {
		b := make([]byte, frag.HeaderBytes(h.Kind, h.Flags)+int(h.PayloadLen))
		h.Encode(b)
		return b
	}
	pack := enc(frag.Header{
		Kind: frag.KindPack, Conn: 7, Seq: 9, Flags: frag.FlagAck, Ack: 3, Credit: 8, PayloadLen: 24,
	})
	at := frag.FragHeaderBytes
	for _, r := range []struct {
		tag  uint8
		data string
	}{{1, "ab"}, {1, ""}, {1, ""}, {2, ""}, {1, "cd"}} {
		at += frag.PutRecord(pack[at:], r.tag, []byte(r.data))
	}
	sack := frag.Sack{Count: 3, Last: 12, DelayUs: 7, Copies: 1}
	sack.Ranges[0], sack.Ranges[1] = frag.SackRange{More: 1}, frag.SackRange{Start: 3}
	sack.Ranges[2] = frag.SackRange{Start: 63, More: 1}
	selective := make([]byte, frag.FragHeaderBytes+sack.Bytes())
	sack.Encode(selective[frag.FragHeaderBytes:])
	copy(selective, enc(frag.Header{
		Kind: frag.KindAck, Conn: 7, Flags: frag.FlagAck | frag.FlagSack, Ack: 9, Credit: 8,
		PayloadLen: uint16(sack.Bytes()),
	})[:frag.FragHeaderBytes])
	reject := make([]byte, frag.RejectBytes)
	frag.EncodeReject(reject, 7, frag.Version,
		frag.Reject{Reason: frag.RejectVersion, VersionMin: 1, VersionMax: 3})
	foreign := bytes.Clone(reject)
	foreign[1] = 0x37
	hello := make([]byte, frag.HelloBytesMin)
	copy(hello, enc(frag.Header{
		Kind: frag.KindHello, PayloadLen: frag.HelloBytesMin - frag.FragHeaderBytes,
	}))
	for _, c := range []struct {
		name string // what Look calls it; "" for no packet
		pkt  []byte
		want string
	}{
		{"frag", enc(frag.Header{
			Kind: frag.KindFrag, Conn: 7, Seq: 9, Tag: 1, PayloadLen: 2,
		}), "frag      to=0x7 tag=1 seq=0x00000009 2 B"},
		{"void", enc(frag.Header{
			Kind: frag.KindFrag, Conn: 7, Seq: 9, Tag: frag.TagVoid,
		}), "void      to=0x7 seq=0x00000009"},
		{"bye", enc(frag.Header{
			Kind: frag.KindFrag, Conn: 7, Tag: frag.TagBye, Flags: frag.FlagAck | frag.FlagDup,
			Ack: 3, Credit: 8,
		}), "bye       to=0x7 seq=0x00000000 ack=0x00000003 credit=8 dup"},
		{"chunk", enc(frag.Header{
			Kind: frag.KindChunk, Conn: 7, Flags: frag.FlagPut, FragID: 2, SizeBytes: 10, OffsetBytes: 4,
			PayloadLen: 6, Handle: 0xaabb_cccc_0001, PutOffset: 90,
		}), "chunk     to=0x7 seq=0x00000000 put=cccc.1+90 frag=2 at=4 of=10 6 B"},
		{"nack", enc(frag.Header{
			Kind: frag.KindNack, Conn: 7, Seq: 9, Tag: frag.NackAccess,
		}), "nack      to=0x7 seq=0x00000009 refused=access"},
		{"nack", append(enc(frag.Header{
			Kind: frag.KindNack, Conn: 7, Seq: 9, Tag: frag.NackRecord, PayloadLen: 1,
		})[:frag.FragHeaderBytes], 66), "nack      to=0x7 seq=0x00000009 refused=record:66"},
		{"pack", pack, "pack      to=0x7 seq=0x00000009 ack=0x00000003 credit=8 records=5" +
			" 1:2 1:0*2 2:0 1:2"},
		{"ack", selective, "ack       to=0x7 ack=0x00000009 credit=8 last=12/7us copies=1 " +
			"have=11..12,14,74..75"},
		{"reject", reject, "reject    to=0x7 version versions=1..3"},
		{"foreign", foreign, "foreign   version=3 kind=reject 44 B"},
		{"", hello, "hello     to=- (malformed hello), 104 bytes"},
		{"", []byte{1, 2}, "not a packet: packet shorter than its header, 2 bytes"},
		{"", make([]byte, 32), "not a packet: not a packet of this protocol, 32 bytes"},
	} {
		var out bytes.Buffer
		w := New(&out)
		if got := string(w.d.appendPacket(nil, c.pkt)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		p, err := w.Look(c.pkt)
		if p.Name != c.name || (err == nil) != (c.name != "") {
			t.Errorf("%s: Look gives %q, %v", c.want, p.Name, err)
		}
	}
}

type brokenWriter struct{ left int }

var errFull = errors.New("disk full")

func (b *brokenWriter) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteErrors: the first error stays.
func TestWriteErrors(t *testing.T) {
	w := New(&brokenWriter{left: 200})
	tell(t, w.Event)
	if !errors.Is(w.Err(), errFull) {
		t.Errorf("text: %v", w.Err())
	}
	if _, err := NewPcap(&brokenWriter{}); err != nil && !errors.Is(err, errFull) {
		t.Errorf("pcapng: %v", err)
	}
	p, err := NewPcap(&brokenWriter{left: 5000})
	if err != nil {
		t.Fatal(err)
	}
	tell(t, p.Event)
	if err := p.Flush(); !errors.Is(err, errFull) {
		t.Errorf("pcapng: %v", err)
	}
}

// FuzzPacket: no bytes make the decoder panic, and each line is one.
func FuzzPacket(f *testing.F) {
	w := New(io.Discard)
	tell(f, func(_ *sim.Network, e *sim.Event) { f.Add(bytes.Clone(e.Data)) })
	pack := make([]byte, 100)
	h := frag.Header{Kind: frag.KindPack, Conn: 2 << 40, PayloadLen: 14}
	n := h.Encode(pack)
	for _, text := range []string{"a", "", "b"} {
		n += frag.PutRecord(pack[n:], 3, []byte(text))
	}
	f.Add(pack[:n])
	f.Fuzz(func(t *testing.T, pkt []byte) {
		w.d.learn("x", pkt)
		line := w.d.appendBrief(w.d.appendPacket(nil, pkt), pkt)
		if bytes.ContainsAny(line, "\n\x00") {
			t.Errorf("%q", line)
		}
	})
}
