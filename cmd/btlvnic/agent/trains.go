//go:build linux

package agent

import (
	"errors"
	"sync"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

const (
	trainsWaiting = 256 // of all ports together
	redialEvery   = time.Second
)

// Bounds of what the control thread holds. The module has fragmentsMax descriptors, for management
// too; of those that trains may have each peer has an equal share, and so it is with the memory.
const (
	fragmentsMax    = 4096
	trainsFlyingMax = fragmentsMax - 1024
	trainBytesMax   = 256 << 20
	peerTrainsMin   = 16
	peerBytesMin    = 2 * vnic.TrainBytesMax
	peerBytesMax    = 8 << 20
	peerQueueMax    = 512
)

// train is a frame, or what it was cut into, on its way to the control thread.
type train struct {
	port    *port // is told of a loss
	frames  int
	to      uint32
	entropy uint16
	vesw    uint16
	mem     []byte // with room for the train's header
}

// trainBytes are the sizes of the memory of trains, each with a pool: a small frame must not take
// what a large one needs.
var trainBytes = [...]int{512, 4 << 10, 16 << 10, vnic.TrainBytesMax}

var trainPools [len(trainBytes)]sync.Pool

// newTrain returns a train with room for some bytes, at most vnic.TrainBytesMax.
func newTrain(bytes int) *train {
	for i, size := range trainBytes {
		if bytes > size {
			continue
		}
		if tr, ok := trainPools[i].Get().(*train); ok {
			return tr
		}
		return &train{mem: make([]byte, 0, size)}
	}
	return nil
}

// recycle gives a train's memory to a later one.
func (tr *train) recycle() {
	tr.port = nil
	for i, size := range trainBytes {
		if cap(tr.mem) == size {
			trainPools[i].Put(tr)
		}
	}
}

// trains makes a train of the frame that is being split, one for each receiver, and waits for room.
func (s *sender) trains(o *outlet, t *vnic.Tables, d *vnic.Decision) {
	if d.Verdict == vnic.ToGroup {
		for _, m := range t.Members {
			if m != t.Info.EncapSLID {
				s.train(o, m, d)
			}
		}
		return
	}
	s.train(o, d.Header.DLID, d)
}

func (s *sender) train(o *outlet, to uint32, d *vnic.Decision) {
	size := vnic.PacketBytes(max(s.splits.Largest(), vnic.FrameBytesMin))
	tr := newTrain(vnic.TrainHeaderBytes + s.splits.Count()*size)
	if tr == nil {
		o.out.Counts.DropTx(vnic.TxLogic) // more than the kernel makes
		return
	}
	tr.port, tr.frames = o.port, s.splits.Count()
	tr.to, tr.entropy, tr.vesw = to, d.Header.Entropy, d.Header.VESW
	mem := tr.mem[:vnic.TrainHeaderBytes]
	for i := range s.splits.Count() {
		mem = mem[:len(mem)+len(s.packet(mem[len(mem):len(mem)+size], &d.Header, i))]
	}
	tr.mem = mem
	select {
	case s.agent.trains <- tr:
	default:
		// The control thread is behind, or the network is. The device's queue is the place to wait in;
		// meanwhile others may have the lock.
		s.mu.Unlock()
		select {
		case s.agent.trains <- tr:
		case <-s.agent.stopped:
		}
		s.mu.Lock()
	}
	s.agent.wake()
}

// peer is the connection to another host, for trains.
type peer struct {
	lid   uint32
	name  []byte
	ep    *btl.Endpoint
	next  map[flowKey]uint32
	order *vnic.Order
	retry mono.Time
	// What waits for the module, and what it has and the peer has not acknowledged.
	queue                   []*train
	queueBytes, flyingBytes int
	flying                  int
	full                    bool // the module had no room
}

type flowKey struct {
	vesw    uint16
	entropy uint16
}

// dial sees to it that there is a connection to every host that fragments may go to or come from:
// only from those whose end this side has asked for by name it knows whose they are.
func (a *Agent) dial(now mono.Time) {
	want := make(map[uint32]bool)
	for _, p := range a.ports {
		if p == nil || p.tables == nil {
			continue
		}
		if o := p.tables.Options; o.Carrier == vnic.CarrierFragment || o.Cut {
			for _, m := range p.tables.Members {
				want[m] = m != a.core.LID()
			}
		}
	}
	names := make(map[uint32][]byte)
	for _, e := range a.core.LIDs() {
		names[e.LID] = e.Ways.Module
	}
	for lid, p := range a.mates {
		if !want[lid] || string(names[lid]) != string(p.name) {
			if p.ep != nil {
				delete(a.byEnd, p.ep)
				p.ep.Close(now)
			}
			a.loseQueue(p)
			delete(a.mates, lid)
		}
	}
	for lid, wanted := range want {
		if name := names[lid]; wanted && len(name) > 0 && a.mates[lid] == nil {
			a.mates[lid] = &peer{lid: lid, name: name}
		}
	}
	for _, p := range a.mates {
		a.connect(now, p)
	}
}

func (a *Agent) connect(now mono.Time, p *peer) {
	if p.ep != nil || now < p.retry {
		return
	}
	p.retry = now.Add(redialEvery)
	ep, err := a.module.Connect(now, p.name)
	if err != nil || a.byEnd[ep] != nil { // two LIDs, one name: it belongs to who had it first
		return
	}
	p.ep, p.next, p.order = ep, make(map[flowKey]uint32), vnic.NewOrder(0)
	a.byEnd[ep] = p
}

// mateEvent hears of the module's endpoints.
func (a *Agent) mateEvent(ep *btl.Endpoint, ev btl.Event, _ error) {
	if p := a.byEnd[ep]; p != nil && ev != btl.EventConnected {
		delete(a.byEnd, ep)
		p.ep, p.order = nil, nil
		a.loseQueue(p)
	}
}

// lose counts a train that does not leave, with all its frames.
func (a *Agent) lose(tr *train, reason vnic.Counter) {
	a.trainsLost.Add(1)
	tr.port.trainsLost[reason] += uint64(tr.frames)
	tr.port.trainsLost[vnic.TxErrors] += uint64(tr.frames)
	tr.recycle()
}

func (a *Agent) loseQueue(p *peer) {
	for _, tr := range p.queue {
		a.lose(tr, vnic.TxNoPeer)
	}
	p.queue, p.queueBytes, p.full = nil, 0, false
}

// shares returns the share of each peer in the descriptors and in the memory. The memory share
// applies twice: to waiting trains and to trains in flight.
func (a *Agent) shares() (trains, bytes int) {
	n := max(len(a.mates), 1)
	return max(trainsFlyingMax/n, peerTrainsMin),
		min(max(trainBytesMax/2/n, peerBytesMin), peerBytesMax)
}

// sendTrains passes the trains of the senders to the module. Trains that a peer cannot accept now
// wait, within bounds for each peer. So a slow peer, or a dead peer before its detection, does not
// delay others.
func (a *Agent) sendTrains() (n int) {
	trains, bytes := a.shares()
	for _, p := range a.mates {
		for len(p.queue) > 0 {
			size := len(p.queue[0].mem)
			if !a.sendTrain(p, p.queue[0], trains, bytes) {
				break
			}
			p.queueBytes -= size
			p.queue[0] = nil
			p.queue = p.queue[1:]
			n++
		}
	}
	for range trainsWaiting {
		select {
		case tr := <-a.trains:
			n++
			p, size := a.mates[tr.to], len(tr.mem)
			switch {
			case p == nil || p.ep == nil:
				a.lose(tr, vnic.TxNoPeer)
			case len(p.queue) == 0 && a.sendTrain(p, tr, trains, bytes):
			case len(p.queue) >= peerQueueMax || p.queueBytes+size > bytes:
				a.lose(tr, vnic.TxFIFO)
			default:
				p.queue = append(p.queue, tr)
				p.queueBytes += size
			}
		default:
			return n
		}
	}
	return n
}

// sendTrain returns false if the peer can take no more now. It has the train then no longer if it
// returns true.
func (a *Agent) sendTrain(p *peer, tr *train, trains, bytes int) bool {
	size := len(tr.mem)
	if !p.ep.Connected() || p.flying >= trains || p.flying > 0 && p.flyingBytes+size > bytes ||
		a.flying >= trainsFlyingMax {
		return false
	}
	key := flowKey{tr.vesw, tr.entropy}
	h := vnic.Train{Seq: p.next[key], VESW: tr.vesw, Entropy: tr.entropy}
	h.Put(tr.mem)
	f, err := p.ep.Prepare(vnic.TagTrain, tr.mem)
	if p.full = errors.Is(err, btl.ErrAgain); p.full {
		return false
	}
	done := func() {
		p.flying--
		p.flyingBytes -= size
		a.flying--
		tr.recycle()
	}
	var st btl.Status
	if err == nil {
		f.OnDone = func(*btl.Fragment, error) { done() }
		if st, err = p.ep.Send(clock(), f); err != nil {
			err = errors.Join(err, p.ep.Free(f))
		}
	}
	if err != nil {
		a.lose(tr, vnic.TxNoPeer)
		return true
	}
	p.next[key]++
	p.flying++
	p.flyingBytes += size
	a.flying++
	if st == btl.Done {
		done()
	}
	return true
}

// takeTrain handles a train that has arrived.
func (a *Agent) takeTrain(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	p := a.byEnd[ep]
	t, packets, err := vnic.ParseTrain(data)
	a.local.mu.Lock()
	defer a.local.mu.Unlock()
	a.local.now = clock()
	switch {
	case err != nil:
		a.local.host.Strangers.DropRx(vnic.RxMalformed)
		return
	case p == nil:
		a.local.host.Strangers.DropRx(vnic.RxForged)
		return
	}
	p.order.Take(clock(), t, packets, func(b []byte) { a.deliver(p.lid, b) })
}

// deliver gives the packets of a train to their port.
func (a *Agent) deliver(from uint32, packets []byte) {
	for {
		var one []byte
		one, packets = vnic.NextPacket(packets)
		if one == nil {
			break
		}
		a.local.packet(from, one)
	}
	a.local.flush()
}

// expire drops the trains that have waited for too long.
func (a *Agent) expire(now mono.Time) (next mono.Time) {
	next = mono.Never
	a.local.mu.Lock()
	defer a.local.mu.Unlock()
	for _, p := range a.mates {
		if p.order == nil {
			continue
		}
		p.order.Expire(now, func(b []byte) { a.deliver(p.lid, b) })
		next = next.Min(p.order.Deadline())
	}
	return next
}
