package btl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// record is a fragment of a pack.
type record struct {
	tag  uint8
	data string
}

func recordsOf(p sentPacket) (all []record) {
	if p.hdr.Kind == frag.KindFrag && p.hdr.Tag <= frag.TagUserMax {
		return []record{{p.hdr.Tag, string(p.payload)}}
	}
	if p.hdr.Kind != frag.KindPack {
		return nil
	}
	for rest := p.payload; len(rest) > 0; {
		var r record
		var data []byte
		r.tag, data, rest = frag.NextRecord(rest)
		r.data = string(data)
		all = append(all, r)
	}
	return all
}

func packPayload(records ...record) []byte {
	var b []byte
	for _, r := range records {
		rec := make([]byte, frag.RecordHeaderBytes+len(r.data))
		frag.PutRecord(rec, r.tag, []byte(r.data))
		b = append(b, rec...)
	}
	return b
}

// sendTold sends a message and notes its end; errPending until then.
func sendTold(tb testing.TB, ep *Endpoint, tag Tag, data string) *error {
	tb.Helper()
	ended := new(error)
	*ended = errPending
	f, err := ep.Alloc(tag, len(data))
	if err != nil {
		tb.Fatal(err)
	}
	copy(f.Bytes(), data)
	f.Signal = true
	f.OnDone = func(_ *Fragment, err error) {
		if !errors.Is(*ended, errPending) {
			tb.Errorf("%q ended twice", data)
		}
		*ended = err
	}
	if st, err := ep.Send(ep.Now(), f); err != nil || st != Queued {
		tb.Fatalf("send: %v, %v", st, err)
	}
	return ended
}

// packScript is a module with a scripted peer that has granted its credits.
func packScript(t *testing.T, cfg Config) (*script, *Endpoint) {
	t.Helper()
	_, s := newStranger(t, cfg)
	ep := s.connect()
	s.ack(s.peerFirst - 1)
	s.run(3)
	return s, ep
}

// A lone message leaves inside Send; so does the first of a burst. The others leave together in the
// pass that follows, which Deadline asks for at once; one that has no company leaves as it is.
func TestPackLoneAndBurst(t *testing.T) {
	s, ep := packScript(t, smallConfig())
	sendOrFail(t, ep, 1, []byte("lone"))
	if got := s.take(); len(got) != 1 || got[0].hdr.Kind != frag.KindFrag || got[0].channel != 0 {
		t.Fatalf("a lone message: %+v, want one Frag before any pass", got)
	}
	sendOrFail(t, ep, 2, []byte("second"))
	if got := s.take(); len(got) != 0 || s.m.Deadline() > s.m.Now() {
		t.Fatalf("the second: %d packets before the pass, deadline %v", len(got), s.m.Deadline())
	}
	if got := s.run(1); len(got) != 1 || got[0].hdr.Kind != frag.KindFrag || got[0].hdr.Tag != 2 ||
		string(got[0].payload) != "second" {
		t.Fatalf("the second: %+v, want a Frag", got)
	}
	want := []record{{3, "a"}, {4, ""}, {3, "bcd"}, {5, "immediate"}}
	for _, r := range want[:3] {
		sendOrFail(t, ep, Tag(r.tag), []byte(r.data))
	}
	if err := ep.SendImmediate(ep.Now(), 5, []byte(want[3].data)); err != nil {
		t.Fatal(err)
	}
	if got := s.take(); len(got) != 1 || len(recordsOf(got[0])) != 1 {
		t.Fatalf("the first of a burst: %+v", got)
	}
	got := s.run(1)
	if len(got) != 1 || got[0].hdr.Kind != frag.KindPack || got[0].channel != 0 ||
		!slices.Equal(recordsOf(got[0]), want[1:]) {
		t.Fatalf("the others of a burst: %+v", got)
	}
	if p, f := ep.Outstanding(); p != 4 || f != 0 {
		t.Errorf("%d packets, %d fragments outstanding", p, f)
	}
	if n := counter(s.m, CntPacked); n != 3 {
		t.Errorf("%d fragments left in packs, want 3", n)
	}
}

// Behind a burst that is still in flight the next message waits for the pass, so that all of a
// further burst share their packet. The first single one after that is the last to wait.
func TestPackBurstAfterBurst(t *testing.T) {
	s, ep := packScript(t, smallConfig())
	sendBurst := func() []record {
		all := []record{{1, "a"}, {2, "b"}, {3, "c"}}
		for _, r := range all {
			sendOrFail(t, ep, Tag(r.tag), []byte(r.data))
		}
		return all
	}
	for burst := range 3 {
		want := sendBurst()
		if got := s.take(); burst > 0 && (len(got) != 0 || s.m.Deadline() > s.m.Now()) {
			t.Fatalf("burst %d: %d packets before the pass, deadline %v", burst, len(got), s.m.Deadline())
		}
		got := s.run(1)
		if burst == 0 {
			want = want[1:]
		}
		if len(got) != 1 || !slices.Equal(recordsOf(got[0]), want) {
			t.Fatalf("burst %d: %+v, want %v", burst, got, want)
		}
	}
	for i, waits := range []bool{true, false, false} {
		sendOrFail(t, ep, 1, []byte("lone"))
		if got := s.take(); (len(got) == 0) != waits {
			t.Fatalf("lone message %d: %d packets before the pass", i, len(got))
		}
		if got := s.run(1); (len(got) == 1) != waits {
			t.Fatalf("lone message %d: %d packets in the pass", i, len(got))
		}
	}
	// Once the burst has arrived, a lone message leaves inside Send.
	for round := range 3 {
		sendBurst()
		s.run(1)
		_, next := ep.c.Snd.Window()
		s.ack(next - 1)
		s.run(2)
		sendOrFail(t, ep, 1, []byte("lone"))
		if got := s.take(); len(got) != 1 || got[0].hdr.Kind != frag.KindFrag {
			t.Fatalf("lone message after burst %d: %d packets before the pass", round, len(got))
		}
	}
}

// A pack that was opened between two passes leaves before the polls of the next one.
func TestPackBeforePolls(t *testing.T) {
	n := newNullBench(t, 1472, true, Config{})
	for range 3 {
		sendOrFail(t, n.ep, 1, []byte("message"))
	}
	before, polled := n.cmd.sends+n.data.sends, false
	n.cmd.arrive = func([]fabric.Completion) int {
		if sent := n.cmd.sends + n.data.sends - before; !polled && sent != 1 {
			t.Errorf("%d packets had left when the pass looked for what has arrived, want the pack", sent)
		}
		polled = true
		return 0
	}
	n.pass()
	if !polled || queued(n.ep) > 0 {
		t.Errorf("polled: %v, pack open: %v", polled, queued(n.ep) > 0)
	}
}

// A burst is carried by as few packets as hold it, each of them within the sizes that were agreed.
func TestPackBurstSize(t *testing.T) {
	for _, c := range []struct {
		name           string
		mtu, packBytes int
		most           int // packets for 1000 messages of 8 bytes
	}{
		{"default", 1472, 0, 1 + 9},
		{"small peer", 600, 0, 1 + 22},
		{"bounded", 1472, 300, 1 + 46},
		{"off", 1472, 1, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := smallConfig()
			cfg.SendBuffers, cfg.FragmentsMax, cfg.PackBytes = 2048, 2048, c.packBytes
			l := newLab(t, mem.Config{QueueDatagrams: 4096}, 1, cfg)
			cfg.MTUBytes = c.mtu
			l.add(cfg, "")
			got := map[uint16]int{}
			l.mods[1].Handle(1, func(_ *Endpoint, _ Tag, data []byte) {
				got[binary.LittleEndian.Uint16(data)]++
			})
			a, _ := l.pair()
			l.settle(time.Second)
			largest := 0
			l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
				largest = max(largest, len(pkt))
				return mem.Deliver
			})
			before := l.mods[0].counted()
			for i := range 1000 {
				sendOrFail(t, a, 1, []byte{byte(i), byte(i >> 8), 2, 3, 4, 5, 6, 7})
			}
			l.settle(time.Second)
			sent := l.mods[0].counted().SegmentsSent() - before.SegmentsSent()
			if int(sent) > c.most || c.packBytes == 1 && sent != 1000 {
				t.Errorf("%d packets, want at most %d", sent, c.most)
			}
			if largest > min(c.mtu, max(c.packBytes, 768)) && c.packBytes != 0 || largest > c.mtu {
				t.Errorf("a packet of %d bytes", largest)
			}
			for i := range uint16(1000) {
				if got[i] != 1 {
					t.Fatalf("message %d was delivered %d times", i, got[i])
				}
			}
			if n := counter(l.mods[1], CntDelivered); n != 1000 {
				t.Fatalf("%d delivered", n)
			}
			l.wantIdle(0)
			l.wantIdle(1)
		})
	}
}

// Rule 4 for packs: each message once, whole and unaltered, when packs are lost, doubled and
// reordered, in both directions.
func TestContract04Packs(t *testing.T) {
	seed := testenv.Seed(t, 11)
	l := newLab(t, mem.Config{}, 2, regressConfig())
	tr := [2]*traffic{newTraffic(t, seed, 1), newTraffic(t, seed+1, 2)}
	l.mods[1].Handle(1, tr[0].receive)
	l.mods[0].Handle(2, tr[1].receive)
	a, b := l.pair()
	l.chaos(chaos{loss: 0.05, dup: 0.05, hold: 0.2}, seed)
	for round := range 300 {
		for i, ep := range []*Endpoint{a, b} {
			for range tr[i].rng.IntN(20) {
				size := tr[i].rng.IntN(40)
				if tr[i].rng.IntN(40) == 0 {
					size = drawSize(tr[i].rng, 5000)
				}
				tr[i].send(ep, size)
			}
		}
		l.step(time.Duration(20+round) * time.Microsecond)
		l.chaosStep()
	}
	l.calm()
	l.until("all delivered", 50*time.Microsecond, 20*time.Second, func() bool {
		return tr[0].finished() && tr[1].finished()
	})
	for i := range tr {
		tr[i].verify()
		if s := l.mods[i].counted(); s.Get(CntSentPack) < 50 || s.Retransmits() == 0 {
			t.Errorf("module %d: %d packs, %d packets sent again", i, s.Get(CntSentPack), s.Retransmits())
		}
	}
	l.settle(time.Second)
	l.wantIdle(0)
	l.wantIdle(1)
}

// While the window is closed messages wait in the queue; they leave in packs, with an open one
// first.
func TestPackWindowClosed(t *testing.T) {
	cfg := smallConfig()
	_, s := newStranger(t, cfg)
	s.credit, s.hello.Credit = 2, 1
	ep := s.connect()
	s.ack(s.peerFirst - 1)
	s.run(3)
	var ends []*error
	ends = append(ends, sendTold(t, ep, 1, "first"), sendTold(t, ep, 1, "second"),
		sendTold(t, ep, 1, "third"))
	if got := s.run(2); len(got) != 2 || len(recordsOf(got[1])) != 2 {
		t.Fatalf("with two credits: %+v", got)
	}
	for range 20 {
		ends = append(ends, sendTold(t, ep, 1, "later"))
	}
	if got := s.run(3); len(got) != 0 || queued(ep) != 20 {
		t.Fatalf("without credits: %d packets, %d queued", len(got), queued(ep))
	}
	s.ack(s.peerFirst)
	got := s.run(3)
	if len(got) != 1 || len(recordsOf(got[0])) != 20 {
		t.Fatalf("with a credit: %+v", got)
	}
	if *ends[0] != nil || !errors.Is(*ends[1], errPending) {
		t.Errorf("ended: %v, %v", *ends[0], *ends[1])
	}
	s.ack(got[0].hdr.Seq)
	s.run(2)
	for i, e := range ends {
		if *e != nil {
			t.Errorf("message %d: %v", i, *e)
		}
	}
	if err := s.m.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// A refused record fails its own fragments only; the rest goes again under the same number, a Void
// if nothing is left. Nacks that came twice, or speak of what is not there, change nothing.
func TestPackNack(t *testing.T) {
	s, ep := packScript(t, smallConfig())
	ends := map[Tag]*error{}
	sendOrFail(t, ep, 9, []byte("single"))
	for _, tag := range []Tag{1, 2, 3} {
		sendOrFail(t, ep, tag, []byte("untold"))
		ends[tag] = sendTold(t, ep, tag, "told")
	}
	first := s.run(2)[1]
	nack := func(tag uint8) []sentPacket {
		s.raw(0, encode(frag.Header{
			Kind: frag.KindNack, Conn: s.conn, Seq: first.hdr.Seq, Tag: frag.NackRecord,
		}, []byte{tag}))
		return s.run(2)
	}
	want := []record{{1, "untold"}, {1, "told"}, {3, "untold"}, {3, "told"}}
	got := nack(2)
	if len(got) != 1 || got[0].hdr.Seq != first.hdr.Seq || got[0].hdr.Kind != frag.KindPack ||
		got[0].channel != 1 || !slices.Equal(recordsOf(got[0]), want) {
		t.Fatalf("after the first Nack: %+v", got)
	}
	for _, tag := range []uint8{2, 77} {
		if got = nack(tag); len(got) != 0 {
			t.Fatalf("after a Nack of tag %d: %+v", tag, got)
		}
	}
	if got = nack(1); len(got) != 1 || !slices.Equal(recordsOf(got[0]), want[2:]) {
		t.Fatalf("after the second Nack: %+v", got)
	}
	if got = nack(3); len(got) != 1 || got[0].hdr.Kind != frag.KindFrag ||
		got[0].hdr.Tag != frag.TagVoid || got[0].hdr.Seq != first.hdr.Seq {
		t.Fatalf("after the third Nack: %+v, want a Void", got)
	}
	if got = nack(3); len(got) != 0 {
		t.Fatalf("after a Nack of a Void: %+v", got)
	}
	s.ack(first.hdr.Seq)
	s.run(2)
	for tag, e := range ends {
		if !errors.Is(*e, ErrNoHandler) {
			t.Errorf("tag %d: %v", tag, *e)
		}
	}
	if err := s.m.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// A pack is refused as a whole: nothing of it is delivered before all its tags have a handler.
func TestPackRefused(t *testing.T) {
	_, s := newStranger(t, smallConfig())
	var got []record
	note := func(_ *Endpoint, tag Tag, data []byte) {
		got = append(got, record{uint8(tag), string(data)})
	}
	s.m.Handle(1, note)
	s.connect()
	s.run(20)
	all := []record{{1, "x"}, {1, ""}, {2, "yz"}}
	pkt := encode(frag.Header{Kind: frag.KindPack, Conn: s.conn, Seq: s.next}, packPayload(all...))
	for range 2 { // each copy is refused
		s.raw(1, pkt)
		pkts := kinds(s.run(8), frag.KindNack)
		if len(pkts) != 1 || pkts[0].hdr.Tag != frag.NackRecord || pkts[0].hdr.Seq != s.next ||
			!bytes.Equal(pkts[0].payload, []byte{2}) || len(got) != 0 {
			t.Fatalf("refused: %+v, delivered %v", pkts, got)
		}
	}
	s.m.Handle(2, note)
	s.raw(1, pkt)
	if pkts := s.run(20); !slices.Equal(got, all) || len(acks(pkts)) == 0 {
		t.Fatalf("delivered %v, ACKs %v", got, acks(pkts))
	}
	s.raw(1, pkt)
	if s.run(20); len(got) != len(all) {
		t.Fatalf("a copy was delivered: %v", got)
	}
	n := s.m.counted()
	if n.Get(CntRecvPack) != 1 || n.Get(CntDropNoHandler) != 2 || n.Get(CntDelivered) != 3 {
		t.Errorf("%d packs, %d refused, %d delivered", n.Get(CntRecvPack), n.Get(CntDropNoHandler),
			n.Get(CntDelivered))
	}
}

// What a handler does in the middle of a pack: after Close of the endpoint or the module the rest
// is delivered, as other packets of the pass are; after Abort nothing is, and for a tag whose
// handler is removed nothing is.
func TestPackHandlerInterferes(t *testing.T) {
	for _, c := range []struct {
		name    string
		act     func(ep *Endpoint)
		want    []record
		dropped uint64
	}{
		{"nothing", func(*Endpoint) {}, []record{{1, "a"}, {2, "b"}, {3, "c"}}, 0},
		{"close", func(ep *Endpoint) { ep.Close(ep.Now()) }, []record{{1, "a"}, {2, "b"}, {3, "c"}}, 0},
		{"abort", func(ep *Endpoint) { ep.Abort() }, []record{{1, "a"}}, 2},
		{"remove", func(ep *Endpoint) { ep.mod().Handle(2, nil) }, []record{{1, "a"}, {3, "c"}}, 1},
		{
			"close module",
			func(ep *Endpoint) { ep.mod().Close() },
			[]record{{1, "a"}, {2, "b"}, {3, "c"}},
			0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := newStranger(t, smallConfig())
			var got []record
			for tag := Tag(1); tag <= 3; tag++ {
				s.m.Handle(tag, func(ep *Endpoint, tag Tag, data []byte) {
					got = append(got, record{uint8(tag), string(data)})
					for range 3 { // fills a pack, which is sealed at once
						_ = ep.SendImmediate(ep.Now(), 1, make([]byte, 700)) // fails where the endpoint is closed
					}
					if tag == 1 {
						c.act(ep)
					}
				})
			}
			s.connect()
			s.run(20)
			s.raw(1, encode(frag.Header{Kind: frag.KindPack, Conn: s.conn, Seq: s.next},
				packPayload(record{1, "a"}, record{2, "b"}, record{3, "c"})))
			for range 6 {
				l.step(10 * time.Microsecond)
			}
			for _, p := range s.take() { // answers may acknowledge the pack only if it was delivered
				if c.name == "abort" && p.hdr.Flags&frag.FlagAck != 0 && !p.hdr.Ack.Before(s.next) {
					t.Errorf("a pack that was not delivered is acknowledged: %+v", p.hdr)
				}
			}
			if !slices.Equal(got, c.want) || counter(s.m, CntRecordsDropped) != c.dropped {
				t.Errorf("delivered %v, dropped %d", got, counter(s.m, CntRecordsDropped))
			}
		})
	}
}

// Of the answers to a pack the first leaves at once, and the others are a pack. Only the answer to
// the last record acknowledges it.
func TestPackAnswers(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	l.mods[1].Handle(1, func(ep *Endpoint, tag Tag, data []byte) { sendOrFail(t, ep, tag, data) })
	answers := 0
	l.mods[0].Handle(1, func(*Endpoint, Tag, []byte) { answers++ })
	a, _ := l.pair()
	l.settle(time.Second)
	before := l.mods[1].counted()
	for range 33 {
		sendOrFail(t, a, 1, []byte("question"))
	}
	l.until("answers", 5*time.Microsecond, time.Second, func() bool { return answers == 33 })
	if n := l.mods[1].counted().SegmentsSent() - before.SegmentsSent(); n != 3 {
		t.Errorf("33 questions, of which one came unpacked, were answered in %d packets, want 3", n)
	}

	for answered := range uint8(3) {
		_, s := newStranger(t, smallConfig())
		for tag := range uint8(3) {
			s.m.Handle(Tag(tag), func(ep *Endpoint, _ Tag, _ []byte) {
				if tag != answered {
					return
				}
				sendOrFail(t, ep, 9, []byte("answer"))
				got := s.take()
				if len(got) != 1 {
					t.Fatalf("the only answer: %d packets have left inside Send, want 1", len(got))
				}
				acks := got[0].hdr.Flags&frag.FlagAck != 0 && got[0].hdr.Ack == s.next
				if last := tag == 2; acks != last {
					t.Errorf("the answer to record %d acknowledges the pack: %v", tag, acks)
				}
			})
		}
		s.connect()
		s.ack(s.peerFirst - 1)
		s.run(20)
		s.raw(0, encode(frag.Header{Kind: frag.KindPack, Conn: s.conn, Seq: s.next},
			packPayload(record{0, "a"}, record{1, "b"}, record{2, "c"})))
		s.run(1)
	}
}

// How an open pack ends when nothing is sent any more.
func TestPackOpenAtTheEnd(t *testing.T) {
	open := func(t *testing.T) (*lab, *Endpoint, *error) {
		l := newLab(t, mem.Config{}, 2, smallConfig())
		l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
		a, _ := l.pair()
		l.settle(time.Second)
		sendOrFail(t, a, 1, []byte("leaves"))
		sendOrFail(t, a, 1, []byte("untold"))
		ended := sendTold(t, a, 1, "told")
		if queued(a) == 0 {
			t.Fatal("no pack is open")
		}
		if err := l.mods[0].Check(); err != nil {
			t.Fatal(err)
		}
		return l, a, ended
	}
	t.Run("flush", func(t *testing.T) {
		l, a, ended := open(t)
		flushed := errPending
		lost := false
		l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict { // the first copy of the pack
			if frag.Kind(pkt[1]&0x0F) == frag.KindPack && !lost {
				lost = true
				return mem.Drop
			}
			return mem.Deliver
		})
		a.Flush(l.now, func(err error) {
			flushed = err
			if counter(l.mods[1], CntDelivered) != 3 {
				t.Errorf("flushed after %d messages", counter(l.mods[1], CntDelivered))
			}
		})
		l.until("flushed", 10*time.Microsecond, time.Second, func() bool {
			return !errors.Is(flushed, errPending)
		})
		if flushed != nil || *ended != nil {
			t.Errorf("flushed %v, ended %v", flushed, *ended)
		}
	})
	t.Run("close", func(t *testing.T) {
		l, a, ended := open(t)
		a.Close(l.now)
		l.until("closed", 10*time.Microsecond, time.Second, func() bool { return a.Err() != nil })
		if n := counter(l.mods[1], CntDelivered); n != 3 || *ended != nil {
			t.Errorf("%d delivered, ended %v", n, *ended)
		}
	})
	t.Run("abort", func(t *testing.T) {
		l, a, ended := open(t)
		a.Abort()
		if err := l.mods[0].Check(); err != nil {
			t.Fatal(err)
		}
		l.step(time.Microsecond)
		if !errors.Is(*ended, ErrClosed) {
			t.Errorf("ended %v", *ended)
		}
		l.until("gone", time.Millisecond, 10*time.Second, func() bool {
			return peersOf(l.mods[0]) == 0
		})
		l.wantEmpty(0)
	})
	t.Run("close module", func(t *testing.T) {
		l, _, ended := open(t)
		if err := l.mods[0].Close(); err != nil || !errors.Is(*ended, ErrClosed) {
			t.Errorf("closed %v, ended %v", err, *ended)
		}
		if err := l.mods[0].CheckIdle(); err != nil {
			t.Error(err)
		}
	})
}

// A large message leaves after the open pack, which small ones behind it join; a put that follows
// does not overtake the pack.
func TestPackBeforeOthers(t *testing.T) {
	s, ep := packScript(t, smallConfig())
	sendOrFail(t, ep, 1, []byte("leaves"))
	sendOrFail(t, ep, 1, []byte("small"))
	sendOrFail(t, ep, 1, []byte("small"))
	sendOrFail(t, ep, 1, make([]byte, 3000))
	sendOrFail(t, ep, 1, []byte("behind"))
	f, err := ep.PreparePut([]byte("put"), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	var order []frag.Kind
	at := map[frag.Kind]int{}
	for _, p := range s.run(2) {
		at[p.hdr.Kind] = int(p.hdr.Seq - s.peerFirst)
		order = append(order, p.hdr.Kind)
	}
	if len(order) != 6 || at[frag.KindPack] != 1 || at[frag.KindFrag] != 2 || at[frag.KindChunk] != 5 {
		t.Errorf("sent %v, the last of each kind under %v", order, at)
	}
}

// SendImmediate keeps to what the peer takes, like the other ways to send.
func TestImmediateTooLarge(t *testing.T) {
	_, s := newStranger(t, smallConfig())
	s.hello.FragBytesMax = 100
	ep := s.connect()
	s.ack(s.peerFirst - 1)
	s.run(3)
	if err := ep.SendImmediate(ep.Now(), 1, make([]byte, 101)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	if err := ep.SendImmediate(ep.Now(), 1, make([]byte, 100)); err != nil {
		t.Error(err)
	}
}
