//go:build linux

package agent

import (
	"errors"
	"math"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/vnic"
	"gobtl/vnic/offload"
	"gobtl/vnic/tap"
)

const (
	pollBatch   = 256
	recvBuffers = 2048
)

// inlet is the part of a port that one receiving thread owns. An inlet holds the ingress state and
// the queue of the device.
type inlet struct {
	port   *port
	in     *vnic.Ingress
	queue  frameQueue
	joiner offload.Joiner
	taken  bool // frames wait in the joiner
	buf    []byte
	// lanes holds the inlets of a thread that receives the frames of all flows. There is one inlet for
	// each queue of the device, and lanes[0] is this inlet. If the field lanes is empty, this inlet
	// receives the frames of all flows.
	lanes []*inlet
	// The field refused counts the large TCP and UDP frames that the device has refused in succession.
	refused [2]int
}

// frameQueue is a queue of a device.
type frameQueue interface {
	Read(b []byte) (offload.Header, int, error)
	Write(f *offload.Joined) error
	FD() int
}

// refusedMax is the number of large frames refused in succession after which the agent makes no
// more large frames.
const refusedMax = 3

func newInlet(p *port) *inlet {
	n := &inlet{port: p, in: vnic.NewIngress(&p.fdb, &p.near, &p.learnMu)}
	n.joiner.Emit = n.write
	return n
}

// attach connects an inlet to one queue of a device.
func (n *inlet) attach(q *tap.Queue, dev *tap.Device) {
	n.queue, n.refused = q.Twin(), [2]int{}
	n.joiner.UDPFrames = 0
	n.joiner.NoTCP = !dev.LargeTCP()
	n.joiner.NoUDP = !dev.LargeUDP()
}

// attachAll connects an inlet to all queues of a device. attachAll maps each flow to one queue,
// because the kernel delivers the frames of a flow to the queue to which the flow's replies were
// last written.
func (n *inlet) attachAll(queues []*tap.Queue, dev *tap.Device) {
	n.lanes = n.lanes[:0]
	for i, q := range queues {
		lane := n
		if i > 0 {
			lane = newInlet(n.port)
			lane.in = n.in
		}
		lane.attach(q, dev)
		n.lanes = append(n.lanes, lane)
	}
}

// lane returns the inlet for the flow with the given entropy.
func (n *inlet) lane(entropy uint16) *inlet {
	if len(n.lanes) == 0 {
		return n
	}
	return n.lanes[int(entropy)%len(n.lanes)]
}

// write writes a frame to the device. If the device refuses a large frame, write splits the frame
// again. After refusedMax refusals the agent makes no more large frames. Errors of an interface
// that is down, and of missing memory, do not count as refusals.
func (n *inlet) write(f *offload.Joined) {
	kind, off := 0, &n.joiner.NoTCP
	if f.Header.Type == offload.UDP4 {
		kind, off = 1, &n.joiner.NoUDP
	}
	err := n.queue.Write(f)
	if err == nil {
		if f.Frames > 1 {
			n.refused[kind] = 0
		}
		return
	}
	if f.Frames == 1 || !errors.Is(err, unix.EINVAL) {
		reason := vnic.RxFIFO
		if errors.Is(err, unix.EIO) {
			reason = vnic.RxEthDown
		}
		for range f.Frames {
			n.in.Counts.DropRx(reason)
		}
		return
	}
	if kind == 1 && f.Frames > offload.FramesOld {
		n.joiner.UDPFrames = offload.FramesOld // an older kernel
	} else if n.refused[kind]++; n.refused[kind] >= refusedMax {
		*off = true
	}
	n.port.refusals.Add(1)
	n.buf = n.buf[:0]
	for _, p := range f.Parts {
		n.buf = append(n.buf, p...)
	}
	var s offload.Splitter
	if s.Begin(n.buf, f.Header) != nil {
		n.in.Counts.DropRx(vnic.RxFIFO)
		return
	}
	piece := make([]byte, s.Largest())
	for i := range s.Count() {
		one := offload.Joined{Parts: [][]byte{piece[:s.Write(piece, i)]}, Frames: 1}
		if n.queue.Write(&one) != nil {
			n.in.Counts.DropRx(vnic.RxFIFO)
		}
	}
}

// intake is the packet processing that both kinds of receiving threads have in common. An intake
// accepts packets, writes frames to devices, and flushes the joiners.
type intake struct {
	host  vnic.Host
	ports map[*vnic.Ingress]*inlet
	used  []*inlet
	agent *Agent
	now   mono.Time // of the batch

	probes hostRate // of the frames that isProbe finds
}

func (k *intake) init(a *Agent) {
	k.agent, k.ports = a, make(map[*vnic.Ingress]*inlet)
}

// The method packet handles a packet from the host with the LID from. The memory of the packet must
// stay valid until the method flush is called.
func (k *intake) packet(from uint32, b []byte) {
	a, ok := k.host.Accept(k.now, from, b)
	if !ok {
		return
	}
	n := k.ports[a.Port]
	n.in.Counts.CountRx(&a.Info, len(a.Frame), 1)
	if d := n.port.dump.Load(); d != nil {
		d.capture(a.Frame, false)
	}
	if isProbe(a.Frame, &a.Info) {
		k.probed(from, n.port, &a)
		return
	}
	n.port.owners.hear(k.now, from, a.Frame, &a.Info)
	n = n.lane(a.Header.Entropy)
	n.joiner.Add(a.Frame)
	if !n.taken {
		n.taken = true
		k.used = append(k.used, n)
	}
}

// probed handles a probe of the host with the LID from, unless the host has sent too many in the
// present second.
func (k *intake) probed(from uint32, p *port, a *vnic.Arrival) {
	if k.probes.take(k.now, from, math.MaxInt, probesMax) {
		k.agent.probe(p, a)
	}
}

func (k *intake) flush() {
	for _, n := range k.used {
		n.joiner.Flush()
		n.taken = false
	}
	k.used = k.used[:0]
}

// set replaces a port's tables.
func (k *intake) set(n *inlet, t *vnic.Tables, up bool) {
	k.host.SetTables(n.in, t)
	n.in.Down = !up
	k.ports[n.in] = n
}

// receiver is a thread that receives datagrams.
type receiver struct {
	mu sync.Mutex // guards the fields below, except link.Wake
	intake
	link *endpoint
	lids map[fabric.Addr]uint32
	twin *sender // the sender of the same queue
	out  [pollBatch]fabric.Completion
	bufs []fabric.Buf
	stop bool

	sizes hostRate // of size probes, and of answers to them
}

func newReceiver(a *Agent, link *endpoint) (*receiver, error) {
	r := &receiver{link: link}
	r.init(a)
	for b := range fabric.Buf(link.arena.Len()) {
		r.bufs = append(r.bufs, b)
	}
	n, err := link.ep.Recv(r.bufs)
	if n == 0 {
		return nil, err
	}
	r.bufs = r.bufs[:0]
	return r, nil
}

// run receives datagrams until the receiver is told to stop. run returns an error if the fabric
// fails.
func (r *receiver) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waiter, waits := r.link.dom.(fabric.Waiter)
	if !waits {
		return fabric.ErrNotSupported
	}
	idle := newIdling()
	for {
		n, stop, err := r.pass()
		if stop || err != nil {
			return err
		}
		if n > 0 && !idle.dense {
			r.twin.turn()
		}
		if idle.over(n) {
			if err := waiter.Wait(-1); err != nil {
				return err
			}
		}
	}
}

// pass receives one batch of datagrams.
func (r *receiver) pass() (n int, stop bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop {
		return 0, true, nil
	}
	if p := r.agent.peers.Load(); p != r.link.seen {
		r.learn(p)
	}
	n, err = r.link.ep.Poll(r.out[:])
	if n > 0 {
		r.now = clock()
	}
	for i := range r.out[:n] {
		c := &r.out[i]
		if c.Op != fabric.OpRecv {
			continue
		}
		r.bufs = append(r.bufs, c.Buf)
		mem := r.link.arena.Bytes(c.Buf)
		if c.Errno != 0 || int(c.Len) > len(mem) {
			r.host.Strangers.DropRx(vnic.RxMalformed)
			continue
		}
		if c.Len == vnic.ProofBytes && r.agent.challenged(mem[:c.Len]) {
			continue
		}
		from := r.lids[c.From]
		if kind, number, ok := vnic.ParseSizeProbe(mem[:c.Len]); ok && from != 0 {
			r.sizeProbed(sizeProbe{from, kind, number})
			continue
		}
		r.packet(from, mem[:c.Len])
	}
	r.flush()
	if len(r.bufs) > 0 {
		took, _ := r.link.ep.Recv(r.bufs) // buffers not taken now follow with the next batch
		r.bufs = r.bufs[:copy(r.bufs, r.bufs[took:])]
	}
	return n, false, err
}

// sizeProbed passes a size probe to the control thread, unless its host has sent too many in the
// present second.
func (r *receiver) sizeProbed(p sizeProbe) {
	if r.sizes.take(r.now, p.from, math.MaxInt, probesMax) {
		r.agent.sizeProbed(p)
	}
}

// learn replaces the known addresses of the senders of other hosts.
func (r *receiver) learn(p *peers) {
	byEntry := r.link.insert(p, func(e *vnic.LIDEntry, add func([]byte)) {
		for _, n := range e.Ways.Send {
			add(n)
		}
	})
	r.lids = make(map[fabric.Addr]uint32)
	for i, addrs := range byEntry {
		for _, a := range addrs {
			if other, taken := r.lids[a]; taken && other != p.lids[i].LID {
				r.lids[a] = 0 // claimed by two hosts, so neither host gets it
				continue
			}
			r.lids[a] = p.lids[i].LID
		}
	}
}

// end tells the receiver to stop.
func (r *receiver) end() {
	r.mu.Lock()
	r.stop = true
	r.mu.Unlock()
	if w, ok := r.link.dom.(fabric.Waiter); ok {
		w.Wake()
	}
}
