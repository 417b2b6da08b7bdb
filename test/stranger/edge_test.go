//go:build cgo

package stranger

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
)

// TestCredits withholds acknowledgements: the module sends exactly what it has credit for.
func TestCredits(t *testing.T) {
	t.Parallel()
	for _, credit := range []uint16{1, 2, 7, 100} {
		cfg := btl.Config{PackBytes: 1, Profile: "usnic"} // without a congestion window
		pr := connect(t, cfg, Config{Credit: credit}, false)
		must(t, pr.m.Send(within(t), pr.ep, tagCheck, []byte("the credits are known")))
		receive(t, pr.msgs, "the first message")
		time.Sleep(20 * time.Millisecond) // its Ack is out, and the module has rested
		credit = min(credit, 32)
		pr.c.HoldAcks(true)
		start := pr.c.Taken()
		const small = 12
		end := make(chan error, 1+small)
		send := func(n int) { end <- pr.m.Send(t.Context(), pr.ep, tagCheck, pattern(n)) }
		go send(1 << 20)
		eventually(t, "most credits are used up", func() bool {
			return pr.c.Taken() >= start+int(credit)*15/16
		})
		for range small { // for them the large one leaves some
			go send(500)
		}
		eventually(t, "the credits are used up", func() bool {
			return pr.c.Taken() >= start+int(credit)
		})
		time.Sleep(50 * time.Millisecond)
		if n := pr.c.Taken() - start; n != int(credit) {
			t.Errorf("%d packets came with %d credits", n, credit)
		}
		pr.c.HoldAcks(false)
		for range 1 + small {
			must(t, receive(t, end, "the end of the send"))
			if msg := receive(t, pr.msgs, "a message"); !bytes.Equal(msg, pattern(len(msg))) {
				t.Error("altered")
			}
		}
	}
}

// TestZeroCredit: a credit of 0 counts as 1, so that it stops nobody for ever.
func TestZeroCredit(t *testing.T) {
	pr := connect(t, btl.Config{}, Config{Credit: 2}, false)
	pr.p.do(func() { pr.p.cfg.Credit = 0 })
	flows(t, pr)
}

// crafted is a connection on which the test itself writes and reads the packets.
type crafted struct {
	*pair
	t   *testing.T
	log chan Packet // all that the module sends but Hellos and HelloAcks
}

func craft(t *testing.T, cfg btl.Config) *crafted {
	t.Helper()
	k := &crafted{pair: connect(t, cfg, Config{}, false), t: t, log: make(chan Packet, 4096)}
	eventually(t, "the first Ack is here", func() bool { return k.p.Count("got Ack") > 0 })
	k.p.do(func() {
		k.c.watch = func(_ int, pkt *Packet) { k.log <- *pkt }
	})
	k.m.dirty = true
	return k
}

// send gives a packet the connection's tag; its seq, and its ack, count from the first number.
func (k *crafted) send(p Packet) {
	k.t.Helper()
	k.p.do(func() {
		p.Conn = k.c.peerTag
		if p.numbered() {
			p.Seq += k.c.first
		}
		if p.Kind == kindNack {
			p.Seq += k.c.expected
		}
		if p.Flags&flagAck != 0 {
			p.Ack += k.c.expected
		}
		k.p.send(data, k.c.addrs[data], &p)
	})
}

// answered checks the packets that the module sends next. An Ack in "ack 4" counts like seq, "dup"
// has the Dup flag, "Nack 7 2" is for number 7 with reason 2, "Nack 7 3 9" for its records of tag
// 9.
func (k *crafted) answered(what string, want ...string) {
	k.t.Helper()
	for _, w := range want {
		select {
		case p := <-k.log:
			got := fmt.Sprintf("%s %d", kindNames[p.Kind], int32(p.Ack-k.c.first))
			if p.Flags&flagDup != 0 {
				got += " dup"
			}
			if p.Kind == kindNack {
				got = fmt.Sprintf("Nack %d %d", p.Seq-k.c.first, p.Tag)
				for _, tag := range p.Payload {
					got += fmt.Sprintf(" %d", tag)
				}
			}
			if got != w {
				k.t.Errorf("%s: answered with %s, not %s", what, got, w)
			}
		case <-time.After(time.Second):
			k.t.Fatalf("%s: no answer, %s is due", what, w)
		}
	}
	select {
	case p := <-k.log:
		k.t.Errorf("%s: answered with %s too, ack %d, flags %x", what, kindNames[p.Kind],
			int32(p.Ack-k.c.first), p.Flags)
	case <-time.After(10 * time.Millisecond):
	}
}

func (k *crafted) delivered(what string, want ...string) {
	k.t.Helper()
	for _, w := range want {
		if b := receive(k.t, k.m.got, what); string(b) != w {
			k.t.Errorf("%s: delivered %q, not %q", what, b, w)
		}
	}
	if len(k.m.got) != 0 {
		k.t.Errorf("%s: delivered %q too", what, <-k.m.got)
	}
}

func frag(seq uint32, text string) Packet {
	return Packet{Kind: kindFrag, Tag: tagCheck, Seq: seq, Payload: []byte(text)}
}

func mark(seq uint32, tag uint8) Packet { return Packet{Kind: kindFrag, Tag: tag, Seq: seq} }

// TestWindow has each edge of the receive window, packet by packet.
func TestWindow(t *testing.T) {
	t.Parallel()
	k := craft(t, btl.Config{})
	k.send(frag(0, "a"))
	k.answered("the first", "Ack 0")
	k.send(frag(2, "c"))
	k.answered("one behind a gap", "Ack 0")
	k.send(frag(2, "c"))
	k.answered("its repetition", "Ack 0 dup")
	k.send(frag(2, "other"))
	k.answered("its number with other bytes", "Ack 0 dup")
	k.send(frag(1, "b"))
	k.answered("the gap", "Ack 2")
	k.send(frag(0, "a"))
	k.answered("one below the window", "Ack 2 dup")
	k.send(frag(1<<32-1, "z"))
	k.answered("the number before the first", "Ack 2 dup")
	k.delivered("so far", "a", "c", "b")
	k.send(frag(3+k.c.window, "above"))
	k.answered("the first above the window")
	k.send(frag(3+k.c.window-1, "last"))
	k.answered("the last of the window", "Ack 2")
	k.send(frag(3, "d"))
	k.answered("the next", "Ack 3")
	k.send(mark(4, tagVoid))
	k.answered("a Void", "Ack 4")
	k.delivered("at the end", "last", "d")
}

// TestBadAcks: an acknowledgement of what was never sent spoils its packet, an old one does not.
func TestBadAcks(t *testing.T) {
	k := craft(t, btl.Config{})
	bad := frag(0, "bad")
	bad.Flags, bad.Ack = flagAck, 0
	k.send(bad)
	k.answered("an ack of the next number")
	bad.Ack = 1 << 30
	k.send(bad)
	k.answered("an ack far ahead")
	k.send(Packet{Kind: kindNack, Tag: nackNoHandler, Seq: 0})
	k.send(Packet{Kind: kindNack, Tag: nackNoHandler, Seq: 1<<32 - 1})
	k.answered("Nacks for numbers that are not on their way")
	old := frag(0, "old")
	old.Flags, old.Ack = flagAck, 1<<32-100
	k.send(old)
	k.answered("an old ack", "Ack 0")
	k.delivered("at the end", "old")
}

// TestNoPackets sends what breaks a rule of the encoding: no answer, no effect.
func TestNoPackets(t *testing.T) {
	k := craft(t, btl.Config{})
	for tag := 0xF0; tag < tagVoid; tag++ {
		k.send(mark(0, uint8(tag)))
	}
	malformed := uint64(tagVoid - 0xF0)
	counted := func() bool {
		st := k.m.Stats()
		return st.Get(btl.CntDropMalformed) == malformed
	}
	eventually(t, "the reserved marks are counted", counted)
	for name, p := range map[string]Packet{
		"a mark with bytes": {Kind: kindFrag, Tag: tagVoid, Payload: []byte("x")},
		"a mark with Put":   {Kind: kindFrag, Tag: tagVoid, Flags: flagPut},
		"a put with a tag":  {Kind: kindFrag, Tag: 1, Flags: flagPut},
		"a reserved flag":   {Kind: kindFrag, Tag: 1, Flags: 0x08},
		"Dup without Ack":   {Kind: kindFrag, Tag: 1, Flags: flagDup},
		"credit, no Ack":    {Kind: kindFrag, Tag: 1, Credit: 5},
		"an empty chunk":    {Kind: kindChunk, Tag: 1, Size: 10},
		"a chunk too far":   {Kind: kindChunk, Tag: 1, Size: 2, Offset: 1, Payload: []byte("xy")},
		"kind 0":            {Tag: 1},
		"kind 9":            {Kind: 9, Tag: 1},
		"an Ack with bytes": {Kind: kindAck, Flags: flagAck, Payload: []byte("x")},
		"an Ack without":    {Kind: kindAck},
		"a Nack, reason 0":  {Kind: kindNack},
		"a Nack, reason 7":  {Kind: kindNack, Tag: 7},
		"a Nack for no tag": {Kind: kindNack, Tag: nackRecord},
		"a Nack for a mark": {Kind: kindNack, Tag: nackRecord, Payload: []byte{tagVoid}},
		"a Nack, too long":  {Kind: kindNack, Tag: nackNoHandler, Payload: []byte{1}},
		"an empty pack":     {Kind: kindPack},
		"a pack with a tag": {Kind: kindPack, Tag: 1, Records: records("a")},
		"a pack with Put":   {Kind: kindPack, Flags: flagPut, Records: records("a")},
		"a padded pack":     {Kind: kindPack, Records: records("a"), Payload: []byte{0}},
		"a mark in a pack":  {Kind: kindPack, Records: []Record{{Tag: 1}, {Tag: tagBye}}},
		"a reserved byte":   {Kind: kindPack, Payload: []byte{1, 1, 0, 0}},
		"a record too long": {Kind: kindPack, Payload: []byte{1, 0, 2, 0, 'x'}},
	} {
		p.Version = version
		p.Conn = k.c.peerTag
		p.Seq = k.c.first
		if p.Kind == kindAck || p.Kind == 0 || p.Kind == 9 {
			p.Seq = 0
		}
		k.p.do(func() {
			d := datagram{channel: command, to: k.c.addrs[command], bytes: p.encodeAny(), out: true}
			k.p.fault(d)
		})
		malformed++
		eventually(t, name+" is counted", counted)
	}
	k.answered("no packets")
	k.send(frag(0, "still here"))
	k.answered("a packet", "Ack 0")
	k.delivered("a packet", "still here")
}

// encodeAny writes also what Encode cannot: kinds that do not exist.
func (p *Packet) encodeAny() []byte {
	b := p.Encode(nil)
	b[1] = p.Version<<4 | p.Kind
	return b
}

// TestBadChunks: chunks that are packets, but fit no fragment, are not received.
func TestBadChunks(t *testing.T) {
	t.Parallel()
	k := craft(t, btl.Config{})
	room := k.c.sizes[data] - headerBytes - 16
	whole := pattern(2*room + 10)
	chunk := func(seq uint32, at, end int) Packet {
		return Packet{
			Kind: kindChunk, Tag: tagCheck, Seq: seq, FragID: 5, Size: uint32(len(whole)),
			Offset: uint32(at), Payload: whole[at:end],
			First: uint16(room), Grid: uint16(room),
		}
	}
	k.send(chunk(0, 0, room))
	k.answered("the first chunk", "Ack 0")
	size := chunk(1, room, 2*room)
	size.Size++
	tag := chunk(1, room, 2*room)
	tag.Tag = tagOther
	first := chunk(1, room-1, 2*room-1)
	first.First--
	grid := chunk(1, room, 2*room-1)
	grid.Grid--
	for name, p := range map[string]Packet{
		"another first chunk": first, "another grid": grid,
		"one that is here": chunk(1, 0, room), "another size": size, "another tag": tag,
	} {
		k.send(p)
		k.answered(name, "Ack 0 dup")
	}
	k.send(chunk(2, 2*room, 2*room+10))
	k.answered("the last chunk", "Ack 0")
	k.send(chunk(1, room, 2*room))
	k.answered("the chunk between", "Ack 2")
	k.delivered("the fragment", string(whole))
	single := chunk(3, 0, 9)
	single.Size, single.FragID, single.First = 9, 6, 9
	k.send(single)
	k.answered("a fragment of one chunk", "Ack 3")
	k.delivered("a fragment of one chunk", string(whole[:9]))
}

// TestNackByHand: a refusal packet by packet, also repeated.
func TestNackByHand(t *testing.T) {
	k := craft(t, btl.Config{})
	refused := frag(0, "x")
	refused.Tag = tagUnknown
	k.send(refused)
	k.answered("no handler", "Nack 0 2")
	k.send(refused)
	k.answered("the same again", "Nack 0 2")
	k.send(frag(1, "behind"))
	k.answered("one behind it", "Ack -1")
	k.send(mark(0, tagVoid))
	k.answered("the Void", "Ack 1")
	k.send(mark(0, tagVoid))
	k.answered("the Void again", "Ack 1 dup")
	k.delivered("all", "behind")
}

// TestByeByHand: a Bye counts when everything before it is here, and is acknowledged each time.
func TestByeByHand(t *testing.T) {
	k := craft(t, btl.Config{})
	k.send(mark(1, tagBye))
	k.answered("a Bye behind a gap", "Ack -1")
	if len(k.m.events) != 0 {
		t.Errorf("the module's endpoint ended before everything was here: %s", <-k.m.events)
	}
	k.send(frag(0, "the gap"))
	k.answered("the gap", "Ack 1")
	k.delivered("the gap", "the gap")
	if ev := receive(t, k.m.events, "the end"); ev != btl.ErrPeerClosed.Error() {
		t.Errorf("the module's event: %s", ev)
	}
	for range 3 {
		k.send(mark(1, tagBye))
		k.answered("the Bye again", "Ack 1 dup")
	}
	k.send(frag(2, "behind the Bye"))
	k.answered("a packet behind the Bye")
	k.delivered("a packet behind the Bye")
}

// TestModuleByeByHand: a module that has said Bye takes what comes until that is acknowledged.
func TestModuleByeByHand(t *testing.T) {
	k := craft(t, btl.Config{})
	must(t, k.m.Do(within(t), func(*btl.Module) error { k.ep.Close(k.ep.Now()); return nil }))
	if bye := receive(t, k.log, "the Bye"); bye.Kind != kindFrag || bye.Tag != tagBye ||
		bye.Seq != k.c.expected {
		t.Errorf("not a Bye: %+v", bye)
	}
	k.send(frag(0, "late"))
	k.answered("a message behind the Bye", "Ack 0")
	k.delivered("a message behind the Bye", "late")
	k.send(Packet{Kind: kindAck, Flags: flagAck, Ack: 0, Credit: 1})
	if ev := receive(t, k.m.events, "the end"); ev != "<nil>" {
		t.Errorf("the module's event: %s", ev)
	}
	k.send(frag(0, "late"))
	k.answered("a packet for nobody")
}

// TestNoMemory: what there is no memory for now has to come again, and the packet in the gap, which
// must be first, always finds some.
func TestNoMemory(t *testing.T) {
	const size = 65536
	k := craft(t, btl.Config{FragmentBytesMax: size, ReassemblyBytesMax: size})
	room := k.c.sizes[data] - headerBytes - 16
	chunk := func(seq, id uint32, sizeBytes int) Packet {
		return Packet{
			Kind: kindChunk, Tag: tagCheck, Seq: seq, FragID: id, Size: uint32(sizeBytes),
			First: uint16(min(room, sizeBytes)), Grid: uint16(room),
			Payload: make([]byte, min(room, sizeBytes)),
		}
	}
	k.send(chunk(1, 2, size))
	k.answered("a chunk behind a gap", "Nack 1 4", "Ack -1 dup")
	k.send(chunk(0, 1, size))
	k.answered("the chunk in the gap", "Ack 0")
	k.send(chunk(1, 2, size))
	k.answered("a second fragment", "Nack 1 4", "Ack 0 dup")
	k.send(chunk(1, 3, size+1))
	k.answered("one that is too large", "Ack 0 dup")
	k.send(frag(1, "needs none"))
	k.answered("a Frag", "Ack 1")
	k.delivered("a Frag", "needs none")
}

// TestSameAgain: what the module sends again is the same packet; a repeated ack brings the oldest
// at once, one with the Dup flag does not.
func TestSameAgain(t *testing.T) {
	t.Parallel()
	k := craft(t, btl.Config{})
	end := make(chan error, 1)
	go func() { end <- k.m.Send(t.Context(), k.ep, tagCheck, []byte("again")) }()
	first := receive(t, k.log, "the packet")
	time.Sleep(5 * time.Millisecond)
	k.send(Packet{Kind: kindAck, Flags: flagAck | flagDup, Ack: 1<<32 - 1, Credit: 1})
	second := receive(t, k.log, "the packet by its timer")
	time.Sleep(5 * time.Millisecond)
	k.send(Packet{Kind: kindAck, Flags: flagAck, Ack: 1<<32 - 1, Credit: 1})
	third := receive(t, k.log, "the packet for the repeated ack")
	eventually(t, "one was sent again for each reason", func() bool {
		st := k.m.Stats()
		return st.Get(btl.CntRetransmitTimeout) == 1 && st.Get(btl.CntRetransmitDupAck) == 1
	})
	for _, p := range []Packet{second, third} {
		if p.Seq != first.Seq || !bytes.Equal(p.Payload, first.Payload) || p.Tag != first.Tag {
			t.Errorf("sent again %+v, not %+v", p, first)
		}
	}
	k.send(Packet{Kind: kindAck, Flags: flagAck, Ack: 0, Credit: 1})
	must(t, receive(t, end, "the end of the send"))
}
