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
	"gobtl/btl/internal/peer"
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
	b.ReportMetric(float64(m.all.Recovery.InFlight()), "packets")
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
	oldest, _ := b.out.c.Snd.Window()
	b.sent, _ = b.out.c.Snd.Token(oldest)
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

	{"time", "unpaused", func(b *busyModule) { b.all.Clock.Unpaused = b.all.Clock.Now + 1 }},
	{"heard in the future", "heard", func(b *busyModule) {
		b.in.c.Life.Heard(b.all.Clock.Unpaused+1, 0)
	}},
	{"slot", "slot", func(b *busyModule) { b.in.c.ID.Slot = b.out.c.ID.Slot }},
	{"tag", "not its own", func(b *busyModule) { b.in.c.ID.Tag++ }},
	{"state", "share of the credits", func(b *busyModule) { b.in.c.Joined = false }},
	{"error", "has ended", func(b *busyModule) { b.in.c.SetErr(ErrPeerDead) }},
	{"half open", "half open", func(b *busyModule) { b.all.Peers.AddHalfOpen("nowhere") }},
	{"timer forgotten", "no timer", func(b *busyModule) {
		b.in.c.Life = liveness.Watch{Peer: b.in.c.Life.Peer}
	}},
	{"timer of another", "not its own", func(b *busyModule) { b.in.c.Life = b.out.c.Life }},
	{"timer leaked", "have a timer", func(b *busyModule) {
		b.all.Timers.Watches.Set(&new(Endpoint).c, time.Second)
	}},
	{"connection tag", "connection tags", func(b *busyModule) {
		was := b.out.c.ID.Peer
		b.all.Peers.SetPeer(&b.out.c, meet.PeerTag{Incarnation: 1, Tag: 2})
		b.out.c.ID.Peer = was
	}},
	{"address", "addresses, ", func(b *busyModule) {
		was := b.out.c.ID.Addr
		b.out.c.ID.Addr = "x"
		b.all.Peers.LeadTo(&b.out.c)
		b.out.c.ID.Addr = was
	}},

	{"credits leaked", "credits granted", func(b *busyModule) {
		other := reliability.Receiver{}
		other.Init(0, 8)
		other.Grant(b.all.Credits)
	}},
	{"sharers", "share the credits", func(b *busyModule) { b.all.Credits.Join() }},

	{"window", "window", func(b *busyModule) { b.all.Rules.WindowPackets = 2 }},
	{"window number", "number", func(b *busyModule) {
		b.all.Port.Arena.Bytes(peer.SegBuf(b.sent))[16]++
	}},
	{"segment of another", "not this endpoint's", func(b *busyModule) {
		b.all.Buffers.Segs[b.sent].Ep = &b.in.c
	}},
	{"window aborted", "is lost", func(b *busyModule) { b.out.c.Snd.Abort(nil) }},
	{"segment freed in the window", "free send buffer", func(b *busyModule) {
		b.all.Buffers.FreeSegs = append(b.all.Buffers.FreeSegs, b.sent)
	}},
	{"segment released", "to be released", func(b *busyModule) {
		b.all.Port.ReleaseWhenDone(peer.SegBuf(b.sent))
	}},
	{"segment without fragment", "count", func(b *busyModule) {
		b.all.Buffers.Segs[b.sent].Frag = nil
	}},
	{"fragment counts too many", "count", func(b *busyModule) {
		b.all.Buffers.Segs[b.sent].Frag.Out++
	}},
	{"fragment counts too few", "one too many", func(b *busyModule) {
		b.all.Buffers.Segs[b.sent].Frag.Out--
	}},
	{"free twice", "free twice", func(b *busyModule) {
		b.all.Buffers.FreeSegs = append(b.all.Buffers.FreeSegs, b.all.Buffers.FreeSegs[0])
	}},
	{"free on the wire", "free send buffer", func(b *busyModule) {
		b.all.Port.Data.Next(peer.SegBuf(b.all.Buffers.FreeSegs[0]))
	}},
	{"free of an endpoint", "free send buffer", func(b *busyModule) {
		b.all.Buffers.Segs[b.all.Buffers.FreeSegs[0]].Ep = &b.in.c
	}},
	{"buffer leaked", "send buffers lent", func(b *busyModule) {
		b.all.Buffers.FreeSegs = b.all.Buffers.FreeSegs[:len(b.all.Buffers.FreeSegs)-1]
	}},
	{"buffer lost on the wire", "is lost", func(b *busyModule) {
		b.all.Port.Data.Next(peer.SegBuf(b.all.Buffers.FreeSegs[len(b.all.Buffers.FreeSegs)-1]))
		b.all.Buffers.FreeSegs = b.all.Buffers.FreeSegs[:len(b.all.Buffers.FreeSegs)-1]
	}},
	{"timed in no window", "in no window", func(b *busyModule) {
		t := b.all.Buffers.FreeSegs[len(b.all.Buffers.FreeSegs)-1]
		b.all.Buffers.FreeSegs = b.all.Buffers.FreeSegs[:len(b.all.Buffers.FreeSegs)-1]
		b.out.c.Snd.Post(b.all.Clock.Now, t, 1, reliability.Data, time.Second)
	}},
	{"buffers of an endpoint", "counts", func(b *busyModule) { b.out.c.Buffers = 1 }},
	{"buffers lent by an endpoint", "lent", func(b *busyModule) { b.out.c.Buffers++ }},

	{"queued in a wrong state", "queued", func(b *busyModule) { b.queued.c.State = peer.FragLent }},
	{"queued buffer", "queued", func(b *busyModule) { b.all.Recovery.Unqueue(b.queued.c.Seg) }},
	{"queue length", "queue of", func(b *busyModule) { b.out.c.Small.Queue.Count++ }},
	{"queue end", "another end", func(b *busyModule) {
		b.out.c.Small.Queue.Last = b.out.c.Large.Queue.Last
	}},
	{"descriptor leaked", "descriptors", func(b *busyModule) { b.all.Frags.Lent++ }},
	{"descriptor freed twice", "descriptors", func(b *busyModule) {
		b.all.Frags.Idle = append(b.all.Frags.Idle, new(peer.Fragment))
	}},
	{"descriptor free and lent", "free descriptor", func(b *busyModule) {
		b.all.Frags.Idle = append(b.all.Frags.Idle[:0], &b.lent.c)
	}},
	{"descriptors", "at most", func(b *busyModule) { b.all.Config.FragmentsMax = 1 }},
	{"ended in a wrong state", "has ended", func(b *busyModule) {
		b.all.Outbox.Ended.First.State = peer.FragSent
	}},
	{"ended not counted", "ended", func(b *busyModule) { b.all.Outbox.Ended.Count++ }},
	{"event", "notice 0", func(b *busyModule) { b.all.Outbox.Notices.All()[0].Ep = nil }},
	{"flush forgotten", "flush 0 is due", func(b *busyModule) {
		oldest, _ := b.in.c.Snd.Window()
		b.in.c.FlushQueue().Add(func(error) {}, flush.Tails[*peer.Fragment]{}, oldest, false)
	}},
	{"flush of a fragment gone", "not queued", func(b *busyModule) {
		b.out.c.FlushQueue().Add(nil, flush.Tails[*peer.Fragment]{&b.lent.c}, b.out.c.SentUntil(), false)
	}},

	{"not ready", "ready: false", func(b *busyModule) {
		b.all.Sched.Remove(&b.in.c.Small.Flow)
	}},
	{"ready for nothing", "ready: true", func(b *busyModule) { b.all.Sched.Add(&b.out.c.Large.Flow) }},
	{"ready and not listed", "flows are listed", func(b *busyModule) {
		b.all.Sched.RoundRobin = sched.RoundRobin[*peer.Endpoint]{}
	}},
	{"ACK not owed", "owes an ACK", func(b *busyModule) {
		b.all.Acks.Settle(&b.owes.c.Rcv)
	}},
	{"ACK not listed", "list of ACKs", func(b *busyModule) {
		b.all.Acks.Ledger = owed.Ledger[*peer.Endpoint]{}
	}},

	{"control buffer leaked", "control buffers", func(b *busyModule) {
		b.all.Port.TakeControl(&b.all.Port.Command, 0)
	}},
	{"completion lost", "on the wire", func(b *busyModule) {
		b.all.Port.Data.SendDone(peer.SegBuf(b.all.Buffers.FreeSegs[0]))
	}},
	{"receive buffer lost", "receive buffers", func(b *busyModule) { b.all.Port.Command.Received(1) }},
	{"bytes kept", "bytes kept", func(b *busyModule) { b.rx.Keeping.Deliver(new(frag.Message)) }},

	{"reassembly", "reassembly", func(b *busyModule) { b.in.c.Asm = frag.Assembler{} }},
	{"fragments of a peer gone", "arrive in state", func(b *busyModule) {
		asm := b.in.c.Asm
		b.in.c.Asm = frag.Assembler{}
		b.all.Endings.PeerClosed(&b.in.c)
		b.in.c.Asm = asm
	}},
	{"region exposed twice", "region", func(b *busyModule) {
		r := new(peer.Region)
		b.all.Remote.Expose(r, nil, RemoteAll, nil, 1)
		b.all.Remote.Expose(r, nil, RemoteAll, nil, 2)
	}},

	{"region of a fragment leaked", "regions of fragments", func(b *busyModule) {
		b.all.Frags.Payloads.Gather(&payload.Payload{Bytes: make([]byte, 1)}, true)
	}},
	{"region of a fragment forgotten", "regions of fragments", func(b *busyModule) {
		b.out.c.Large.Queue.First.Data = payload.Payload{}
	}},
	{"pack in a closed window", "a pack is open in state", func(b *busyModule) {
		b.in.c.Snd.Init(b.in.c.ID.Slot, 0, 8)
		b.all.Sched.Rearm(&b.in.c)
	}},
	{"pack forgotten", "no pack is open", func(b *busyModule) { b.in.c.Pack.Pack = pack.Pack{} }},
	{"pack lost", "queued in no window", func(b *busyModule) {
		b.in.c.Pack = peer.OpenPack{}
		b.all.Sched.Rearm(&b.in.c)
	}},
	{"pack not counted", "packs are open", func(b *busyModule) { b.all.Sched.Packs-- }},
	{"pack free", "free send buffer", func(b *busyModule) {
		b.all.Buffers.FreeSegs = append(b.all.Buffers.FreeSegs, b.in.c.Pack.Seg)
	}},
	{"pack too large", "the open pack has", func(b *busyModule) { b.in.c.Pack.Begin(1, 2000) }},
	{"chain of a pack", "another end", func(b *busyModule) { b.in.c.Pack.Last = nil }},
	{"chain cut", "descriptors", func(b *busyModule) {
		first := b.all.Buffers.Segs[b.in.c.Pack.Seg].Frag
		first.Next, b.in.c.Pack.Last = nil, first
	}},

	{"packet not counted", "no counter explains", func(b *busyModule) {
		b.all.Count[CntReceived]++
	}},
	{"send not counted", "sends accepted", func(b *busyModule) { b.all.Count[CntSendsFast]++ }},
	{"resend not explained", "duplicate ACKs", func(b *busyModule) {
		b.all.Count[CntRetransmitDupAck]++
	}},
	{"refusal not explained", "Nacks", func(b *busyModule) { b.all.Count[CntRetransmitNack]++ }},
	{"fast not received", "fast", func(b *busyModule) {
		b.all.Count[CntFastReceives] += 1 << 20
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
