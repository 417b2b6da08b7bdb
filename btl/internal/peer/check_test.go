package peer

import (
	"strings"
	"testing"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/flush"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/owed"
	"gobtl/btl/internal/pack"
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/remote"
	"gobtl/btl/internal/sched"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/reliability"
)

// busy is a station in the midst of everything that Check looks at.
type busy struct {
	*station

	out    *Endpoint // has packets in flight and a queue
	in     *Endpoint // has a fragment on its way here, may send, and has an open pack
	owes   *Endpoint // an ACK
	lent   *Fragment // with a buffer
	queued *Fragment // behind a larger one, with a buffer
	sent   reliability.Token
}

func newBusy(t *testing.T) *busy {
	t.Helper()
	r := newRig(t, 5, func(cfg *rigConfig) {
		cfg.rules.WindowPackets, cfg.rules.AckDelay = 8, 10*time.Millisecond
	})
	b := &busy{station: r.stations[0]}
	b.Remote.Expose(new(Region), make([]byte, 8), remote.Write, nil, 1)
	b.out = r.connect(0, 1)
	gone := r.connect(0, 3)
	b.in, b.owes = r.connect(0, 2), r.connect(0, 4)
	r.steps(30, time.Millisecond)
	dropped := uint32(0)
	r.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		var h frag.Header
		if _, err := frag.Decode(pkt, &h); err == nil && h.Kind == frag.KindChunk && h.OffsetBytes > 0 &&
			(dropped == 0 || dropped == h.OffsetBytes) { // also when it is sent again
			dropped = h.OffsetBytes
			return mem.Drop
		}
		return mem.Deliver
	})
	r.stations[2].send(r.stations[2].to(0), 4000)
	r.stations[4].send(r.stations[4].to(0), 10)
	r.steps(4, 10*time.Microsecond)
	r.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	b.send(b.out, 40000)
	r.step(time.Microsecond) // it fills the window
	b.queued = b.alloc(b.out, 1000)
	_, err := b.Sender.Send(b.out, r.now, b.queued, SendOptions{Signal: true, Told: true})
	if err != nil {
		t.Fatal(err)
	}
	b.lent = b.alloc(b.out, 1000)
	oldest, _ := b.out.Snd.Window()
	b.sent, _ = b.out.Snd.Token(oldest)
	b.send(gone, 4000)
	b.Endings.Abort(gone)
	if err := b.Sender.SendImmediate(b.in, r.now, 3, []byte("x")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // stay in the open pack
		b.send(b.in, 6)
	}
	b.send(b.in, 4000)
	return b
}

// tampering changes one thing in a module's state; Check must say the words.
var tamperings = []struct {
	name, want string
	tamper     func(b *busy)
}{
	{"nothing", "", func(*busy) {}},

	{"time", "unpaused", func(b *busy) { b.Clock.Unpaused = b.Clock.Now + 1 }},
	{"heard in the future", "heard", func(b *busy) {
		b.in.Life.Heard(b.Clock.Unpaused+1, 0)
	}},
	{"slot", "slot", func(b *busy) { b.in.ID.Tag = b.out.ID.Tag }},
	{"tag", "not its own", func(b *busy) { b.in.ID.Tag ^= 1 << 63 }},
	{"state", "share of the credits", func(b *busy) { b.in.joined = false }},
	{"error", "has ended", func(b *busy) { b.in.needEnding().err = errs.ErrPeerDead }},
	{"half open", "half open", func(b *busy) { b.Peers.HalfOpen++ }},
	{"timer forgotten", "no timer", func(b *busy) {
		b.in.Life = liveness.Watch{Peer: b.in.Life.Peer}
	}},
	{"timer of another", "not its own", func(b *busy) { b.in.Life = b.out.Life }},
	{"timer leaked", "have a timer", func(b *busy) {
		b.Timers.Watches.Set(new(Endpoint), time.Second)
	}},
	{"connection tag", "connection tags", func(b *busy) {
		b.in.ID.Addr, b.in.ID.Peer = b.out.ID.Addr, b.out.ID.Peer
	}},
	{"address", "addresses, ", func(b *busy) {
		was := b.out.ID.Addr
		b.out.ID.Addr = "x"
		b.Peers.LeadTo(b.out)
		b.out.ID.Addr = was
	}},

	{"credits leaked", "credits granted", func(b *busy) {
		other := reliability.Receiver{}
		other.Init(0, 8)
		other.Grant(b.Credits)
	}},
	{"sharers", "share the credits", func(b *busy) { b.Credits.Join() }},

	{"window", "window", func(b *busy) { b.Rules.WindowPackets = 2 }},
	{"window number", "number", func(b *busy) {
		b.Port.Arena.Bytes(fabric.Buf(b.sent))[16]++
	}},
	{"segment of another", "not this endpoint's", func(b *busy) {
		b.Buffers.segs[b.sent].ep = b.in
	}},
	{"window aborted", "is lost", func(b *busy) { b.out.Snd.Abort(nil) }},
	{"segment freed in the window", "free send buffer", func(b *busy) {
		b.Buffers.FreeSegs = append(b.Buffers.FreeSegs, b.sent)
	}},
	{"segment released", "to be released", func(b *busy) {
		b.Port.ReleaseWhenDone(fabric.Buf(b.sent))
	}},
	{"segment without fragment", "count", func(b *busy) {
		b.Buffers.segs[b.sent].frag = nil
	}},
	{"fragment counts too many", "count", func(b *busy) {
		b.Buffers.segs[b.sent].frag.out++
	}},
	{"fragment counts too few", "one too many", func(b *busy) {
		b.Buffers.segs[b.sent].frag.out--
	}},
	{"free twice", "free twice", func(b *busy) {
		b.Buffers.FreeSegs = append(b.Buffers.FreeSegs, b.Buffers.FreeSegs[0])
	}},
	{"free on the wire", "free send buffer", func(b *busy) {
		b.Port.Data.Next(fabric.Buf(b.Buffers.FreeSegs[0]))
	}},
	{"free of an endpoint", "free send buffer", func(b *busy) {
		b.Buffers.segs[b.Buffers.FreeSegs[0]].ep = b.in
	}},
	{"buffer leaked", "send buffers lent", func(b *busy) {
		b.Buffers.FreeSegs = b.Buffers.FreeSegs[:len(b.Buffers.FreeSegs)-1]
	}},
	{"buffer lost on the wire", "is lost", func(b *busy) {
		b.Port.Data.Next(fabric.Buf(b.Buffers.FreeSegs[len(b.Buffers.FreeSegs)-1]))
		b.Buffers.FreeSegs = b.Buffers.FreeSegs[:len(b.Buffers.FreeSegs)-1]
	}},
	{"timed in no window", "in no window", func(b *busy) {
		t := b.Buffers.FreeSegs[len(b.Buffers.FreeSegs)-1]
		b.Buffers.FreeSegs = b.Buffers.FreeSegs[:len(b.Buffers.FreeSegs)-1]
		b.out.Snd.Post(b.Clock.Now, t, 1, reliability.Data, time.Second)
	}},
	{"buffers of an endpoint", "counts", func(b *busy) { b.out.buffers = 1 }},
	{"buffers lent by an endpoint", "lent", func(b *busy) {
		b.out.buffers++
		b.out.ID.Host.Buffers.Take()
	}},
	{"buffers of a host", "its host", func(b *busy) { b.out.ID.Host.Buffers.Give() }},

	{"queued in a wrong state", "queued", func(b *busy) { b.queued.state = fragLent }},
	{"queued buffer", "queued", func(b *busy) { b.Recovery.Unqueue(b.queued.seg) }},
	{"queue length", "queue of", func(b *busy) { b.out.small.queue.count++ }},
	{"queue end", "another end", func(b *busy) {
		b.out.small.queue.last = b.out.large.queue.last
	}},
	{"descriptor leaked", "descriptors", func(b *busy) { b.Frags.lent++ }},
	{"descriptor freed twice", "descriptors", func(b *busy) {
		b.Frags.idle = append(b.Frags.idle, new(Fragment))
	}},
	{"descriptor free and lent", "free descriptor", func(b *busy) {
		b.Frags.idle = append(b.Frags.idle[:0], b.lent)
	}},
	{"descriptors", "at most", func(b *busy) { b.Config.FragmentsMax = 1 }},
	{"ended in a wrong state", "has ended", func(b *busy) {
		b.Outbox.ended.first.state = fragSent
	}},
	{"ended not counted", "ended", func(b *busy) { b.Outbox.ended.count++ }},
	{"event", "notice 0", func(b *busy) { b.Outbox.notices.All()[0].Ep = nil }},
	{"flush forgotten", "flush 0 is due", func(b *busy) {
		oldest, _ := b.in.Snd.Window()
		b.in.flushQueue().Add(func(error) {}, flush.Tails[*Fragment]{}, oldest, false)
	}},
	{"flush of a fragment gone", "not queued", func(b *busy) {
		b.out.flushQueue().Add(nil, flush.Tails[*Fragment]{b.lent}, b.out.SentUntil(), false)
	}},

	{"not ready", "ready: false", func(b *busy) {
		b.Sched.Remove(&b.in.small.Flow)
	}},
	{"ready for nothing", "ready: true", func(b *busy) { b.Sched.Add(&b.out.large.Flow) }},
	{"ready and not listed", "flows are listed", func(b *busy) {
		b.Sched.RoundRobin = sched.RoundRobin[*Endpoint]{}
	}},
	{"ACK not owed", "owes an ACK", func(b *busy) {
		b.Acks.Settle(&b.owes.Rcv)
	}},
	{"ACK not listed", "list of ACKs", func(b *busy) {
		b.Acks.Ledger = owed.Ledger[*Endpoint]{}
	}},

	{"control buffer leaked", "control buffers", func(b *busy) {
		b.Port.TakeControl(&b.Port.Command, 0)
	}},
	{"completion lost", "on the wire", func(b *busy) {
		b.Port.Data.SendDone(fabric.Buf(b.Buffers.FreeSegs[0]))
	}},
	{"receive buffer lost", "receive buffers", func(b *busy) { b.Port.Command.Received(1) }},

	{"reassembly", "reassembly", func(b *busy) { b.in.Asm = frag.Assembler{} }},
	{"fragments of a peer gone", "arrive in state", func(b *busy) {
		asm := b.in.Asm
		b.in.Asm = frag.Assembler{}
		b.Endings.PeerClosed(b.in)
		b.in.Asm = asm
	}},
	{"region exposed twice", "region", func(b *busy) {
		r := new(Region)
		b.Remote.Expose(r, nil, remote.All, nil, 1)
		b.Remote.Expose(r, nil, remote.All, nil, 2)
	}},

	{"region of a fragment leaked", "regions of fragments", func(b *busy) {
		b.Frags.Payloads.Gather(&payload.Payload{Bytes: make([]byte, 1)}, true)
	}},
	{"region of a fragment forgotten", "regions of fragments", func(b *busy) {
		b.out.large.queue.first.Data = payload.Payload{}
	}},
	{"pack in a closed window", "a pack is open in state", func(b *busy) {
		b.in.Snd.Init(b.in.ID.Slot(), 0, 8)
		b.Sched.Rearm(b.in)
	}},
	{"pack forgotten", "no pack is open", func(b *busy) { b.in.pack.Pack = pack.Pack{} }},
	{"pack lost", "queued in no window", func(b *busy) {
		b.in.pack = openPack{}
		b.Sched.Rearm(b.in)
	}},
	{"pack not counted", "packs are open", func(b *busy) { b.Sched.Packs-- }},
	{"pack free", "free send buffer", func(b *busy) {
		b.Buffers.FreeSegs = append(b.Buffers.FreeSegs, b.in.pack.seg)
	}},
	{"pack too large", "the open pack has", func(b *busy) { b.in.pack.Begin(1, 2000) }},
	{"chain of a pack", "another end", func(b *busy) { b.in.pack.last = nil }},
	{"chain cut", "descriptors", func(b *busy) {
		first := b.Buffers.segs[b.in.pack.seg].frag
		first.next, b.in.pack.last = nil, first
	}},

	{"packet not counted", "no counter explains", func(b *busy) {
		b.Count[stats.CntReceived]++
	}},
	{"send not counted", "sends accepted", func(b *busy) { b.Count[stats.CntSendsFast]++ }},
	{"resend not explained", "duplicate ACKs", func(b *busy) {
		b.Count[stats.CntRetransmitDupAck]++
	}},
	{"refusal not explained", "Nacks", func(b *busy) { b.Count[stats.CntRetransmitNack]++ }},
	{"fast not received", "fast", func(b *busy) {
		b.Count[stats.CntFastReceives] += 1 << 20
	}},
}

func TestCheckSeesTampering(t *testing.T) {
	for _, c := range tamperings {
		t.Run(c.name, func(t *testing.T) {
			b := newBusy(t)
			if err := b.check(); err != nil {
				t.Fatal(err)
			}
			c.tamper(b)
			err := b.check()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check says %v, and not %q", err, c.want)
			}
		})
	}
}
