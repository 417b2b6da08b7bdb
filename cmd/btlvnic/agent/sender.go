//go:build linux

package agent

import (
	"errors"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/vnic"
	"gobtl/vnic/offload"
)

const (
	sendBuffers = 1024
	readBatch   = 64  // frames of a device before the others' turn
	postBatch   = 256 // packets that leave together
	// frameRoom is the size of the buffer for one read from a device.
	frameRoom = 1<<16 + 256
)

// outlet is a port as one sending thread sees it.
type outlet struct {
	port  *port
	out   *vnic.Egress
	queue frameQueue // nil while it cannot be read
	// failures are the reads that failed since the last that did not.
	failures int
	// mtuBytes is the largest packet that the path of datagrams is known to carry.
	mtuBytes int
}

// sender is a thread that reads one queue of each device and sends.
type sender struct {
	mu    sync.Mutex // of what follows
	agent *Agent
	link  *endpoint
	// byLID are the addresses of a host's endpoints: a flow keeps to one.
	byLID   map[uint32][]fabric.Addr
	outlets []*outlet
	inject  []injected
	stop    bool

	bell   *bell
	splits offload.Splitter
	frame  []byte
	free   []fabric.Buf
	refs   []uint16 // sends that a buffer waits for
	batch  []fabric.Send
	owner  []*outlet // of each send in batch
	done   [pollBatch]fabric.Completion
	// prover is the manager's endpoint to which proofs go, and its name.
	prover     fabric.Addr
	proverName []byte
	fds        []unix.PollFd
}

// injected is a frame of our own, to be sent as if the device had.
type injected struct {
	port  *port
	frame []byte
}

func newSender(a *Agent, link *endpoint) (*sender, error) {
	b, err := newBell()
	if err != nil {
		return nil, err
	}
	s := &sender{
		agent: a, link: link, bell: b, frame: make([]byte, frameRoom),
		refs: make([]uint16, link.arena.Len()), byLID: make(map[uint32][]fabric.Addr),
	}
	for i := range fabric.Buf(link.arena.Len()) {
		s.free = append(s.free, i)
	}
	return s, nil
}

// run serves the devices until stop. An error is that of a broken fabric.
func (s *sender) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	idle := newIdling()
	for {
		n, stop, err := s.pass()
		if stop || err != nil {
			return err
		}
		if idle.over(n) {
			s.sleep()
		}
	}
}

// sleep waits until a device has a frame, or the bell rings.
func (s *sender) sleep() {
	_, _ = unix.Poll(s.fds, -1) // an error, such as EINTR, is an early return
	if s.fds[0].Revents != 0 {
		s.bell.hush()
	}
}

// pass reads some frames of each device and sends them.
func (s *sender) pass() (frames int, stop bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop {
		return 0, true, nil
	}
	frames, err = s.work()
	s.fds = append(s.fds[:0], unix.PollFd{Fd: int32(s.bell.fd), Events: unix.POLLIN})
	for _, o := range s.outlets {
		if o.queue != nil {
			s.fds = append(s.fds, unix.PollFd{Fd: int32(o.queue.FD()), Events: unix.POLLIN})
		}
	}
	return frames, false, err
}

// turn does a pass on a receiver's thread: what answers a frame that was just delivered is mostly
// there already, and would have to wait until this sender's thread has woken up.
func (s *sender) turn() {
	if !s.mu.TryLock() {
		return // it is awake
	}
	defer s.mu.Unlock()
	if !s.stop {
		_, _ = s.work() // a broken fabric is told by the next pass
	}
}

// work is a pass, with the lock held.
func (s *sender) work() (frames int, err error) {
	if p := s.agent.peers.Load(); p != s.link.seen {
		s.learn(p)
	}
	if err := s.reap(); err != nil {
		return 0, err
	}
	for _, i := range s.inject {
		for _, o := range s.outlets {
			if o.port == i.port {
				s.send(o, i.frame, offload.Header{})
			}
		}
		frames++
	}
	s.inject = s.inject[:0]
	for _, o := range s.outlets {
		frames += s.serve(o)
	}
	s.post()
	return frames, nil
}

// serve reads the frames of a device.
func (s *sender) serve(o *outlet) (frames int) {
	for ; frames < readBatch && o.queue != nil; frames++ {
		h, n, err := o.queue.Read(s.frame)
		switch {
		case errors.Is(err, syscall.EIO):
			return frames // the interface is down
		case err != nil:
			s.failed(o, err)
			return frames
		case n == 0:
			return frames
		}
		o.failures = 0
		s.send(o, s.frame[:n], h)
	}
	return frames
}

// readFailuresMax is how many reads may fail in a row before the control thread is to look.
const readFailuresMax = 16

// failed counts a read that failed. One is a frame lost; a device that is gone, or fails again and
// again, is left to the control thread.
func (s *sender) failed(o *outlet, err error) {
	o.out.Counts.DropTx(vnic.TxFIFO)
	o.failures++
	if errors.Is(err, unix.EBADFD) || o.failures >= readFailuresMax {
		s.agent.notef("port %d: reading the device: %v", o.port.num, err)
		o.queue = nil
		s.agent.later(func() { s.agent.lookAt = 0 })
	}
}

// send decides about a frame and makes its packets.
func (s *sender) send(o *outlet, frame []byte, h offload.Header) {
	if d := o.port.dump.Load(); d != nil {
		d.capture(frame, true)
	}
	if err := s.splits.Begin(frame, h); err != nil {
		o.out.Counts.DropTx(vnic.TxLogic)
		return
	}
	d := o.out.ForwardLarge(clock(), frame, s.splits.Largest(), s.splits.Count())
	switch d.Verdict {
	case vnic.Dropped:
		return
	case vnic.Answered:
		one := offload.Joined{Parts: [][]byte{d.Reply}, Frames: 1}
		if o.queue != nil && o.queue.Write(&one) != nil {
			o.out.Counts.DropTx(vnic.TxFIFO)
		}
		return
	case vnic.Unicast, vnic.ToGroup:
	}
	t := o.out.Tables()
	large := vnic.PacketBytes(max(s.splits.Largest(), vnic.FrameBytesMin)) > o.mtuBytes
	switch {
	case t.Options.Carrier == vnic.CarrierFragment || large && t.Options.Cut:
		s.trains(o, t, &d)
	case large:
		o.out.Counts.DropTx(vnic.TxOversize)
		return
	default:
		s.datagrams(o, t, &d)
	}
	n := s.splits.Count()
	if n > 1 {
		o.out.Counts.CountTx(&d.Info, s.splits.Largest(), n-1)
	}
	o.out.Counts.CountTx(&d.Info, s.splits.Last(), 1)
}

// packet writes packet i of the frame that is being split.
func (s *sender) packet(dst []byte, h *vnic.Header, i int) []byte {
	n := s.splits.Write(dst[vnic.HeaderBytes:], i)
	if n < vnic.FrameBytesMin {
		clear(dst[vnic.HeaderBytes+n : vnic.HeaderBytes+vnic.FrameBytesMin])
		n = vnic.FrameBytesMin
	}
	return h.Seal(dst, n)
}

// datagrams queues the packets of a frame. To several hosts goes the same buffer.
func (s *sender) datagrams(o *outlet, t *vnic.Tables, d *vnic.Decision) {
	count := s.splits.Count()
	if len(s.batch)+count*max(len(t.Members), 1) > postBatch {
		s.post()
	}
	if len(s.free) < count {
		s.post()
		_ = s.reap() // a broken fabric is told by the next pass
	}
	if len(s.free) < count {
		o.out.Counts.DropTx(vnic.TxFIFO)
		return
	}
	var lens [partsMax]uint32
	bufs := s.free[len(s.free)-min(count, partsMax):]
	if count > len(bufs) {
		o.out.Counts.DropTx(vnic.TxLogic)
		return
	}
	s.free = s.free[:len(s.free)-count]
	for i, b := range bufs {
		lens[i] = uint32(len(s.packet(s.link.arena.Bytes(b), &d.Header, i)))
	}
	to := func(lid uint32) {
		addrs := s.byLID[lid]
		if len(addrs) == 0 {
			o.out.Counts.DropTx(vnic.TxNoPeer)
			return
		}
		a := addrs[int(d.Header.Entropy)%len(addrs)]
		for i, b := range bufs {
			s.refs[b]++
			s.batch = append(s.batch, fabric.Send{To: a, Buf: b, Len: lens[i]})
			s.owner = append(s.owner, o)
		}
	}
	if d.Verdict == vnic.ToGroup {
		for _, m := range t.Members {
			if m != t.Info.EncapSLID {
				to(m)
			}
		}
	} else {
		to(d.Header.DLID)
	}
	for _, b := range bufs {
		if s.refs[b] == 0 {
			s.free = append(s.free, b)
		}
	}
}

// partsMax bounds the packets of one frame: a large one of the kernel has 64 KiB, and segments of
// 88 bytes or more when it has more than some hundreds of them.
const partsMax = 768

// post sends the batch. bufs that were complete when Post returned are free again.
func (s *sender) post() {
	if len(s.batch) == 0 {
		return
	}
	sends := s.batch
	s.link.post(sends, func(i int, err error) { s.lost(s.owner[i], sends[i], err) })
	for _, f := range sends {
		if int(f.Len) <= s.link.caps.InjectBytes {
			s.release(f.Buf)
		}
	}
	s.batch, s.owner = s.batch[:0], s.owner[:0]
}

// lost counts a packet that was not sent. A packet that was too large for the path reduces the
// port's MTU.
func (s *sender) lost(o *outlet, f fabric.Send, err error) {
	if int(f.Len) > s.link.caps.InjectBytes { // no completion will come
		s.release(f.Buf)
	}
	if !errors.Is(err, syscall.EMSGSIZE) {
		o.out.Counts.DropTx(vnic.TxFIFO)
		return
	}
	o.out.Counts.DropTx(vnic.TxOversize)
	if int(f.Len) <= o.mtuBytes {
		o.mtuBytes = plateau(int(f.Len))
		s.agent.pathShrunk(o.port, o.mtuBytes)
	}
}

func (s *sender) release(b fabric.Buf) {
	if s.refs[b]--; s.refs[b] == 0 {
		s.free = append(s.free, b)
	}
}

// reap takes the completions of sends, where the fabric makes any.
func (s *sender) reap() error {
	if s.link.caps.InjectBytes >= s.link.caps.MTUBytes {
		return nil
	}
	n, err := s.link.ep.Poll(s.done[:])
	for i := range s.done[:n] {
		if s.done[i].Op == fabric.OpSend {
			s.release(s.done[i].Buf)
		}
	}
	return err
}

// learn makes the addresses of receivers anew.
func (s *sender) learn(p *peers) {
	byEntry := s.link.insert(p, func(e *vnic.LIDEntry, add func([]byte)) {
		for _, n := range e.Ways.Receive {
			add(n)
		}
	})
	s.byLID = make(map[uint32][]fabric.Addr)
	for i, addrs := range byEntry {
		s.byLID[p.lids[i].LID] = addrs
	}
}

// end has run return.
func (s *sender) end() {
	s.mu.Lock()
	s.stop = true
	s.mu.Unlock()
	s.bell.ring()
}
