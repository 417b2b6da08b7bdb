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

// train is a frame, or what it was cut into, on its way to the control thread.
type train struct {
	to      uint32
	entropy uint8
	vesw    uint16
	mem     []byte // with room for the train's header
}

var trainPool = sync.Pool{New: func() any { return new(train) }}

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
	tr := trainPool.Get().(*train)
	tr.to, tr.entropy, tr.vesw = to, d.Header.Entropy, d.Header.VESW
	if cap(tr.mem) < vnic.TrainHeaderBytes {
		tr.mem = make([]byte, 0, vnic.TrainBytesMax)
	}
	mem := tr.mem[:vnic.TrainHeaderBytes]
	for i := range s.splits.Count() {
		size := vnic.PacketBytes(max(s.splits.Largest(), vnic.FrameBytesMin))
		if len(mem)+size > vnic.TrainBytesMax {
			o.out.Counts.DropTx(vnic.TxLogic) // more than the kernel makes
			break
		}
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
	queue []*train // not taken by the module yet
}

type flowKey struct {
	vesw    uint16
	entropy uint8
}

const peerQueueMax = 512

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
	if err != nil {
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
		for _, tr := range p.queue {
			trainPool.Put(tr)
		}
		p.queue = nil
	}
}

// sendTrains gives what the senders have made to the module.
func (a *Agent) sendTrains() (n int) {
	for _, p := range a.mates {
		for len(p.queue) > 0 && a.sendTrain(p, p.queue[0]) {
			p.queue[0] = nil
			p.queue = p.queue[1:]
			n++
		}
	}
	for range trainsWaiting {
		select {
		case tr := <-a.trains:
			n++
			p := a.mates[tr.to]
			if p == nil || len(p.queue) >= peerQueueMax {
				a.trainsLost.Add(1)
				trainPool.Put(tr)
				continue
			}
			if len(p.queue) > 0 || !a.sendTrain(p, tr) {
				p.queue = append(p.queue, tr)
			}
		default:
			return n
		}
	}
	return n
}

// sendTrain returns false if the module has no room now.
func (a *Agent) sendTrain(p *peer, tr *train) bool {
	if p.ep == nil {
		a.trainsLost.Add(1)
		trainPool.Put(tr)
		return true
	}
	key := flowKey{tr.vesw, tr.entropy}
	h := vnic.Train{Seq: p.next[key], VESW: tr.vesw, Entropy: tr.entropy}
	h.Put(tr.mem)
	f, err := p.ep.Prepare(vnic.TagTrain, tr.mem)
	if errors.Is(err, btl.ErrAgain) {
		return false
	}
	var st btl.Status
	if err == nil {
		f.OnDone = func(*btl.Fragment, error) { trainPool.Put(tr) }
		if st, err = p.ep.Send(clock(), f); err != nil {
			err = errors.Join(err, p.ep.Free(f))
		}
	}
	if err != nil {
		a.trainsLost.Add(1)
		trainPool.Put(tr)
		return true
	}
	p.next[key]++
	if st == btl.Done {
		trainPool.Put(tr)
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

// expire gives up what has waited for too long.
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
