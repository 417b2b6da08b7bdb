//go:build linux

package agent

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/vnic"
	"gobtl/vnic/offload"
)

const (
	sendBuffers = 1024
	readBatch   = 64  // frames of a device in one turn
	postBatch   = 256 // packets sent in one batch
	// While the send queue is full, a sender tries to send its batch every postPause, and drops the
	// batch after postTries tries.
	postTries = 50
	postPause = 100 * time.Microsecond
	// frameRoom is the size in bytes of the buffer for one frame from a device.
	frameRoom = 1<<16 + 256
)

// outlet is the part of a port that one sending thread owns.
type outlet struct {
	port  *port
	out   *vnic.Egress
	queue frameQueue // nil while it cannot be read
	// failures counts the failed reads in succession.
	failures int
	// mtuBytes is the size in bytes of the largest packet that the path is known to carry.
	mtuBytes int
}

// sender is a thread that reads frames from one queue of each device, and sends them.
type sender struct {
	injectMu sync.Mutex // guards the field inject
	inject   []injected

	mu    sync.Mutex // guards the fields below
	agent *Agent
	link  *endpoint
	// byLID holds the addresses of the endpoints of each host, by LID. All packets of a flow go to the
	// same address of a host.
	byLID   map[uint32][]fabric.Addr
	outlets []*outlet
	stop    bool
	// If the field full is true, the send queue had no room for the batch, and the sender reads no
	// frames until the batch is sent or dropped. The field tries counts the tries to send the batch.
	full  bool
	tries int
	first int // index of the outlet that is served first
	quiet quietRoom

	bell   *bell
	splits offload.Splitter
	frame  []byte
	free   []fabric.Buf
	refs   []uint16 // pending sends of each buffer
	batch  []fabric.Send
	made   []*train  // memory for the trains of a frame; nil while a thread uses it
	owner  []*outlet // the outlet of each send in batch
	done   [pollBatch]fabric.Completion
	// The field prover is the address of the manager's endpoint for address checks, and proverName is
	// its name.
	prover     fabric.Addr
	proverName []byte
	fds        []unix.PollFd
}

// injected is a frame that the agent itself sends, as if the device had sent it.
type injected struct {
	port  *port
	frame []byte
	toOne bool // the frame must not go to all members of the switch
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
	s.quiet.agent = a
	s.quiet.backlog, _ = link.ep.(fabric.Backlogger)
	for i := range fabric.Buf(link.arena.Len()) {
		s.free = append(s.free, i)
	}
	return s, nil
}

// run reads and sends frames until the sender is told to stop. run returns an error if the fabric
// fails.
func (s *sender) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	idle := newIdling()
	for {
		n, full, stop, err := s.pass()
		switch {
		case stop || err != nil:
			return err
		case full:
			time.Sleep(postPause) // without the lock
		case idle.over(n):
			s.sleep()
		}
	}
}

// sleep waits until a device has a frame, or until another thread wakes the sender.
func (s *sender) sleep() {
	_, _ = unix.Poll(s.fds, -1) // an error such as EINTR is an early return
	if s.fds[0].Revents != 0 {
		s.bell.hush()
	}
}

// pass reads some frames of each device, and sends these frames. If the result full is true, the
// send queue has no room, and the caller must call pass again after postPause.
func (s *sender) pass() (frames int, full, stop bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop {
		return 0, false, true, nil
	}
	frames, err = s.work()
	s.fds = append(s.fds[:0], unix.PollFd{Fd: int32(s.bell.fd), Events: unix.POLLIN})
	for _, o := range s.outlets {
		if o.queue != nil {
			s.fds = append(s.fds, unix.PollFd{Fd: int32(o.queue.FD()), Events: unix.POLLIN})
		}
	}
	return frames, s.full, false, err
}

// The method turn does the work of pass on the thread of a receiver. The method turn avoids the
// time to wake the sender's thread for a reply, which a device mostly has at once after a frame was
// delivered.
func (s *sender) turn() {
	if !s.mu.TryLock() {
		return // the sender's thread is awake
	}
	defer s.mu.Unlock()
	if s.stop || s.full { // the sender's thread waits for room
		return
	}
	_, _ = s.work() // the next call reports a failed fabric
	if s.full {
		s.bell.ring()
	}
}

// work does the work of pass for a caller that holds the lock.
func (s *sender) work() (frames int, err error) {
	if err := s.reap(); err != nil {
		return 0, err
	}
	if s.full {
		if s.post(); s.full {
			return 0, nil
		}
	}
	if p := s.agent.peers.Load(); p != s.link.seen && len(s.batch) == 0 {
		s.learn(p)
	}
	s.quiet.known = false
	s.injectMu.Lock()
	inject := s.inject
	s.inject = nil // another thread may work while a frame waits
	s.injectMu.Unlock()
	for _, i := range inject {
		for _, o := range s.outlets {
			if o.port == i.port {
				s.send(o, i.frame, offload.Header{}, i.toOne)
			}
		}
		frames++
	}
	frames += s.serveAll()
	if !s.full {
		s.post()
	}
	return frames, nil
}

// serveAll reads and sends some frames of each device. If a device fills the send queue, the next
// call begins with the next device, so that a busy device does not keep the others from sending.
func (s *sender) serveAll() (frames int) {
	outlets := s.outlets // another thread may replace them while a frame waits
	for i := range outlets {
		if s.full {
			return frames
		}
		at := (s.first + i) % len(outlets)
		if frames += s.serve(outlets[at]); s.full {
			s.first = (at + 1) % len(outlets)
			return frames
		}
	}
	return frames
}

// serve reads and sends up to readBatch frames of one device. While the send queue is full, further
// frames stay in the device's queue.
func (s *sender) serve(o *outlet) (frames int) {
	for ; frames < readBatch && o.queue != nil && !s.full; frames++ {
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
		s.send(o, s.frame[:n], h, false)
	}
	return frames
}

// readFailuresMax is the number of failed reads in succession after which the control thread checks
// the device.
const readFailuresMax = 16

// The method failed handles a failed read from a device. A single failure counts as a lost frame.
// If the device is gone, or if reads fail repeatedly, the control thread checks the device.
func (s *sender) failed(o *outlet, err error) {
	o.out.Counts.DropTx(vnic.TxFIFO)
	o.failures++
	if errors.Is(err, unix.EBADFD) || o.failures >= readFailuresMax {
		s.agent.notef("port %d: reading the device: %v", o.port.num, err)
		o.queue = nil
		s.agent.later(func() { s.agent.lookAt = 0 })
	}
}

// send looks up the hosts to which a frame goes, and makes the packets of the frame. If the
// argument toOne is true, a frame that would go to all members of the switch is dropped.
func (s *sender) send(o *outlet, frame []byte, h offload.Header, toOne bool) {
	if d := o.port.dump.Load(); d != nil {
		d.capture(frame, true)
	}
	if err := s.splits.Begin(frame, h); err != nil {
		o.out.Counts.DropTx(vnic.TxLogic)
		return
	}
	var d vnic.Decision
	if toOne {
		d = o.out.ForwardToOne(clock(), frame, s.splits.Largest())
	} else {
		d = o.out.ForwardLarge(clock(), frame, s.splits.Largest(), s.splits.Count())
	}
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
	n, longest, last := s.splits.Count(), s.splits.Largest(), s.splits.Last()
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
	if n > 1 {
		o.out.Counts.CountTx(&d.Info, longest, n-1)
	}
	o.out.Counts.CountTx(&d.Info, last, 1)
}

// The method packet writes packet i of the frame that is split.
func (s *sender) packet(dst []byte, h *vnic.Header, i int) []byte {
	n := s.splits.Write(dst[vnic.HeaderBytes:], i)
	if n < vnic.FrameBytesMin {
		clear(dst[vnic.HeaderBytes+n : vnic.HeaderBytes+vnic.FrameBytesMin])
		n = vnic.FrameBytesMin
	}
	return h.Seal(dst, n)
}

// datagrams queues the packets of a frame. A packet to several hosts uses one buffer.
func (s *sender) datagrams(o *outlet, t *vnic.Tables, d *vnic.Decision) {
	count := s.splits.Count()
	if !s.full && (len(s.batch)+count*max(len(t.Members), 1) > postBatch || len(s.free) < count) {
		s.post()
		_ = s.reap() // the next call reports a failed fabric
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
	cost := 0
	for i, b := range bufs {
		lens[i] = uint32(len(s.packet(s.link.arena.Bytes(b), &d.Header, i)))
		cost += kernelBytes(int(lens[i]))
	}
	to := func(lid uint32) {
		addrs := s.byLID[lid]
		switch {
		case len(addrs) == 0:
			o.out.Counts.DropTx(vnic.TxNoPeer)
			return
		case !s.quiet.admits(lid, cost):
			o.out.Counts.DropTx(vnic.TxFIFO)
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

// partsMax is the maximum number of packets of one frame. A large frame of the kernel has at most
// 64 KiB, and many packets only if its segments are small.
const partsMax = 768

// post sends the batch of packets. If the send queue is full, the rest of the batch waits for the
// next call, and the last of postTries calls drops it. post does not wait for room, because other
// threads need the lock.
func (s *sender) post() {
	if len(s.batch) == 0 {
		return
	}
	sends := s.batch
	done := s.link.post(sends, func(i int, err error) { s.lost(s.owner[i], sends[i], err) })
	if done < len(sends) {
		if s.tries++; s.tries == 1 {
			s.stick()
		}
	}
	if s.tries == postTries {
		for ; done < len(sends); done++ {
			s.lost(s.owner[done], sends[done], fabric.ErrAgain)
		}
	}
	for _, f := range sends[:done] {
		if int(f.Len) <= s.link.caps.InjectBytes {
			s.release(f.Buf)
		}
	}
	s.batch = sends[:copy(sends, sends[done:])]
	s.owner = s.owner[:copy(s.owner, s.owner[done:])]
	if s.full = len(s.batch) > 0; !s.full {
		s.tries = 0
	}
	s.quiet.known = false
}

// The method lost counts a packet that could not be sent. If the operating system refuses the
// packet as too large, the agent probes the paths again.
func (s *sender) lost(o *outlet, f fabric.Send, err error) {
	if int(f.Len) > s.link.caps.InjectBytes { // no completion will come
		s.release(f.Buf)
	}
	if !errors.Is(err, syscall.EMSGSIZE) {
		o.out.Counts.DropTx(vnic.TxFIFO)
		return
	}
	o.out.Counts.DropTx(vnic.TxOversize)
	s.agent.doubt()
}

func (s *sender) release(b fabric.Buf) {
	if s.refs[b]--; s.refs[b] == 0 {
		s.free = append(s.free, b)
	}
}

// reap polls for completions of sends, if the fabric makes completions.
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

// learn replaces the known addresses of the receivers of other hosts.
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

// end tells the sender to stop.
func (s *sender) end() {
	s.mu.Lock()
	s.stop = true
	s.mu.Unlock()
	s.bell.ring()
}
