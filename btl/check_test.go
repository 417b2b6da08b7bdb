package btl

import (
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/flush"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/pack"
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/remote"
	"gobtl/btl/internal/sched"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/reliability"
)

// checkBench is a module with four peers, of which each has a dozen packets in flight.
func checkBench(tb testing.TB) *Module {
	b := newBench(tb, mem.Config{}, 5, regressConfig())
	m := b.mods[0]
	for i := range 4 {
		ep := b.connect(0, i+1)
		for range 3 {
			send(tb, ep, 4000)
		}
	}
	if _, err := m.Progress(b.now.Add(time.Microsecond)); err != nil {
		tb.Fatal(err)
	}
	return m
}

func BenchmarkCheck(b *testing.B) {
	m := checkBench(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Check(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(m.recovery.InFlight()), "packets")
}

func TestCheckAllocatesNothing(t *testing.T) {
	m := checkBench(t)
	if n := testing.AllocsPerRun(100, func() {
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Check allocates %v times", n)
	}
}

// busyModule is a module in the midst of everything that Check looks at.
type busyModule struct {
	*Module

	tb     testing.TB
	out    *Endpoint // has packets in flight and a queue
	in     *Endpoint // has a fragment on its way here, may send, and has an open pack
	owes   *Endpoint // an ACK
	lent   *Fragment // with a buffer
	queued *Fragment // behind a larger one, with a buffer
	sent   reliability.Token
}

func newBusyModule(t *testing.T) *busyModule {
	t.Helper()
	cfg := regressConfig()
	cfg.Rules.WindowPackets, cfg.KeepAlive = 8, time.Second
	cfg.Rules.AckDelay = 10 * time.Millisecond
	l := newLab(t, mem.Config{FreeRegions: true}, 5, cfg)
	for _, m := range l.mods {
		mustHandle(t, m, func() {})
	}
	m := l.mods[0]
	if _, err := m.Expose(make([]byte, 8), RemoteWrite); err != nil {
		t.Fatal(err)
	}
	b := &busyModule{Module: m, tb: t}
	b.out = l.connect(0, 1)
	gone := l.connect(0, 3)
	b.in, b.owes = l.connect(0, 2), l.connect(0, 4)
	for range 30 {
		l.step(time.Millisecond)
	}
	dropped := uint32(0)
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind == frag.KindChunk && h.OffsetBytes > 0 &&
			(dropped == 0 || dropped == h.OffsetBytes) { // also when it is sent again
			dropped = h.OffsetBytes
			return mem.Drop
		}
		return mem.Deliver
	})
	send(t, l.accepted(2), 4000)
	send(t, l.accepted(4), 10)
	for range 4 {
		l.step(10 * time.Microsecond)
	}
	l.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	send(t, b.out, 40000)
	l.step(time.Microsecond) // it fills the window
	b.queued = b.alloc(b.out)
	if _, err := b.out.Send(l.now, b.queued); err != nil {
		t.Fatal(err)
	}
	b.lent = b.alloc(b.out)
	oldest, _ := b.out.snd.Window()
	b.sent, _ = b.out.snd.Token(oldest)
	send(t, gone, 4000)
	gone.Abort()
	if err := b.in.SendImmediate(l.now, 3, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // stay in the open pack
		sendTold(t, b.in, 3, "packed")
	}
	send(t, b.in, 4000)
	return b
}

func (b *busyModule) alloc(ep *Endpoint) *Fragment {
	b.tb.Helper()
	f, err := ep.Alloc(3, 1000)
	if err != nil {
		b.tb.Fatal(err)
	}
	return f
}

// tampering changes one thing in a module's state; Check must say the words.
var tamperings = []struct {
	name, want string
	tamper     func(b *busyModule)
}{
	{"nothing", "", func(*busyModule) {}},

	{"time", "unpaused", func(b *busyModule) { b.clock.Unpaused = b.clock.Now + 1 }},
	{"heard in the future", "heard", func(b *busyModule) { b.in.life.Heard(b.clock.Unpaused+1, 0) }},
	{"slot", "slot", func(b *busyModule) { b.in.id.Slot = b.out.id.Slot }},
	{"tag", "not its own", func(b *busyModule) { b.in.id.Tag++ }},
	{"state", "share of the credits", func(b *busyModule) { b.in.joined = false }},
	{"error", "has ended", func(b *busyModule) { b.in.err = ErrPeerDead }},
	{"half open", "half open", func(b *busyModule) { b.peers.AddHalfOpen("nowhere") }},
	{"timer forgotten", "no timer", func(b *busyModule) {
		b.in.life = liveness.Watch{Peer: b.in.life.Peer}
	}},
	{"timer of another", "not its own", func(b *busyModule) { b.in.life = b.out.life }},
	{"timer leaked", "have a timer", func(b *busyModule) {
		b.watches.Set(new(Endpoint), time.Second)
	}},
	{"connection tag", "connection tags", func(b *busyModule) {
		was := b.out.id.Peer
		b.peers.SetPeer(b.out, meet.PeerTag{Incarnation: 1, Tag: 2})
		b.out.id.Peer = was
	}},
	{"address", "addresses, ", func(b *busyModule) {
		was := b.out.id.Addr
		b.out.id.Addr = "x"
		b.peers.LeadTo(b.out)
		b.out.id.Addr = was
	}},

	{"credits leaked", "credits granted", func(b *busyModule) {
		other := reliability.Receiver{}
		other.Init(0, 8)
		other.Grant(b.credits)
	}},
	{"sharers", "share the credits", func(b *busyModule) { b.credits.Join() }},

	{"window", "window", func(b *busyModule) { b.rules.WindowPackets = 2 }},
	{"window number", "number", func(b *busyModule) {
		b.port.Arena.Bytes(segBuf(b.sent))[16]++
	}},
	{"segment of another", "not this endpoint's", func(b *busyModule) { b.segs[b.sent].ep = b.in }},
	{"window aborted", "is lost", func(b *busyModule) { b.out.snd.Abort(nil) }},
	{"segment freed in the window", "free send buffer", func(b *busyModule) {
		b.freeSegs = append(b.freeSegs, b.sent)
	}},
	{"segment released", "to be released", func(b *busyModule) {
		b.port.ReleaseWhenDone(segBuf(b.sent))
	}},
	{"segment without fragment", "count", func(b *busyModule) { b.segs[b.sent].frag = nil }},
	{"fragment counts too many", "count", func(b *busyModule) { b.segs[b.sent].frag.out++ }},
	{"fragment counts too few", "one too many", func(b *busyModule) { b.segs[b.sent].frag.out-- }},
	{"free twice", "free twice", func(b *busyModule) {
		b.freeSegs = append(b.freeSegs, b.freeSegs[0])
	}},
	{"free on the wire", "free send buffer", func(b *busyModule) {
		b.port.Data.Next(segBuf(b.freeSegs[0]))
	}},
	{"free of an endpoint", "free send buffer", func(b *busyModule) {
		b.segs[b.freeSegs[0]].ep = b.in
	}},
	{"buffer leaked", "send buffers lent", func(b *busyModule) {
		b.freeSegs = b.freeSegs[:len(b.freeSegs)-1]
	}},
	{"buffer lost on the wire", "is lost", func(b *busyModule) {
		b.port.Data.Next(segBuf(b.freeSegs[len(b.freeSegs)-1]))
		b.freeSegs = b.freeSegs[:len(b.freeSegs)-1]
	}},
	{"timed in no window", "in no window", func(b *busyModule) {
		t := b.freeSegs[len(b.freeSegs)-1]
		b.freeSegs = b.freeSegs[:len(b.freeSegs)-1]
		b.out.snd.Post(b.clock.Now, t, 1, reliability.Data, time.Second)
	}},
	{"buffers of an endpoint", "counts", func(b *busyModule) { b.out.buffers = 1 }},
	{"buffers lent by an endpoint", "lent", func(b *busyModule) { b.out.buffers++ }},

	{"queued in a wrong state", "queued", func(b *busyModule) { b.queued.state = fragLent }},
	{"queued buffer", "queued", func(b *busyModule) { b.recovery.Unqueue(b.queued.seg) }},
	{"queue length", "queue of", func(b *busyModule) { b.out.small.queue.count++ }},
	{"queue end", "another end", func(b *busyModule) {
		b.out.small.queue.last = b.out.large.queue.last
	}},
	{"descriptor leaked", "descriptors", func(b *busyModule) { b.frags.lent++ }},
	{"descriptor freed twice", "descriptors", func(b *busyModule) {
		b.frags.free = append(b.frags.free, &Fragment{})
	}},
	{"descriptor free and lent", "free descriptor", func(b *busyModule) {
		b.frags.free = append(b.frags.free[:0], b.lent)
	}},
	{"descriptors", "at most", func(b *busyModule) { b.cfg.FragmentsMax = 1 }},
	{"ended in a wrong state", "has ended", func(b *busyModule) {
		b.outbox.ended.first.state = fragSent
	}},
	{"ended not counted", "ended", func(b *busyModule) { b.outbox.ended.count++ }},
	{"event", "notice 0", func(b *busyModule) { b.outbox.notices.All()[0].ep = nil }},
	{"flush forgotten", "flush 0 is due", func(b *busyModule) {
		oldest, _ := b.in.snd.Window()
		b.in.flushQueue().Add(func(error) {}, flush.Tails[*Fragment]{}, oldest, false)
	}},
	{"flush of a fragment gone", "not queued", func(b *busyModule) {
		b.out.flushQueue().Add(nil, flush.Tails[*Fragment]{b.lent}, b.out.sentUntil(), false)
	}},

	{"not ready", "ready: false", func(b *busyModule) {
		b.sched.Remove(&b.in.small.Flow)
	}},
	{"ready for nothing", "ready: true", func(b *busyModule) { b.sched.Add(&b.out.large.Flow) }},
	{"ready and not listed", "flows are listed", func(b *busyModule) {
		b.sched.RoundRobin = sched.RoundRobin[*Endpoint]{}
	}},
	{"ACK not owed", "owes an ACK", func(b *busyModule) {
		b.acks.Settle(&b.owes.rcv)
	}},
	{"ACK not listed", "list of ACKs", func(b *busyModule) { b.acks = owed.Ledger[*Endpoint]{} }},

	{"control buffer leaked", "control buffers", func(b *busyModule) {
		b.port.TakeControl(&b.port.Command, 0)
	}},
	{"completion lost", "on the wire", func(b *busyModule) {
		b.port.Data.SendDone(segBuf(b.freeSegs[0]))
	}},
	{"receive buffer lost", "receive buffers", func(b *busyModule) { b.port.Command.Received(1) }},
	{"bytes kept", "bytes kept", func(b *busyModule) { b.keeping.Deliver(new(frag.Message)) }},

	{"reassembly", "reassembly", func(b *busyModule) { b.in.asm = frag.Assembler{} }},
	{"fragments of a peer gone", "arrive in state", func(b *busyModule) {
		asm := b.in.asm
		b.in.asm = frag.Assembler{}
		b.peerClosed(b.in)
		b.in.asm = asm
	}},
	{"region exposed twice", "region", func(b *busyModule) {
		r := new(remote.Region[*Fragment])
		b.remote.Expose(r, nil, RemoteAll, nil, 1)
		b.remote.Expose(r, nil, RemoteAll, nil, 2)
	}},

	{"region of a fragment leaked", "regions of fragments", func(b *busyModule) {
		b.frags.payloads.Gather(&payload.Payload{Bytes: make([]byte, 1)}, true)
	}},
	{"region of a fragment forgotten", "regions of fragments", func(b *busyModule) {
		b.out.large.queue.first.data = payload.Payload{}
	}},
	{"pack in a closed window", "a pack is open in state", func(b *busyModule) {
		b.in.snd.Init(b.in.id.Slot, 0, 8)
		b.sched.rearm(b.in)
	}},
	{"pack forgotten", "no pack is open", func(b *busyModule) { b.in.pack.Pack = pack.Pack{} }},
	{"pack lost", "queued in no window", func(b *busyModule) {
		b.in.pack = openPack{}
		b.sched.rearm(b.in)
	}},
	{"pack not counted", "packs are open", func(b *busyModule) { b.sched.packs-- }},
	{"pack free", "free send buffer", func(b *busyModule) {
		b.freeSegs = append(b.freeSegs, b.in.pack.seg)
	}},
	{"pack too large", "the open pack has", func(b *busyModule) { b.in.pack.Begin(1, 2000) }},
	{"chain of a pack", "another end", func(b *busyModule) { b.in.pack.last = nil }},
	{"chain cut", "descriptors", func(b *busyModule) {
		b.segs[b.in.pack.seg].frag.next, b.in.pack.last = nil, b.segs[b.in.pack.seg].frag
	}},

	{"packet not counted", "no counter explains", func(b *busyModule) {
		b.stats.counters[CntReceived]++
	}},
	{"send not counted", "sends accepted", func(b *busyModule) { b.stats.counters[CntSendsFast]++ }},
	{"resend not explained", "duplicate ACKs", func(b *busyModule) {
		b.stats.counters[CntRetransmitDupAck]++
	}},
	{"refusal not explained", "Nacks", func(b *busyModule) { b.stats.counters[CntRetransmitNack]++ }},
	{"fast not received", "fast", func(b *busyModule) {
		b.stats.counters[CntFastReceives] += 1 << 20
	}},
}

func TestCheckSeesTampering(t *testing.T) {
	for _, c := range tamperings {
		t.Run(c.name, func(t *testing.T) {
			b := newBusyModule(t)
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
			c.tamper(b)
			err := b.Check()
			b.closed = true // nothing else may be done with it
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check says %v, and not %q", err, c.want)
			}
		})
	}
}
