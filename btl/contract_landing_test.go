package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// Rule 4 for what is gathered from the sender's memory and landed in the receiver's: each message
// once, whole and unaltered, when packets are lost, doubled and reordered, with two senders whose
// packets come mixed.
func TestContract04Landing(t *testing.T) {
	seed := testSeed(t, 21)
	for _, c := range []struct {
		name    string
		senders int
		chaos   chaos
		landed  int // of the chunks, in percent at least
	}{
		{"calm", 1, chaos{}, 50},
		{"calm, two senders", 2, chaos{}, 1},
		{"loss", 1, chaos{loss: 0.01}, 5},
		{"all faults", 2, chaos{loss: 0.02, dup: 0.02, hold: 0.05}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := regressConfig()
			cfg.SendBuffers, cfg.RecvDepth = 512, 256
			l := newLab(t, mem.Config{FreeRegions: true, QueueDatagrams: 256}, 3, cfg)
			var tr []*traffic
			var eps []*Endpoint
			for i := range c.senders {
				tr = append(tr, newTraffic(t, seed+uint64(i), Tag(i+1)))
				l.mods[2].Handle(Tag(i+1), tr[i].receive)
				eps = append(eps, l.connect(i, 2))
			}
			l.settle(time.Second)
			l.chaos(c.chaos, seed)
			for range 150 {
				for i, ep := range eps {
					if tr[i].rng.IntN(4) == 0 {
						tr[i].send(ep, drawSize(tr[i].rng, 1<<19))
					}
				}
				l.step(20 * time.Microsecond)
				l.chaosStep()
			}
			l.calm()
			l.until("all delivered", 50*time.Microsecond, 60*time.Second, func() bool {
				for i := range tr {
					if !tr[i].finished() {
						return false
					}
				}
				return true
			})
			chunks := 0
			for i := range tr {
				tr[i].verify()
				chunks += int(l.mods[i].stats.Get(CntSentChunk))
				if l.spies[i].regions != 0 || l.spies[i].gathered == 0 {
					t.Errorf("module %d: %d regions registered, %d sends gathered", i, l.spies[i].regions,
						l.spies[i].gathered)
				}
			}
			if n := int(l.mods[2].stats.Get(CntLanded)); n*100 < chunks*c.landed {
				t.Errorf("%d of %d chunks landed, want %d %%", n, chunks, c.landed)
			}
			l.settle(time.Second)
			for i := range l.mods {
				l.wantIdle(i)
			}
		})
	}
}

// landScript is a module that has received the first chunk of a fragment of ten, whose poll of the
// data channel lands from then on.
func landScript(t *testing.T) (s *script, got *[]string, room uint32) {
	t.Helper()
	_, s = newStranger(t, smallConfig())
	got = new([]string)
	s.m.Handle(1, func(_ *Endpoint, _ Tag, data []byte) { *got = append(*got, string(data)) })
	ep := s.connect()
	s.run(20)
	room = uint32(segmentRoom(ep.mtu, frag.KindChunk))
	return s, got, room
}

// What lands where another packet was expected is put together again: nothing of it is lost, and
// nothing is taken for what it is not.
func TestLandingUnexpected(t *testing.T) {
	s, got, room := landScript(t)
	size := 4 * room
	part := func(c byte) []byte {
		b := make([]byte, room)
		for i := range b {
			b[i] = c
		}
		return b
	}
	n := s.next
	send := func(id, chunk uint32, c byte) {
		s.chunk(n, id, size, chunk*room, part(c))
		n = n.Add(1)
	}
	send(1, 0, 'a')
	s.run(4)
	// All of these arrive in one poll, and land behind the first chunk.
	send(1, 1, 'b')                        // as expected
	send(2, 0, 'A')                        // another fragment's
	send(1, 3, 'd')                        // too early
	send(2, 1, 'B')                        // in order again, of the other
	s.chunk(n-1, 2, size, room, part('!')) // the number of one that came
	s.raw(1, []byte("no packet, and long enough to land somewhere in the memory of a fragment"))
	s.raw(1, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: n, Tag: 1}, part('f')))
	n = n.Add(1)
	s.run(20)
	send(2, 2, 'C')
	send(1, 2, 'c')
	send(2, 3, 'D')
	s.run(20)
	want := []string{
		string(part('f')),
		string(part('a')) + string(part('b')) + string(part('c')) + string(part('d')),
		string(part('A')) + string(part('B')) + string(part('C')) + string(part('D')),
	}
	if len(*got) != 3 || (*got)[0] != want[0] || (*got)[1] != want[1] || (*got)[2] != want[2] {
		t.Fatalf("%d messages came, altered", len(*got))
	}
	if c := s.m.stats.Get(CntLanded); c == 0 {
		t.Error("no chunk landed")
	}
	if c := s.m.stats.Get(CntDropMalformed); c != 1 {
		t.Errorf("%d malformed packets", c)
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}

// A handler that ends everything in the middle of a batch leaves nothing that could be written to.
func TestLandingEndsInHandler(t *testing.T) {
	s, got, room := landScript(t)
	ended := false
	s.m.Handle(2, func(ep *Endpoint, _ Tag, _ []byte) {
		ended = true
		ep.Abort()
	})
	size := 3 * room
	s.chunk(s.next, 1, size, 0, make([]byte, room))
	s.run(4)
	s.chunk(s.next.Add(1), 1, size, room, make([]byte, room))
	s.raw(1, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: s.next.Add(2), Tag: 2}, nil))
	s.chunk(s.next.Add(3), 1, size, 2*room, make([]byte, room))
	s.run(4)
	if !ended || len(*got) != 0 {
		t.Fatalf("ended %v, %d delivered", ended, len(*got))
	}
	if n := s.m.pool.ActiveBytes(); n != 0 {
		t.Errorf("%d bytes of reassembly in use", n)
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}
