package btl

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/landing"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// Rule 4 for what is gathered from the sender's memory and landed in the receiver's: each message
// once, whole and unaltered, when packets are lost, doubled and reordered, with two senders whose
// packets come mixed.
func TestContract04Landing(t *testing.T) {
	seed := testenv.Seed(t, 21)
	for _, c := range []struct {
		name    string
		senders int
		equal   int // size of most messages, if not drawn for each
		chaos   chaos
		landed  int // of the chunks, in percent at least
	}{
		{"calm", 1, 0, chaos{}, 50},
		{"calm, two senders", 2, 0, chaos{}, 1},
		{"calm, equal sizes", 1, 60_000, chaos{}, 65},
		{"two senders, equal sizes", 2, 20_000, chaos{}, 1},
		{"loss", 1, 0, chaos{loss: 0.01}, 5},
		{"loss, equal sizes", 1, 30_000, chaos{loss: 0.01}, 5},
		{"all faults", 2, 0, chaos{loss: 0.02, dup: 0.02, hold: 0.05}, 1},
		{"all faults, equal sizes", 2, 9000, chaos{loss: 0.02, dup: 0.02, hold: 0.05}, 1},
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
			guessAll(l.mods[2])
			l.chaos(c.chaos, seed)
			for range 150 {
				for i, ep := range eps {
					if tr[i].rng.IntN(4) != 0 {
						continue
					}
					size := c.equal
					if size == 0 || tr[i].rng.IntN(8) == 0 {
						size = drawSize(tr[i].rng, 1<<19)
					}
					tr[i].send(ep, size)
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
				chunks += int(counter(l.mods[i], CntSentChunk))
				if l.spies[i].regions != 0 || l.spies[i].gathered == 0 {
					t.Errorf("module %d: %d regions registered, %d sends gathered", i, l.spies[i].regions,
						l.spies[i].gathered)
				}
			}
			if n := int(counter(l.mods[2], CntLanded)); n*100 < chunks*c.landed {
				t.Errorf("%d of %d chunks landed, want %d %%", n, chunks, c.landed)
			}
			l.settle(time.Second)
			for i := range l.mods {
				l.wantIdle(i)
			}
		})
	}
}

// guessAll has a module expect the first chunk of a fragment of any size.
func guessAll(m *Module) {
	lander := m.all.Port.Data.Endpoint.(fabric.Lander)
	m.rx.Direct.Plan.Init(&m.all.Port.Data, lander, &m.all.Port.Arena, 0)
}

// landScript is a module that has received the first chunk of a fragment of ten, whose poll of the
// data channel lands from then on.
func landScript(t *testing.T) (s *script, got *[]string, room uint32) {
	t.Helper()
	return landScriptOf(t, 1472)
}

func landScriptOf(t *testing.T, mtuBytes int) (s *script, got *[]string, room uint32) {
	t.Helper()
	cfg := smallConfig()
	cfg.MTUBytes = mtuBytes
	s = newLab(t, mem.Config{MTUBytes: mtuBytes}, 1, cfg).newScript(0)
	s.hello.MTUBytes = uint16(mtuBytes)
	got = new([]string)
	s.m.Handle(1, func(_ *Endpoint, _ Tag, data []byte) { *got = append(*got, string(data)) })
	guessAll(s.m)
	ep := s.connect()
	s.run(20)
	room = uint32(segmentRoom(ep.MTUBytes(), frag.KindChunk))
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
	if c := counter(s.m, CntLanded); c == 0 {
		t.Error("no chunk landed")
	}
	if c := counter(s.m, CntDropMalformed); c != 1 {
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
	if n := s.m.all.Pool.ActiveBytes(); n != 0 {
		t.Errorf("%d bytes of reassembly in use", n)
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}

// Of large fragments that follow each other closely all lands but the first chunk, even if the last
// one of the fragment before has not landed.
func TestLandingFollows(t *testing.T) {
	s, got, room := landScriptOf(t, landing.OneByOneBytesMin)
	n := s.next
	send := func(id, chunks, from, to uint32) {
		for chunk := from; chunk < to; chunk++ {
			s.chunk(n, id, chunks*room, chunk*room, make([]byte, room))
			n = n.Add(1)
		}
	}
	step := func() { s.l.step(10 * time.Microsecond) }
	send(1, 4, 0, 4) // arrives with nothing before it: its first chunk is polled by itself
	for i := 0; i < 100 && len(*got) == 0; i++ {
		step()
	}
	send(2, 3, 0, 2)
	step()
	s.raw(0, encode(frag.Header{
		Kind: frag.KindChunk, Conn: s.conn, Seq: n, Tag: 1, FragID: 2, SizeBytes: 3 * room,
		OffsetBytes: 2 * room, FirstBytes: uint16(room), ChunkBytes: uint16(room),
	}, make([]byte, room)))
	n = n.Add(1)
	send(3, 5, 0, 5)
	step()
	if len(*got) != 3 {
		t.Fatalf("%d messages came", len(*got))
	}
	if c := counter(s.m, CntLanded); c != 3+1+4 {
		t.Errorf("%d of 12 chunks landed, want 8", c)
	}
}

// Behind two large fragments of one size a third is expected: it lands as a whole. If something
// else comes in its place, nothing of that is lost or altered, and the next fragment lands from its
// second chunk on again.
func TestLandingBegins(t *testing.T) {
	const big = 40 // chunks of a fragment for which there is another buffer
	for _, c := range []struct {
		name   string
		third  func(s *script, room uint32, part []byte) (used uint32, want string)
		landed uint64 // of the third fragment and the fourth
	}{
		{"as expected", func(s *script, room uint32, part []byte) (uint32, string) {
			s.chunk(s.next, 4, 2*room, 0, part)
			s.chunk(s.next+1, 4, 2*room, room, part)
			return 2, string(part) + string(part)
		}, 4},
		{"of the same class", func(s *script, room uint32, part []byte) (uint32, string) {
			s.chunk(s.next, 4, 2*room-1, 0, part)
			s.chunk(s.next+1, 4, 2*room-1, room, part[1:])
			return 2, string(part) + string(part[1:])
		}, 3},
		{"of another size", func(s *script, room uint32, part []byte) (uint32, string) {
			for i := range uint32(big) {
				s.chunk(s.next.Add(i), 4, big*room, i*room, part)
			}
			return big, strings.Repeat(string(part), big)
		}, 0},
		{"another fragment", func(s *script, room uint32, part []byte) (uint32, string) {
			s.chunk(s.next, 9, 2*room, 0, part)
			s.chunk(s.next+1, 9, 2*room, room, part)
			return 2, string(part) + string(part)
		}, 0},
		{"its second chunk first", func(s *script, room uint32, part []byte) (uint32, string) {
			s.chunk(s.next, 4, 2*room, room, part)
			s.chunk(s.next+1, 4, 2*room, 0, part)
			return 2, string(part) + string(part)
		}, 0},
		{"one packet", func(s *script, _ uint32, part []byte) (uint32, string) {
			s.raw(1, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: s.next, Tag: 1}, part))
			return 1, string(part)
		}, 0},
		{"no packet", func(s *script, room uint32, part []byte) (uint32, string) {
			s.raw(1, append([]byte("nothing"), part...))
			s.chunk(s.next, 4, 2*room, 0, part)
			s.chunk(s.next+1, 4, 2*room, room, part)
			return 2, string(part) + string(part)
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, got, room := landScript(t)
			part := func(c byte) []byte { return bytes.Repeat([]byte{c}, int(room)) }
			var want []string
			send := func(id uint32, c byte) {
				for i := range uint32(2) {
					s.chunk(s.next, id, 2*room, i*room, part(c+byte(i)))
					s.next++
				}
				want = append(want, string(part(c))+string(part(c+1)))
				s.run(4)
			}
			for i := range uint32(big) { // leaves an idle buffer of its size
				s.chunk(s.next, 1, big*room, i*room, part('z'))
				s.next++
			}
			want = append(want, strings.Repeat(string(part('z')), big))
			s.run(8)
			send(2, 'a')
			send(3, 'c')
			before := counter(s.m, CntLanded)
			used, third := c.third(s, room, part('!'))
			s.next = s.next.Add(used)
			want = append(want, third)
			s.run(4)
			send(5, 'e')
			if !slices.Equal(*got, want) {
				t.Fatalf("%d messages came, or altered ones", len(*got))
			}
			if n := counter(s.m, CntLanded) - before; n < c.landed || c.landed == 0 && n > big {
				t.Errorf("%d chunks landed, want %d", n, c.landed)
			}
			if err := s.m.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The last chunk of a fragment that lands comes by the other channel, which a hostile peer may do:
// then the provider still puts packets into memory that is not the fragment's any more, until it is
// told otherwise. A lone packet must not be received fast before that.
func TestLandingEndsElsewhere(t *testing.T) {
	s, got, room := landScript(t)
	size := 3 * room
	part := func(c byte) []byte { return bytes.Repeat([]byte{c}, int(room)) }
	s.chunk(s.next, 1, size, 0, part('a'))
	s.run(4)
	s.chunk(s.next.Add(1), 1, size, room, part('b'))
	s.run(4)
	if !s.m.rx.Direct.Plan.Armed {
		t.Fatal("the provider has been told no landing")
	}
	s.raw(0, encode(frag.Header{
		Kind: frag.KindChunk, Conn: s.conn, Seq: s.next.Add(2), Tag: 1, FragID: 1, SizeBytes: size,
		OffsetBytes: 2 * room, FirstBytes: uint16(room), ChunkBytes: uint16(room),
	}, part('c')))
	s.raw(1, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: s.next.Add(3), Tag: 1},
		part('f')))
	s.run(4)
	want := []string{string(part('a')) + string(part('b')) + string(part('c')), string(part('f'))}
	if !slices.Equal(*got, want) {
		t.Fatalf("%d messages came, or altered ones", len(*got))
	}
	if err := s.m.Check(); err != nil {
		t.Error(err)
	}
}

// A provider that has taken in more than a poll asks for keeps the rest, which lies in the landing
// too: it is asked for before anything is done with the memory.
func TestLandingSurplus(t *testing.T) {
	for _, c := range []struct{ chunks, landed, lost int }{
		{300, 300, 0}, {256, 256, 0}, {130, 130, 0},
	} {
		b := newNullBench(t, 1472, false, Config{RecvDepth: 1024})
		b.m.Handle(1, func(*Endpoint, Tag, []byte) {})
		room := segmentRoom(1472, frag.KindChunk)
		sent := 0
		chunk := func(p []byte) int {
			b.hdr = frag.Header{
				Kind: frag.KindChunk, Conn: tagOf(b.ep), Seq: nullPeerFirst.Add(uint32(sent)), Tag: 1,
				FragID: 5, SizeBytes: uint32(1000 * room), OffsetBytes: uint32(sent * room),
				PayloadLen: uint16(room), FirstBytes: uint16(room), ChunkBytes: uint16(room),
			}
			sent++
			return b.hdr.Encode(p) + room
		}
		limit := 1 // one arrives, and is expected to be followed
		b.data.arrive = func(out []fabric.Completion) int {
			k := 0
			for ; k < len(out) && sent < limit; k++ {
				b.data.fill(&out[k], chunk)
				if sent > 1 {
					b.data.land(&out[k], room)
				}
			}
			b.data.surplus = sent < limit && sent > 1
			return k
		}
		for range 5 {
			b.pass()
		}
		limit += c.chunks // all of these are in the provider at once
		for range 10 {
			b.pass()
		}
		s := b.m.counted()
		if n := int(s.Get(CntLanded)); n != c.landed {
			t.Errorf("%d of %d chunks landed, want %d", n, c.chunks, c.landed)
		}
		if n := int(s.Get(CntDropTruncated)); n != c.lost {
			t.Errorf("%d of %d chunks lost, want %d", n, c.chunks, c.lost)
		}
		if err := b.m.Check(); err != nil {
			t.Error(err)
		}
	}
}

// surplusDomain's endpoints receive in runs, as fabric/udp does with what the kernel has coalesced:
// what Poll's caller has no room for waits in the provider, landed already, and Land is refused
// until it is polled.
type surplusDomain struct{ fabric.Domain }

func (d *surplusDomain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	e, err := d.Domain.OpenEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &surplusEndpoint{Endpoint: e}, nil
}

type surplusEndpoint struct {
	fabric.Endpoint
	wait []fabric.Completion
}

func (e *surplusEndpoint) Land(mem []byte, headBytes int) bool {
	for i := range e.wait {
		if e.wait[i].Landed > 0 {
			return false
		}
	}
	return e.Endpoint.(fabric.Lander).Land(mem, headBytes)
}

func (e *surplusEndpoint) Poll(out []fabric.Completion) (int, error) {
	n := copy(out, e.wait)
	e.wait = e.wait[n:]
	if len(e.wait) > 0 || n == len(out) {
		return n, nil
	}
	run := make([]fabric.Completion, 45)
	got, err := e.Endpoint.Poll(run)
	if err != nil {
		return n, err
	}
	k := copy(out[n:], run[:got])
	e.wait = append([]fabric.Completion(nil), run[k:got]...)
	return n + k, nil
}

// A landing that the provider has not let go of yet must not be written to when its memory holds
// what came otherwise.
func TestLandingSurplusRuns(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.PollBatch = 4
	l := &lab{bench: newBench(t, mem.Config{}, 0, cfg), names: map[string][]byte{}, rng: newRand(1)}
	l.wrap = func(d fabric.Domain) fabric.Domain { return &surplusDomain{d} }
	l.mods = append(l.mods, l.open(cfg))
	l.wrap = nil
	l.events = append(l.events, nil)
	s := l.newScript(0)
	var got [][]byte
	s.m.Handle(1, func(_ *Endpoint, _ Tag, data []byte) { got = append(got, bytes.Clone(data)) })
	ep := s.connect()
	s.run(20)
	room := segmentRoom(ep.MTUBytes(), frag.KindChunk)
	const chunks = 16
	want := make([]byte, chunks*room)
	for i := range want {
		want[i] = byte(i/room) + 'a'
	}
	first := s.next
	send := func(is ...int) {
		for _, i := range is {
			s.chunk(first.Add(uint32(i)), 1, uint32(len(want)), uint32(i*room), want[i*room:][:room])
		}
	}
	send(0)
	s.run(4)
	send(11, 1, 2, 3, 4, 5, 6, 7, 8, 9) // one run: more than the module polls for
	s.l.step(10 * time.Microsecond)     // takes eight of them
	send(12, 13, 14)
	s.run(20)
	for range 3 { // what was lost comes again
		for i := range chunks {
			send(i)
			s.run(2)
		}
	}
	if len(got) != 1 || !bytes.Equal(got[0], want) {
		t.Errorf("%d messages", len(got))
		for i := range chunks {
			if len(got) == 1 && !bytes.Equal(got[0][i*room:][:room], want[i*room:][:room]) {
				t.Errorf("chunk %d holds %q", i, got[0][i*room:][:1])
			}
		}
	}
	if n := counter(s.m, CntDropTruncated); n != 0 {
		t.Errorf("%d whole packets were lost", n)
	}
}
