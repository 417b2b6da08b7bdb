package btl

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"gobtl/btl/internal/landing"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// landBatch is what a script sends to a module that has received the first chunk of a message: all
// of it waits for a single poll.
type landBatch struct {
	tb       testing.TB
	l        *lab
	s, other *script // connected, both of them
	ep       *Endpoint
	room     uint32
	n        seq.Num // next number
	sent     int     // packets
	got      []string
	pkts     []sentPacket // from the module
}

// size is that of a message: in chunks of which the last one is shorter, or not.
func (b *landBatch) size(id uint32) uint32 {
	if id == 3 {
		return 8 * b.room
	}
	return 20*b.room + 5
}

// message is the content of a message.
func (b *landBatch) message(id uint32) []byte {
	all := make([]byte, b.size(id))
	for i := range all {
		all[i] = byte(id) + byte(i)*7 + byte(i/int(b.room))*13
	}
	return all
}

// header is that of a chunk under the next number. The packet's own goes on with it, as in a run.
func (b *landBatch) header(id, chunk uint32) (frag.Header, []byte) {
	all := b.message(id)
	offset := chunk * b.room
	return frag.Header{
		Kind: frag.KindChunk, Conn: b.s.conn, Number: uint32(b.n), Seq: b.n, Tag: 1, FragID: id,
		SizeBytes: uint32(len(all)), OffsetBytes: offset,
		FirstBytes: uint16(min(b.room, uint32(len(all)))), ChunkBytes: uint16(b.room),
	}, all[offset:min(offset+b.room, uint32(len(all)))]
}

// chunks sends chunks of a message, under the next numbers.
func (b *landBatch) chunks(id, from, to uint32) {
	for chunk := from; chunk <= to; chunk++ {
		b.altered(id, chunk, func(*frag.Header) {})
		b.n++
	}
}

// altered sends a chunk under the next number, which remains that, after a change of its header.
func (b *landBatch) altered(id, chunk uint32, alter func(h *frag.Header)) {
	h, payload := b.header(id, chunk)
	alter(&h)
	b.raw(encode(h, payload))
}

// others sends chunks of the first message as those of the other endpoint.
func (b *landBatch) others(from, to uint32) {
	for chunk := from; chunk <= to; chunk++ {
		b.altered(1, chunk, func(h *frag.Header) {
			h.Conn, h.Number, h.Seq = b.other.conn, uint32(b.other.next), b.other.next
			b.other.next++
		})
	}
}

func (b *landBatch) raw(pkt []byte) {
	b.s.raw(1, pkt)
	b.sent++
}

// mark sends a mark of the transport under a number.
func (b *landBatch) mark(n seq.Num, tag uint8) {
	b.raw(encode(frag.Header{Kind: frag.KindFrag, Conn: b.s.conn, Seq: n, Tag: tag}, nil))
}

// landState is all that a batch can have left behind.
type landState struct {
	counters [stats.Count]uint64
	rcv      reliability.Receiver
	early    [2]uint64 // packets that have arrived behind a gap
	inFlight int
	active   int
	got      []string
	sent     [][]byte
	ended    bool
}

func (b *landBatch) state() landState {
	s := landState{
		counters: b.s.m.all.Count, rcv: b.ep.c.Rcv.Receiver, inFlight: flying(b.ep),
		active: b.ep.c.Asm.Active(),
		got:    slices.Clone(b.got), ended: !b.ep.Connected(),
	}
	for _, p := range b.pkts {
		s.sent = append(s.sent, p.bytes)
	}
	s.rcv.OutOfOrder(s.early[:])
	s.counters[CntLanded] = 0
	return s
}

// newLandBatch connects two scripts to a module, one of which has sent the first chunk of a
// message. A module that does not land handles the same packets one by one.
func newLandBatch(t *testing.T, c *landCase, lands bool) *landBatch {
	t.Helper()
	cfg := smallConfig()
	cfg.Rules.WindowPackets = c.window
	l := newLab(t, mem.Config{}, 1, cfg)
	b := &landBatch{tb: t, l: l, s: l.newScript(0), other: l.newScript(0)}
	for tag := range Tag(3) {
		b.s.m.Handle(tag, func(ep *Endpoint, tag Tag, data []byte) {
			b.got = append(b.got, fmt.Sprintf("%d:%s", tag, data))
		})
	}
	b.ep = b.s.connect()
	b.other.hello.Incarnation++
	b.other.hello.Tag++
	b.other.connect()
	b.s.run(20)
	b.room, b.n = uint32(segmentRoom(b.ep.MTUBytes(), frag.KindChunk)), b.s.next
	if !lands {
		b.s.m.rx.Direct.Plan = landing.Plan[*peer.Endpoint]{}
	}
	id := max(1, c.id)
	b.chunks(id, 0, 0)
	b.s.run(4)
	if c.before != nil {
		c.before(b)
	}
	b.s.run(4 + landing.PausePolls)
	return b
}

// pass has the module handle the batch, by one poll, and then what is due.
func (b *landBatch) pass(batch func(b *landBatch)) {
	b.tb.Helper()
	b.sent = 0
	batch(b)
	before := counter(b.s.m, CntReceived)
	b.l.step(10 * time.Microsecond)
	if n := counter(b.s.m, CntReceived) - before; n != uint64(b.sent) {
		b.tb.Errorf("%d of %d packets handled by one pass", n, b.sent)
	}
	b.s.pump()
	b.pkts = append(b.pkts, b.s.take()...)
}

func (b *landBatch) settle() {
	b.tb.Helper()
	b.pkts = append(b.pkts, b.s.run(40)...)
	if n := unaccounted(b.s.m); n != 0 {
		b.tb.Errorf("%d packets are unaccounted for", n)
	}
}

type landCase struct {
	name   string
	id     uint32 // of the message whose first chunk has come; 0: 1
	window int
	before func(b *landBatch)
	batch  func(b *landBatch)
	after  func(b *landBatch) // what is missing
	landed uint64             // packets of the batch that stay where they have landed
	counts map[Counter]uint64 // of the batch
	want   []uint32           // messages in the end
	ends   bool
}

// landFaults are batches in which the chunk in the middle, the sixth, is replaced by something
// else, and comes in the end.
func landFaults() (all []landCase) {
	fault := func(name string, c Counter, put func(b *landBatch)) {
		all = append(all, landCase{
			name: name,
			batch: func(b *landBatch) {
				b.chunks(1, 1, 5)
				put(b)
				b.n++
				b.chunks(1, 7, 12)
			},
			after: func(b *landBatch) {
				missing := b.n - 7
				b.altered(1, 6, func(h *frag.Header) { h.Seq = missing })
				b.chunks(1, 13, 20)
			},
			landed: 5, counts: map[Counter]uint64{CntRecvChunk: 11, CntEarly: 6, c: 1},
			want: []uint32{1},
		})
	}
	altered := func(name string, c Counter, alter func(h *frag.Header)) {
		fault(name, c, func(b *landBatch) { b.altered(1, 6, alter) })
	}
	fault("one missing", stats.Count, func(b *landBatch) {})
	fault("an error", CntRecvErrors, func(b *landBatch) {
		count := 0
		b.l.spies[0].failRecv = func() bool {
			count++
			return count == 6
		}
		b.altered(1, 6, func(*frag.Header) {})
	})
	altered("a wrong tag", CntDropReassembly, func(h *frag.Header) { h.Tag = 2 })
	altered("a larger size", CntDropReassembly, func(h *frag.Header) { h.SizeBytes++ })
	altered("a smaller size", CntDropReassembly, func(h *frag.Header) { h.SizeBytes-- })
	altered("an offset off the grid", CntDropMalformed, func(h *frag.Header) { h.OffsetBytes++ })
	altered("the offset of the one before", CntDropReassembly, func(h *frag.Header) {
		h.OffsetBytes = 5 * (h.SizeBytes / 20)
	})
	altered("no connection", CntDropConn, func(h *frag.Header) { h.Conn += 1 << 40 })
	altered("beyond the window", CntAboveWindow, func(h *frag.Header) { h.Seq += 1 << 20 })
	altered("an ACK of what was never sent", CntDropAck, func(h *frag.Header) {
		h.Flags, h.Ack, h.Credit = frag.FlagAck, h.Ack+3<<30, 4095
	})
	put := func(cut int) func(b *landBatch) {
		return func(b *landBatch) {
			h, payload := b.header(1, 6)
			h.Flags, h.Tag, h.Handle = frag.FlagPut, 0, 77
			b.raw(encode(h, payload[:len(payload)-cut]))
		}
	}
	fault("a put", CntDropAccess, put(frag.PutHeaderBytes-frag.FragHeaderBytes))
	fault("a put that is cut off", CntDropMalformed, put(0))
	fault("a short payload", CntDropMalformed, func(b *landBatch) {
		h, payload := b.header(1, 6)
		b.raw(encode(h, payload[:len(payload)-1]))
	})
	fault("a reserved bit", CntDropMalformed, func(b *landBatch) {
		h, payload := b.header(1, 6)
		pkt := encode(h, payload)
		pkt[frag.FragHeaderBytes-1] = 1
		b.raw(pkt)
	})
	fault("rubbish", CntDropMalformed, func(b *landBatch) {
		b.raw(bytes.Repeat([]byte("rubbish"), 100))
	})
	return all
}

// landMixed are batches in which something else stands between the chunks, and nothing is missing.
func landMixed() (all []landCase) {
	between := func(name string, landed uint64, counts map[Counter]uint64, put func(b *landBatch)) {
		all = append(all, landCase{
			name: name, landed: landed, counts: counts,
			batch: func(b *landBatch) {
				b.chunks(1, 1, 5)
				put(b)
				b.chunks(1, 6, 12)
			},
			after: func(b *landBatch) { b.chunks(1, 13, 20) },
			want:  []uint32{1},
		})
	}
	between("in order", 12, map[Counter]uint64{CntRecvChunk: 12}, func(b *landBatch) {})
	again := func(chunk uint32) func(b *landBatch) {
		return func(b *landBatch) {
			b.altered(1, chunk, func(h *frag.Header) { h.Seq = b.s.next.Add(chunk) })
		}
	}
	copies := map[Counter]uint64{CntRecvChunk: 12, CntBelowWindow: 1}
	between("a copy of the latest", 5, copies, again(5))
	between("a copy of an older one", 5, copies, again(2))
	between("a copy of the first", 5, copies, again(0))
	between("of another endpoint", 5, map[Counter]uint64{CntRecvChunk: 13}, func(b *landBatch) {
		b.altered(2, 0, func(h *frag.Header) { h.Conn, h.Seq = b.other.conn, b.other.next })
	})
	between("the very chunk of another endpoint", 5, map[Counter]uint64{CntRecvChunk: 13},
		func(b *landBatch) {
			b.altered(1, 6, func(h *frag.Header) { h.Conn, h.Seq = b.other.conn, b.other.next })
		})
	between("of another message", 5, map[Counter]uint64{CntRecvChunk: 13}, func(b *landBatch) {
		b.chunks(2, 0, 0)
	})
	between("a bye of another endpoint", 5, map[Counter]uint64{CntRecvChunk: 12, CntRecvFrag: 1},
		func(b *landBatch) {
			b.raw(encode(frag.Header{
				Kind: frag.KindFrag, Conn: b.other.conn, Seq: b.other.next, Tag: frag.TagBye,
			}, nil))
		})
	between("an ACK-only packet", 5, map[Counter]uint64{CntRecvChunk: 12, CntRecvAck: 1},
		func(b *landBatch) {
			b.raw(encode(frag.Header{
				Kind: frag.KindAck, Flags: frag.FlagAck, Conn: b.s.conn, Ack: b.s.peerFirst - 1,
				Credit: 4095, CreditBytes: frag.CreditBytesAll,
			}, nil))
		})
	return all
}

// landAcks are batches of which one packet carries an ACK: of what is in flight, or not.
func landAcks() (all []landCase) {
	for _, at := range []uint32{1, 6, 12} {
		for _, flags := range []frag.Flags{frag.FlagAck, frag.FlagAck | frag.FlagDup} {
			for before := range seq.Num(2) {
				all = append(all, landAck(at, flags, before))
			}
		}
	}
	return all
}

func landAck(at uint32, flags frag.Flags, before seq.Num) landCase {
	counts := map[Counter]uint64{CntRecvChunk: 12, CntDupAcks: 0}
	if before > 0 && flags&frag.FlagDup == 0 {
		counts[CntDupAcks] = 1
	}
	return landCase{
		name: fmt.Sprintf("flags %x on chunk %d, ACK of %d before", flags, at, before),
		before: func(b *landBatch) {
			if err := b.ep.SendImmediate(b.ep.Now(), 1, []byte("to be acknowledged")); err != nil {
				b.tb.Fatal(err)
			}
		},
		batch: func(b *landBatch) {
			if flying(b.ep) != 1 {
				b.tb.Fatalf("%d packets in flight", flying(b.ep))
			}
			b.chunks(1, 1, at-1)
			b.altered(1, at, func(h *frag.Header) {
				h.Flags, h.Ack, h.Credit = flags, b.s.peerFirst-before, 4095
			})
			b.n++
			b.chunks(1, at+1, 12)
		},
		after:  func(b *landBatch) { b.chunks(1, 13, 20); b.s.ack(b.s.peerFirst) },
		landed: 12, counts: counts, want: []uint32{1},
	}
}

// landEnds are batches in which a message or a connection ends, and those with early packets.
func landEnds() []landCase {
	nothing := func(*landBatch) {}
	return []landCase{
		{
			name:  "a message to its shorter chunk, and the next one",
			batch: func(b *landBatch) { b.chunks(1, 1, 20); b.chunks(2, 0, 5) },
			after: func(b *landBatch) { b.chunks(2, 6, 20) }, landed: 20,
			counts: map[Counter]uint64{CntRecvChunk: 26, CntDelivered: 1}, want: []uint32{1, 2},
		},
		{
			name: "a message of equal chunks, and the next one", id: 3,
			batch: func(b *landBatch) { b.chunks(3, 1, 7); b.chunks(2, 0, 5) },
			after: func(b *landBatch) { b.chunks(2, 6, 20) }, landed: 7,
			counts: map[Counter]uint64{CntRecvChunk: 13, CntDelivered: 1}, want: []uint32{3, 2},
		},
		{
			name: "a message, and one that only lacks this", id: 3,
			before: func(b *landBatch) { b.chunks(1, 0, 19); b.s.run(2); b.chunks(3, 1, 1) },
			batch:  func(b *landBatch) { b.chunks(3, 2, 7); b.chunks(1, 20, 20); b.chunks(2, 0, 5) },
			after:  func(b *landBatch) { b.chunks(2, 6, 20) }, landed: 6,
			counts: map[Counter]uint64{CntRecvChunk: 13, CntDelivered: 2}, want: []uint32{3, 1, 2},
		},
		{
			name: "a run larger than the window", window: 16,
			batch: func(b *landBatch) { b.chunks(1, 1, 20) }, after: nothing, landed: 20,
			counts: map[Counter]uint64{CntRecvChunk: 20, CntDelivered: 1}, want: []uint32{1},
		},
		{
			name:   "early ones, then what was missing",
			before: func(b *landBatch) { b.n += 2; b.chunks(1, 3, 3); b.n -= 3 },
			batch: func(b *landBatch) {
				b.n += 3
				b.chunks(1, 4, 12)
				b.n -= 12
				b.chunks(1, 1, 2)
				b.n += 10
			},
			after: func(b *landBatch) { b.chunks(1, 13, 20) }, landed: 9,
			counts: map[Counter]uint64{CntRecvChunk: 11, CntEarly: 9}, want: []uint32{1},
		},
		{
			name:   "the same place in another message", // which has begun, and gets all before
			before: func(b *landBatch) { b.chunks(2, 0, 5); b.s.run(2); b.chunks(1, 1, 1) },
			batch:  func(b *landBatch) { b.chunks(1, 2, 5); b.chunks(2, 6, 6); b.chunks(1, 6, 12) },
			after:  func(b *landBatch) { b.chunks(1, 13, 20); b.chunks(2, 7, 20) }, landed: 4,
			counts: map[Counter]uint64{CntRecvChunk: 12}, want: []uint32{1, 2},
		},
		{
			name:   "the same place in a message of another endpoint", // of the same number
			before: func(b *landBatch) { b.others(0, 5); b.s.run(2); b.chunks(1, 1, 1) },
			batch:  func(b *landBatch) { b.chunks(1, 2, 5); b.others(6, 6); b.chunks(1, 6, 12) },
			after:  func(b *landBatch) { b.chunks(1, 13, 20); b.others(7, 20) }, landed: 4,
			counts: map[Counter]uint64{CntRecvChunk: 12}, want: []uint32{1, 1},
		},
		{
			name: "an early one right behind them",
			before: func(b *landBatch) {
				b.n += 12
				b.chunks(2, 0, 0)
				b.n -= 13
				b.chunks(1, 1, 1)
			},
			batch: func(b *landBatch) { b.chunks(1, 2, 12); b.n++ },
			after: func(b *landBatch) { b.chunks(1, 13, 20); b.chunks(2, 1, 20) }, landed: 11,
			counts: map[Counter]uint64{CntRecvChunk: 11}, want: []uint32{1, 2},
		},
		{
			name:   "something missing before them",
			batch:  func(b *landBatch) { b.n++; b.chunks(1, 1, 12) },
			after:  func(b *landBatch) { b.mark(b.n-13, frag.TagVoid); b.chunks(1, 13, 20) },
			landed: 12, counts: map[Counter]uint64{CntRecvChunk: 12, CntEarly: 12}, want: []uint32{1},
		},
		{
			name:  "a bye behind the message",
			batch: func(b *landBatch) { b.chunks(1, 1, 20); b.mark(b.n, frag.TagBye) },
			after: nothing, landed: 20, ends: true, want: []uint32{1},
			counts: map[Counter]uint64{CntRecvChunk: 20, CntRecvFrag: 1, CntDelivered: 1},
		},
		{
			name: "an early bye in the middle",
			batch: func(b *landBatch) {
				b.chunks(1, 1, 10)
				b.mark(b.n+10, frag.TagBye)
				b.chunks(1, 11, 20)
			},
			after: nothing, landed: 10, ends: true, want: []uint32{1},
			counts: map[Counter]uint64{CntRecvChunk: 20, CntRecvFrag: 1, CntDelivered: 1, CntEarly: 1},
		},
		{
			name:   "an early bye before",
			before: func(b *landBatch) { b.mark(b.n+20, frag.TagBye) },
			batch:  func(b *landBatch) { b.chunks(1, 1, 20) },
			after:  nothing, landed: 1, ends: true, want: []uint32{1},
			counts: map[Counter]uint64{CntRecvChunk: 20, CntDelivered: 1},
		},
		{
			name:   "the last one before a bye",
			before: func(b *landBatch) { b.chunks(1, 1, 19); b.s.run(2); b.mark(b.n+1, frag.TagBye) },
			batch:  func(b *landBatch) { b.chunks(1, 20, 20) },
			after:  nothing, landed: 1, ends: true, want: []uint32{1},
			counts: map[Counter]uint64{CntRecvChunk: 1, CntDelivered: 1},
		},
		{
			name:   "the last one before a bye that comes too soon",
			before: func(b *landBatch) { b.mark(b.n+2, frag.TagBye) },
			batch:  func(b *landBatch) { b.chunks(1, 1, 4) }, after: nothing, landed: 1, ends: true,
			counts: map[Counter]uint64{CntRecvChunk: 2, CntDropState: 1, CntBelowWindow: 1},
		},
		{
			name: "a bye in the middle of a message, and what may not follow",
			batch: func(b *landBatch) {
				b.chunks(1, 1, 10)
				b.mark(b.n, frag.TagBye)
				b.chunks(1, 11, 20)
			},
			after: nothing, landed: 10, ends: true,
			counts: map[Counter]uint64{CntRecvChunk: 10, CntRecvFrag: 1},
		},
		{
			name: "a tag that nobody handles",
			batch: func(b *landBatch) {
				b.chunks(1, 1, 5)
				b.altered(1, 6, func(h *frag.Header) { h.Tag = 9 })
				b.n++
				b.chunks(1, 7, 12)
			},
			after: func(b *landBatch) { // a refusal covers the later chunks of the fragment, too
				for n := b.n - 7; n < b.n; n++ {
					b.mark(n, frag.TagVoid)
				}
			}, landed: 5,
			counts: map[Counter]uint64{CntRecvChunk: 5, CntDropNoHandler: 7},
		},
	}
}

// TestLandingRuns: of what one poll brings as much counts as landed as stands in its place, and all
// else is as if the packets had been handled one by one.
func TestLandingRuns(t *testing.T) {
	for _, c := range slices.Concat(landMixed(), landAcks(), landFaults(), landEnds()) {
		t.Run(c.name, func(t *testing.T) {
			var states [2][2]landState
			for way := range states {
				states[way] = c.run(t, way == 0)
			}
			for i, when := range []string{"behind the batch", "in the end"} {
				wantSameState(t, when, &states[0][i], &states[1][i])
			}
		})
	}
}

// run plays the case and returns the state behind the batch and in the end.
func (c *landCase) run(t *testing.T, lands bool) (states [2]landState) {
	t.Helper()
	b := newLandBatch(t, c, lands)
	before := b.s.m.counted()
	b.pass(c.batch)
	b.l.spies[0].failRecv = nil
	s := b.s.m.counted()
	states[0] = b.state()
	for counter, want := range c.counts {
		if counter == stats.Count {
			continue
		}
		if n := s.Get(counter) - before.Get(counter); n != want {
			t.Errorf("lands: %v, %v is %d, want %d", lands, counter, n, want)
		}
	}
	landed := c.landed
	if !lands {
		landed = 0
	}
	if n := s.Get(CntLanded) - before.Get(CntLanded); n != landed {
		t.Errorf("lands: %v, %d packets landed, want %d", lands, n, landed)
	}
	next := b.ep.c.Rcv.Next()
	b.settle()
	if told := acks(b.pkts); !c.ends && (len(told) == 0 || told[len(told)-1] != next-1) {
		t.Errorf("lands: %v, ACKs %d, want %d at last", lands, told, next-1)
	}
	c.after(b)
	b.settle()
	states[1] = b.state()
	var want []string
	for _, id := range c.want {
		want = append(want, "1:"+string(b.message(id)))
	}
	if !slices.Equal(b.got, want) {
		t.Errorf("lands: %v, %d messages came, want %d, or altered ones", lands, len(b.got), len(want))
	}
	if !c.ends && (b.ep.c.Rcv.Next() != b.n || flying(b.ep) != 0) {
		t.Errorf("lands: %v, next is %d, want %d, %d in flight", lands, b.ep.c.Rcv.Next(), b.n,
			flying(b.ep))
	}
	if ended := !b.ep.Connected(); ended != c.ends {
		t.Errorf("lands: %v, ended: %v", lands, ended)
	}
	return states
}

func wantSameState(t *testing.T, when string, got, want *landState) {
	t.Helper()
	for c := range stats.Count {
		if got.counters[c] != want.counters[c] {
			t.Errorf("%s: %v is %d, one by one %d", when, c, got.counters[c],
				want.counters[c])
		}
	}
	links := regexp.MustCompile(`(earlier|host|later|rare):\S+`) // pointers of a module's own
	a := links.ReplaceAllString(fmt.Sprintf("%+v", got.rcv), "")
	b := links.ReplaceAllString(fmt.Sprintf("%+v", want.rcv), "")
	if a != b || got.early != want.early {
		t.Errorf("%s: receiver %s, early %x, one by one %s, early %x", when, a, got.early, b, want.early)
	}
	if got.inFlight != want.inFlight || got.active != want.active || got.ended != want.ended ||
		!slices.Equal(got.got, want.got) {
		t.Errorf("%s: %d in flight, %d fragments, %d messages, ended %v; one by one %d, %d, %d, %v",
			when, got.inFlight, got.active, len(got.got), got.ended,
			want.inFlight, want.active, len(want.got), want.ended)
	}
	if !slices.EqualFunc(got.sent, want.sent, bytes.Equal) {
		t.Errorf("%s: sent\n%x, one by one\n%x", when, got.sent, want.sent)
	}
}

// TestLandingRunsGoOn: behind a run the next one lands, too.
func TestLandingRunsGoOn(t *testing.T) {
	b := newLandBatch(t, &landCase{}, true)
	chunk := uint32(1)
	for _, n := range []uint32{7, 1, 5, 1, 1, 4, 1} {
		b.pass(func(b *landBatch) { b.chunks(1, chunk, chunk+n-1) })
		chunk += n
		if landed := counter(b.s.m, CntLanded); landed != uint64(chunk-1) {
			t.Errorf("%d of %d chunks landed", landed, chunk-1)
		}
	}
	if want := []string{"1:" + string(b.message(1))}; !slices.Equal(b.got, want) {
		t.Errorf("%d messages came, or an altered one", len(b.got))
	}
}

// TestFastBehindLarge: behind a large message a lone packet is received fast again, whether or not
// the provider can land.
func TestFastBehindLarge(t *testing.T) {
	for _, lands := range []bool{true, false} {
		b := newLandBatch(t, &landCase{}, lands)
		b.chunks(1, 1, 20)
		b.s.run(40)
		before := counter(b.s.m, CntFastReceives)
		b.raw(encode(frag.Header{Kind: frag.KindFrag, Conn: b.s.conn, Seq: b.n, Tag: 1},
			make([]byte, b.room)))
		b.s.run(40)
		if n := counter(b.s.m, CntFastReceives) - before; n != 1 || len(b.got) != 2 {
			t.Errorf("lands: %v, %d messages came, %d of them fast", lands, len(b.got), n)
		}
	}
}
