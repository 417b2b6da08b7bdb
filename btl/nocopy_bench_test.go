package btl

import (
	"testing"
	"time"

	"gobtl/fabric"
	_ "gobtl/fabric/udp"
)

// noCopyPair is two modules that talk over real sockets, both in one goroutine.
type noCopyPair struct {
	tb   testing.TB
	x, y *Module
	ep   *Endpoint
	from time.Time
	got  int
	own  []byte // of the receiver
	kept [8]Kept
}

// openUDP opens a module on the loopback device.
func openUDP(tb testing.TB, cfg Config) *Module {
	tb.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		tb.Skipf("no loopback for udp: %v", err)
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		tb.Fatal(err)
	}
	dom, err := fabric.Open(infos[0], dc)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := Open(dom, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	})
	return m
}

func newNoCopyPair(tb testing.TB, size int, cfg Config) *noCopyPair {
	tb.Helper()
	p := &noCopyPair{tb: tb, from: time.Now(), own: make([]byte, size)}
	p.x, p.y = openUDP(tb, cfg), openUDP(tb, cfg)
	var err error
	if p.ep, err = p.x.Connect(p.now(), p.y.Name()); err != nil {
		tb.Fatal(err)
	}
	for !p.ep.Connected() || p.ep.c.Path.FirstProbePending() {
		p.pass()
	}
	return p
}

func (p *noCopyPair) now() Time { return Time(time.Since(p.from)) + 1 }

func (p *noCopyPair) pass() {
	for _, m := range [...]*Module{p.x, p.y} {
		if _, err := m.Progress(p.now()); err != nil {
			p.tb.Fatal(err)
		}
	}
}

// send sends a fragment, and waits until it is there and acknowledged.
func (p *noCopyPair) send(f *Fragment, err error) {
	if err != nil {
		p.tb.Fatal(err)
	}
	if _, err := p.ep.Send(p.now(), f); err != nil {
		p.tb.Fatal(err)
	}
	for want := p.got + 1; p.got != want || flying(p.ep) > 0; {
		p.pass()
	}
}

// noCopyWays are the ways of a message without a copy by this package, each beside the way with
// one: what the receiver, or the sender, does, and the bytes that are copied by the way, of so many
// that were sent.
var noCopyWays = []struct {
	name   string
	cfg    Config
	begin  func(p *noCopyPair)
	send   func(p *noCopyPair, msg []byte)
	copied func(p *noCopyPair, sent uint64) uint64
}{
	{"keep", Config{}, func(p *noCopyPair) { p.receive(p.keep) }, sendWhole, keptCopies},
	{
		"keep a copy",
		Config{KeptPackets: -1},
		func(p *noCopyPair) { p.receive(p.keep) }, sendWhole, keptCopies,
	},
	{
		"gather",
		Config{},
		func(p *noCopyPair) { p.receive(func([]byte) {}) },
		func(p *noCopyPair, msg []byte) {
			a, b := len(msg)/4, len(msg)/2
			p.send(p.ep.PreparePieces(3, msg[:a], msg[a:b], msg[b:]))
		}, func(p *noCopyPair, sent uint64) uint64 { return sent - counter(p.x, CntSentGatheredBytes) },
	},
	{
		"gather a copy",
		Config{},
		func(p *noCopyPair) { p.receive(func([]byte) {}) },
		func(p *noCopyPair, msg []byte) {
			a, b := len(msg)/4, len(msg)/2
			n := copy(p.own, msg[:a])
			n += copy(p.own[n:], msg[a:b])
			copy(p.own[n:], msg[b:])
			p.send(p.ep.Prepare(3, p.own))
		}, func(_ *noCopyPair, sent uint64) uint64 { return sent },
	},
}

func sendWhole(p *noCopyPair, msg []byte) { p.send(p.ep.Prepare(3, msg)) }

func keptCopies(p *noCopyPair, _ uint64) uint64 {
	return counter(p.y, CntKeptCopies) * uint64(len(p.own))
}

func (p *noCopyPair) receive(fn func(data []byte)) {
	err := p.y.Handle(3, func(_ *Endpoint, _ Tag, data []byte) {
		p.got++
		fn(data)
	})
	if err != nil {
		p.tb.Fatal(err)
	}
}

// keep keeps the latest eight messages.
func (p *noCopyPair) keep(data []byte) {
	k := &p.kept[p.got%len(p.kept)]
	k.Release()
	if err := p.y.Keep(k, data); err != nil {
		p.tb.Error(err)
	}
}

// BenchmarkNoCopy is each way over udp, in turns with that with a copy if -count is given.
func BenchmarkNoCopy(b *testing.B) {
	const size = 1 << 20
	for _, w := range noCopyWays {
		b.Run(w.name, func(b *testing.B) {
			p := newNoCopyPair(b, size, w.cfg)
			w.begin(p)
			msg := make([]byte, size)
			rounds := uint64(0)
			for range 10 {
				w.send(p, msg)
				rounds++
			}
			b.SetBytes(size)
			for b.Loop() {
				w.send(p, msg)
				rounds++
			}
			b.ReportMetric(float64(w.copied(p, rounds*size))/float64(rounds), "copied-B/op")
		})
	}
}

// Over udp next to nothing is copied of a large message that is kept, gathered, or announced.
func TestNoCopy(t *testing.T) {
	const size, rounds = 1 << 20, 20
	for _, w := range noCopyWays {
		p := newNoCopyPair(t, size, w.cfg)
		w.begin(p)
		msg := make([]byte, size)
		for range rounds {
			w.send(p, msg)
		}
		copied := w.copied(p, size*rounds)
		if all := uint64(size * rounds); w.name == "keep" && copied > 0 ||
			w.name == "place" && copied > all/4 || w.name == "gather" && copied > all/4 {
			t.Errorf("%s: %d of %d bytes copied", w.name, copied, all)
		}
		t.Logf("%s: %d of %d bytes copied", w.name, copied, size*rounds)
	}
}
