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
	trainsWaiting = 256 // trains of all ports together
	redialEvery   = time.Second
)

// The constants below limit the memory and the descriptors that the control thread uses. The module
// has fragmentsMax descriptors, of which trains (messages with all packets of one frame) may use
// trainsFlyingMax. The peers that acknowledge trains divide three quarters of the descriptors and
// of the memory for trains. All other peers divide the last quarter (1/quietPart).
const (
	fragmentsMax    = 4096
	trainsFlyingMax = fragmentsMax - 1024
	trainBytesMax   = 256 << 20
	quietPart       = 4
	peerBytesMin    = 2 * vnic.TrainBytesMax
	quietBytesMin   = vnic.TrainBytesMax
	peerBytesMax    = 8 << 20
	peerQueueMax    = 512
	// workTime is the time after an acknowledgement for which a peer counts as one that
	// acknowledges trains.
	workTime = time.Second
	// malformedMax is the number of malformed trains of a peer after which its connection ends. Other
	// agents send none.
	malformedMax = 16
)

// train is a message with all packets of one frame, which a sender passes to the control thread.
type train struct {
	port    *port // the port that counts a loss
	frames  int
	to      uint32
	entropy uint16
	vesw    uint16
	mem     []byte // begins with room for the train's header
}

// trainBytes holds the sizes of the trains' buffers. Each buffer size has its own pool, so that
// small frames use small buffers.
var trainBytes = [...]int{512, 4 << 10, 16 << 10, vnic.TrainBytesMax}

var trainPools [len(trainBytes)]sync.Pool

// newTrain returns a train with a buffer for the given number of bytes. newTrain returns nil for
// more than vnic.TrainBytesMax bytes.
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

// recycle returns a train and its buffer to the pools.
func (tr *train) recycle() {
	tr.port = nil
	for i, size := range trainBytes {
		if cap(tr.mem) == size {
			trainPools[i].Put(tr)
		}
	}
}

// trains makes a message with all packets of the present frame, for each host that receives the
// frame. trains waits until the queue of the control thread has room. All messages are made before
// the first one is queued, because another thread may use the splitter during that wait.
func (s *sender) trains(o *outlet, t *vnic.Tables, d *vnic.Decision) {
	made := s.made[:0]
	s.made = nil
	if d.Verdict == vnic.ToGroup {
		for _, m := range t.Members {
			if m != t.Info.EncapSLID {
				made = s.train(made, o, m, d)
			}
		}
	} else {
		made = s.train(made, o, d.Header.DLID, d)
	}
	for _, tr := range made {
		s.queueTrain(tr)
	}
	clear(made)
	s.made = made[:0]
}

// train appends a message with all packets of the present frame for one host.
func (s *sender) train(made []*train, o *outlet, to uint32, d *vnic.Decision) []*train {
	size := vnic.PacketBytes(max(s.splits.Largest(), vnic.FrameBytesMin))
	tr := newTrain(vnic.TrainHeaderBytes + s.splits.Count()*size)
	if tr == nil {
		o.out.Counts.DropTx(vnic.TxLogic) // larger than any frame of the kernel
		return made
	}
	tr.port, tr.frames = o.port, s.splits.Count()
	tr.to, tr.entropy, tr.vesw = to, d.Header.Entropy, d.Header.VESW
	mem := tr.mem[:vnic.TrainHeaderBytes]
	for i := range s.splits.Count() {
		mem = mem[:len(mem)+len(s.packet(mem[len(mem):len(mem)+size], &d.Header, i))]
	}
	tr.mem = mem
	return append(made, tr)
}

// queueTrain passes a train to the control thread.
func (s *sender) queueTrain(tr *train) {
	select {
	case s.agent.trains <- tr:
	default:
		// While the queue is full, new frames stay in the device's queue, and other threads may
		// have the lock.
		s.mu.Unlock()
		select {
		case s.agent.trains <- tr:
		case <-s.agent.stopped:
		}
		s.mu.Lock()
	}
	s.agent.wake()
}

// peer is the connection to another host, for messages with all packets of one frame.
type peer struct {
	lid   uint32
	name  []byte
	ep    *btl.Endpoint
	next  map[flowKey]uint32
	order *vnic.Order
	retry mono.Time
	// queue holds the trains that are not yet passed to the module. The fields flying and
	// flyingBytes count the trains, and their bytes, that the peer has not yet acknowledged.
	queue                   []*train
	queueBytes, flyingBytes int
	flying                  int
	full                    bool // the module had no free buffers

	acked      bool // a train was acknowledged after the latest call of shares
	worksUntil mono.Time
	malformed  int // malformed trains on this connection
}

type flowKey struct {
	vesw    uint16
	entropy uint16
}

// dial connects to every host with which this host may exchange trains. A train is accepted only on
// a connection that this host has opened by name, because otherwise its sender is not known.
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
			a.endOrder(p)
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
	if err != nil || a.byEnd[ep] != nil { // two LIDs with one name: the first LID has the endpoint
		return
	}
	p.ep, p.next, p.order = ep, make(map[flowKey]uint32), vnic.NewOrder(0)
	p.malformed = 0
	a.waits.Admit(p.order)
	a.byEnd[ep] = p
}

// mateEvent handles the end of a connection of the module.
func (a *Agent) mateEvent(ep *btl.Endpoint, ev btl.Event, _ error) {
	if p := a.byEnd[ep]; p != nil && ev != btl.EventConnected {
		delete(a.byEnd, ep)
		p.ep = nil
		a.endOrder(p)
		a.loseQueue(p)
	}
}

// endOrder drops the order of a peer's trains, whose counts stay in the total of the agent.
func (a *Agent) endOrder(p *peer) {
	if p.order != nil {
		a.ordered.add(p.order)
		a.waits.Remove(p.order)
		p.order = nil
	}
}

// lose counts all frames of a train that cannot be sent.
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

// share is one peer's share of the descriptors and of the memory for trains. The memory limits the
// waiting trains, and separately the trains in flight.
type share struct{ trains, bytes int }

// The method shares returns the share of each peer that acknowledges trains, and the share of each
// other peer. The number of the other peers, which may be silent, does not reduce the share of the
// peers that acknowledge trains.
func (a *Agent) shares(now mono.Time) (working, quiet share) {
	works, others := 0, 0
	for _, p := range a.mates {
		if p.acked {
			p.acked, p.worksUntil = false, now.Add(workTime)
		}
		if p.works(now) {
			works++
		} else {
			others++
		}
	}
	works, others = max(works, 1), max(others, 1)
	const (
		trains, bytes           = trainsFlyingMax, trainBytesMax / 2
		quietTrains, quietBytes = trains / quietPart, bytes / quietPart
	)
	working.trains, quiet.trains = (trains-quietTrains)/works, max(quietTrains/others, 1)
	working.bytes = min(max((bytes-quietBytes)/works, peerBytesMin), peerBytesMax)
	quiet.bytes = min(max(quietBytes/others, quietBytesMin), peerBytesMax)
	return working, quiet
}

// works reports whether the peer has acknowledged a train lately.
func (p *peer) works(now mono.Time) bool { return now < p.worksUntil }

// sendTrains passes the trains of the sending threads to the module. A train for a peer that cannot
// accept it waits in the queue of this peer, so it does not delay other peers.
func (a *Agent) sendTrains(now mono.Time) (n int) {
	working, quiet := a.shares(now)
	of := func(p *peer) share {
		if p.works(now) {
			return working
		}
		return quiet
	}
	for _, p := range a.mates {
		for s := of(p); len(p.queue) > 0; {
			size := len(p.queue[0].mem)
			if !a.sendTrain(p, p.queue[0], s) {
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
			if p := a.mates[tr.to]; p == nil || p.ep == nil {
				a.lose(tr, vnic.TxNoPeer)
			} else {
				a.sendOrQueue(p, tr, of(p))
			}
		default:
			return n
		}
	}
	return n
}

// sendOrQueue passes a train to the module, or queues the train, or loses it if the queue is full.
func (a *Agent) sendOrQueue(p *peer, tr *train, s share) {
	size := len(tr.mem)
	switch {
	case len(p.queue) == 0 && a.sendTrain(p, tr, s):
	case len(p.queue) >= peerQueueMax || p.queueBytes+size > s.bytes:
		a.lose(tr, vnic.TxFIFO)
	default:
		p.queue = append(p.queue, tr)
		p.queueBytes += size
	}
}

// sendTrain passes a train to the module. sendTrain returns false if the peer cannot accept the
// train now, and the caller keeps the train.
func (a *Agent) sendTrain(p *peer, tr *train, s share) bool {
	size := len(tr.mem)
	if !p.ep.Connected() || p.flying >= s.trains || p.flying > 0 && p.flyingBytes+size > s.bytes ||
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
		f.OnDone = func(_ *btl.Fragment, err error) {
			p.acked = p.acked || err == nil
			done()
		}
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
	if st == btl.Done { // copied, and not acknowledged yet
		done()
	}
	return true
}

// takeTrain handles a train that has arrived from another host. Any peer of the module can send
// hundreds of trains in a datagram, so a train costs little until its sender is known, and until it
// is known to be for a switch of this host.
func (a *Agent) takeTrain(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	p := a.byEnd[ep]
	if p == nil {
		a.strangers.DropRx(vnic.RxForged)
		return
	}
	t, packets, err := vnic.ParseTrain(data)
	switch {
	case err != nil:
		a.strangers.DropRx(vnic.RxMalformed)
		if p.malformed++; p.malformed == malformedMax {
			ep.Abort()
		}
		return
	case !a.local.host.On(t.VESW):
		a.strangers.DropRx(vnic.RxBadVESW)
		return
	case t.Entropy >= vnic.TrainFlows: // possibly of a later version
		a.strangers.DropRx(vnic.RxMalformed)
		return
	}
	a.local.mu.Lock()
	defer a.local.mu.Unlock()
	a.local.now = clock()
	p.order.Take(a.local.now, t, packets, func(b []byte) { a.deliver(p.lid, b) })
}

// deliver passes the packets of a train to the receiving parts of the ports.
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

// expire drops trains that have waited too long for earlier trains. The method expire returns the
// time of its next call.
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
