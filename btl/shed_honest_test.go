package btl

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// shedLab has a module with little memory for fragments, and a way to send it messages.
type shedLab struct {
	*lab
	t   *testing.T
	got map[int]int // messages, by their size
}

const shedTimeout = 200 * time.Millisecond

func newShedLab(t *testing.T, cfg Config) *shedLab {
	cfg.PeerTimeout = shedTimeout
	s := &shedLab{lab: newLab(t, mem.Config{}, 1, cfg), t: t, got: map[int]int{}}
	mustHandleTag(t, s.mods[0], 1, func(_ *Endpoint, _ Tag, b []byte) { s.got[len(b)]++ })
	return s
}

// peer adds a patient peer, and returns its end of its connection.
func (s *shedLab) peer(cfg Config) *Endpoint {
	cfg.PeerTimeout = time.Hour
	return s.connect(s.add(cfg, ""), 0)
}

func (s *shedLab) send(ep *Endpoint, size int, done func(error)) {
	f, err := ep.Prepare(1, make([]byte, size))
	if err != nil {
		s.t.Fatal(err)
	}
	f.Signal, f.OnDone = true, func(_ *Fragment, err error) { done(err) }
	if _, err := ep.Send(s.now, f); err != nil {
		s.t.Fatal(err)
	}
}

// dataOf says whether a packet is a chunk of a peer's, and its header.
func dataOf(ep *Endpoint, from, pkt []byte) (h frag.Header, ok bool) {
	_, err := frag.Decode(pkt, &h)
	return h, err == nil && h.Kind == frag.KindChunk &&
		string(from) == string(ep.c.All.Port.Data.Name)
}

// A peer whose messages come whole one after the other, each of a few packets of which one is lost
// at first, goes on: it is not ended because another one waits for memory.
func TestShedKeepsWhoFinishes(t *testing.T) {
	const whole, large, small = 8 << 20, 3 << 20, 30000
	cfg := Config{FragmentBytesMax: whole, ReassemblyBytesMax: 2 * whole}
	s := newShedLab(t, cfg)
	big, good, busy := s.peer(cfg), s.peer(cfg), s.peer(cfg)
	lost := map[uint32]bool{}
	s.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
		h, ok := dataOf(busy, from, pkt)
		if !ok || h.OffsetBytes == 0 || lost[h.FragID] {
			return mem.Deliver
		}
		lost[h.FragID] = true
		return mem.Drop
	})
	var ended error
	next := func(error) {}
	next = func(err error) {
		if ended = err; err == nil {
			s.send(busy, small, next)
		}
	}
	s.send(big, whole, func(error) {})
	next(nil)
	arrived := func() (n int64) {
		for _, ep := range s.mods[0].endpoints() {
			if ep != nil {
				n = max(n, ep.c.Asm.ArrivedBytes())
			}
		}
		return n
	}
	begin, asked := Time(0), false
	for s.now < begin || begin == 0 || s.now.Sub(begin) < 4*shedTimeout {
		s.now = s.now.Add(100 * time.Microsecond)
		if begin == 0 && arrived() > whole*5/8 {
			begin = s.now
			s.send(good, large, func(error) {})
			asked = true
		}
		for _, m := range s.mods {
			if m == big.mod() && begin != 0 &&
				arrived() > whole*5/8+int64(s.now.Sub(begin))*(whole/16)/int64(shedTimeout) {
				continue // it has a slow path
			}
			if _, err := m.Progress(s.now); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("asked %v, refused %d times, %d small ones came, arrived %d", asked,
		counter(s.mods[0], CntDropReassembly), s.got[small], arrived())
	for _, h := range s.events[0] {
		if errors.Is(h.err, ErrStalled) {
			t.Errorf("ended: %v, busy %v", h.err, ended)
		}
	}
}

// A peer that is refused for what it has itself, while there is memory for all, ends nobody.
func TestShedOwnPlaces(t *testing.T) {
	const whole = 4 << 20
	cfg := Config{FragmentBytesMax: whole, ReassemblyBytesMax: 16 * whole}
	s := newShedLab(t, cfg)
	thin, bad := s.peer(cfg), s.peer(cfg)
	count, next := 0, Time(0)
	s.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
		if _, ok := dataOf(bad, from, pkt); ok {
			const id = frag.FragHeaderBytes
			if count > 0 { // another fragment in the same place
				binary.LittleEndian.PutUint32(pkt[id:], binary.LittleEndian.Uint32(pkt[id:])^1<<20)
			}
			count++
			return mem.Deliver
		}
		if _, ok := dataOf(thin, from, pkt); ok {
			if s.now < next {
				return mem.Drop
			}
			next = s.now.Add(shedTimeout / 8)
		}
		return mem.Deliver
	})
	s.send(thin, whole, func(error) {})
	s.send(bad, whole, func(error) {})
	end := s.now.Add(6 * shedTimeout)
	s.until("enough", 200*time.Microsecond, 10*shedTimeout, func() bool { return s.now > end })
	t.Logf("%d refused, memory %d", counter(s.mods[0], CntDropReassembly),
		thinHeld(s.mods[0]))
	for _, h := range s.events[0] {
		if errors.Is(h.err, ErrStalled) {
			t.Errorf("ended: %v", h.err)
		}
	}
}

func thinHeld(m *Module) (n int64) {
	for _, ep := range m.endpoints() {
		if ep != nil {
			n += ep.c.Asm.ActiveBytes()
		}
	}
	return n
}

// A peer that has all the memory, does not go on with it, and asks for more all the time, is ended
// like one that asks for nothing.
func TestShedWhoAsksForMore(t *testing.T) {
	const whole, large = 8 << 20, 3 << 20
	cfg := Config{FragmentBytesMax: whole, ReassemblyBytesMax: whole}
	s := newShedLab(t, cfg)
	bad, good := s.peer(cfg), s.peer(cfg)
	chunks := 0
	s.net.SetFilter(func(from, _, pkt []byte) mem.Verdict {
		if _, ok := dataOf(bad, from, pkt); ok {
			const id = frag.FragHeaderBytes
			if chunks++; chunks > 300 {
				binary.LittleEndian.PutUint32(pkt[id:], binary.LittleEndian.Uint32(pkt[id:])+1)
			}
		}
		return mem.Deliver
	})
	s.send(bad, whole, func(error) {})
	s.until("stopped", 100*time.Microsecond, time.Second, func() bool { return chunks > 310 })
	var ended error
	s.send(good, large, func(err error) {
		if ended = err; err == nil {
			ended = errDone
		}
	})
	s.until("the other's message", 200*time.Microsecond, 8*shedTimeout, func() bool {
		return ended != nil
	})
	if !errors.Is(ended, errDone) {
		t.Error(ended)
	}
}

// A refusal that the refused peer itself has caused ends nobody: no other peer that is slow but
// goes on is ended. The memory is not scarce for a fragment whose slot another fragment of the same
// peer has, for a chunk far ahead, or for a fragment that begins behind a gap.
func TestShedSparesSlowPeer(t *testing.T) {
	type refused func(s *script, room uint32)
	scarce := smallConfig() // one fragment at a time, and none behind a gap
	scarce.FragmentBytesMax, scarce.ReassemblyBytesMax = 16<<20, 16<<20
	for name, c := range map[string]struct {
		cfg  Config
		send refused
	}{
		"slot": {smallConfig(), func(s *script, room uint32) {
			s.chunk(s.next, 5+1<<32-2048, 4*room, 0, make([]byte, room))
		}},
		"ahead": {smallConfig(), func(s *script, room uint32) {
			s.chunk(s.next, 6, room*100_000, room*50_000, make([]byte, room))
		}},
		"gap": {scarce, func(s *script, room uint32) {
			s.chunk(s.next.Add(1), 6, 4*room, room, make([]byte, room))
		}},
	} {
		t.Run(name, func(t *testing.T) { shedSpares(t, c.cfg, c.send) })
	}
}

func shedSpares(t *testing.T, cfg Config, refused func(s *script, room uint32)) {
	l, bad := newStranger(t, cfg)
	m := l.mods[0]
	mustHandleTag(t, m, 1, func(*Endpoint, Tag, []byte) {})
	slow := l.newScript(0)
	ep, other := slow.connect(), bad.connect()
	l.step(time.Millisecond)
	room := slow.room()
	size, at := room*7000, uint32(0) // about 10 MB
	next := func() {
		slow.chunk(slow.next, 7, size, at, make([]byte, room))
		slow.next++
		at += room
	}
	for at <= 1<<20 { // the buffer is of 4 MiB from here on
		next()
		l.step(20 * time.Microsecond)
	}
	bad.chunk(bad.next, 5, 4*room, 0, make([]byte, room))
	bad.next++
	before := counter(m, CntDropReassembly)
	for i := range 120 { // 12 s, of about 57 kbit/s
		if i%2 == 0 {
			next()
		}
		if i%5 == 0 {
			refused(bad, room)
		}
		l.step(100 * time.Millisecond)
	}
	if ep.Err() != nil {
		t.Errorf("%d of %d bytes of memory in use: %v", m.all.Pool.ActiveBytes(),
			m.cfg.ReassemblyBytesMax, ep.Err())
	}
	if counter(m, CntDropReassembly) < before+20 || other.Err() != nil {
		t.Errorf("%d refusals, %v: the test shows nothing", counter(m, CntDropReassembly)-before,
			other.Err())
	}
	ep.Abort()
	other.Abort()
}
