package layers

import (
	"errors"
	"fmt"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
	"gobtl/internal/mono"
)

const (
	// rawTxBuffers and rawRxBuffers are the largest numbers of buffers of a bare endpoint. There
	// are many receive buffers, because a provider without a socket holds only as many datagrams as
	// it has posted receives.
	rawTxBuffers = 256
	rawRxBuffers = 4096
	// rawRxBytes is the largest total size of the receive buffers.
	rawRxBytes = 64 << 20
	// rawBatch is the number of sends or completions in one call.
	rawBatch = 128
	// rawBatchBytes is the largest number of bytes in one call, so that the buffers stay in the
	// cache.
	rawBatchBytes = 256 << 10
	// rawFlightMax is the largest number of datagrams on the way to a peer. A peer can offer any
	// number as its capacity.
	rawFlightMax = 1 << 14
	// rawStartTime is the time that a client has before the first datagram of a round, in addition to
	// its time-outs. In that time the other streams of the client prepare the round.
	rawStartTime = time.Second
)

// rawPort is an endpoint of the bare fabric, with which the transport is compared. rawPort handles
// loss only so far that it does not hang.
type rawPort struct {
	dom   fabric.Domain
	ep    fabric.Endpoint
	arena fabric.Arena
	caps  fabric.Caps
	mtu   int
	// The field server says that the peer speaks first.
	server bool

	r            *Round // the one that runs
	peer         fabric.Addr
	peerCapacity int
	key          uint64   // of both sides' control datagrams; no third party knows it
	heard        uint64   // datagrams that the round has received
	dog          watchdog // of heard, at the server

	free  []fabric.Buf        // send buffers that may be written
	out   []fabric.Completion // scratch of Poll
	spare []fabric.Completion // the same, for pollSends
	// pending holds datagrams that pollSends has received.
	pending []fabric.Completion
	sends   []fabric.Send // scratch of Post
	repost  []fabric.Buf  // scratch of Recv

	// background keeps the connection of the other layer alive while this layer is measured, and is
	// called about every millisecond from the hot loops.
	background func()
	passes     uint
	waiter     waiter
}

var _ Layer = (*rawPort)(nil)

// openRaw opens an endpoint of the bare fabric, with datagrams of at most cfg.MTUBytes, where 0
// means the provider's MTU.
func openRaw(open openDomainFunc, info *fabric.Info, cfg *Config) (_ *rawPort, err error) {
	depth := func(offered, most int) int {
		if offered > 0 {
			return min(offered, most)
		}
		return most
	}
	tx, rx := depth(info.TxDepth, rawTxBuffers), depth(info.RxDepth, rawRxBuffers)
	bufferBytes := info.MTUBytes
	if cfg.MTUBytes > 0 {
		bufferBytes = min(bufferBytes, cfg.MTUBytes)
	}
	if err := checkRawMTU(bufferBytes); err != nil {
		return nil, err
	}
	rx = min(rx, max(64, rawRxBytes/bufferBytes))
	dom, err := open(fabric.DomainConfig{Buffers: tx + rx, BufferBytes: bufferBytes})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dom.Close())
		}
	}()
	ep, err := dom.OpenEndpoint(fabric.EndpointConfig{TxDepth: tx, RxDepth: rx})
	if err != nil {
		return nil, err
	}
	p := &rawPort{
		dom: dom, ep: ep, arena: dom.Arena(), caps: ep.Caps(), server: cfg.Server,
		free:   bufRange(0, tx),
		out:    make([]fabric.Completion, rawBatch),
		spare:  make([]fabric.Completion, rawBatch),
		sends:  make([]fabric.Send, rawBatch),
		repost: make([]fabric.Buf, 0, rawBatch),
		waiter: newWaiter(cfg.wait(), sleepOn(dom)),
	}
	p.mtu = min(p.caps.MTUBytes, p.arena.Size(), bufferBytes)
	if err := checkRawMTU(p.mtu); err != nil {
		return nil, err
	}
	if n, err := ep.Recv(bufRange(tx, rx)); err != nil {
		return nil, fmt.Errorf("posting receive %d of %d: %w", n, rx, err)
	}
	return p, nil
}

// checkRawMTU returns an error if a datagram has no room for two lengths, of data and of control.
func checkRawMTU(mtuBytes int) error {
	if mtuBytes < rawBytesMin {
		return fmt.Errorf("MTU of %d bytes is too small to measure with", mtuBytes)
	}
	return nil
}

func (p *rawPort) offer() Offer {
	return Offer{
		Layer: plan.LayerRaw, Name: p.ep.Name(), RecvCapacity: p.caps.RecvCapacity, MTUBytes: p.mtu,
		MessageBytesMax: plan.SizeBytesMax,
	}
}

// connect takes the peer's offer. The peer may have offered the address of a third party, and
// therefore connect waits for the proof that the peer receives there.
func (p *rawPort) connect(peer Offer, timeout time.Duration) (err error) {
	if p.peer, err = p.dom.Insert(peer.Name); err != nil {
		return err
	}
	p.peerCapacity = min(max(1, peer.RecvCapacity), rawFlightMax)
	p.mtu = min(p.mtu, peer.MTUBytes)
	if err := checkRawMTU(p.mtu); err != nil {
		return err
	}
	return p.meet(timeout)
}

// Memory implements Layer: the messages of all rounds have the same buffers.
func (p *rawPort) Memory(*Round) int64 { return 0 }

// Prepare removes the datagrams of an earlier round from the endpoint.
func (p *rawPort) Prepare(r *Round) (uint64, error) {
	p.r, p.heard, p.dog = r, 0, watchdog{since: clock()}
	for {
		n, err := p.poll(p.out)
		if err != nil || n == 0 {
			return 0, err
		}
		for i := range p.out[:n] {
			p.repost = append(p.repost, p.out[i].Buf)
		}
		if err := p.returnReceives(); err != nil {
			return 0, err
		}
	}
}

func (p *rawPort) Client(r *Round) error {
	if r.Test == plan.TestLat {
		return p.latClient(r)
	}
	return p.streamClient(r)
}

func (p *rawPort) Server(r *Round) error {
	if r.Test == plan.TestLat {
		return p.latServer(r)
	}
	return p.streamServer(r)
}

func (p *rawPort) Counters() Counters { return Counters{} }

func (p *rawPort) State() State {
	return State{Fabric: newAttrRecords(p.dom.Info().Attrs)}
}

func (p *rawPort) facts() Facts {
	return Facts{
		MTUBytes: p.mtu, InjectBytes: p.caps.InjectBytes, RecvCapacity: p.caps.RecvCapacity,
		RecvBufferBytes: p.caps.RecvBufferBytes,
	}
}

func (p *rawPort) close() error { return p.dom.Close() }

// poll returns received datagrams, at most len(out), and frees the buffers of completed sends. The
// result of poll may be smaller than the number of completions, and 0 means that no datagram was
// received.
func (p *rawPort) poll(out []fabric.Completion) (received int, err error) {
	if len(p.pending) > 0 {
		received = copy(out, p.pending)
		p.pending = append(p.pending[:0], p.pending[received:]...)
		return received, nil
	}
	n, err := p.ep.Poll(out)
	for i := range out[:n] {
		if out[i].Op == fabric.OpSend {
			p.free = append(p.free, out[i].Buf)
			continue
		}
		out[received] = out[i]
		received++
	}
	return received, err
}

// send posts one datagram of size bytes from buf, and waits until that is possible. If the send is
// not complete at once, poll frees its buffer later.
func (p *rawPort) send(buf fabric.Buf, size int) error {
	p.sends[0] = fabric.Send{To: p.peer, Buf: buf, Len: uint32(size)}
	for {
		_, err := p.ep.Post(p.sends[:1])
		if err == nil {
			if size <= p.caps.InjectBytes {
				p.free = append(p.free, buf)
			}
			return nil
		}
		if !errors.Is(err, fabric.ErrAgain) {
			return err
		}
		if err := p.pollSends(); err != nil {
			return err
		}
	}
}

// checkHalted ends the wait for a completion that never comes.
func (p *rawPort) checkHalted() error {
	if p.r.Halted.Load() {
		return ErrHalted
	}
	return nil
}

// pollSends polls for completed sends when there is no room for another send. Received datagrams
// are stored in p.pending for the next poll.
func (p *rawPort) pollSends() error {
	n, err := p.ep.Poll(p.spare)
	for i := range p.spare[:n] {
		if c := &p.spare[i]; c.Op == fabric.OpSend {
			p.free = append(p.free, c.Buf)
		} else {
			p.pending = append(p.pending, *c)
		}
	}
	return errors.Join(err, p.checkHalted())
}

// takeFree returns an unused send buffer.
func (p *rawPort) takeFree() (fabric.Buf, error) {
	for len(p.free) == 0 {
		if err := p.pollSends(); err != nil {
			return 0, err
		}
	}
	buf := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return buf, nil
}

// returnReceives posts the buffers in p.repost again.
func (p *rawPort) returnReceives() error {
	if len(p.repost) == 0 {
		return nil
	}
	_, err := p.ep.Recv(p.repost)
	p.repost = p.repost[:0]
	return err
}

// lookAround is called by the hot loops once per poll, and calls background from time to time.
func (p *rawPort) lookAround() {
	if p.passes++; p.passes%4096 == 0 && p.background != nil {
		p.background()
	}
}

// checkClient ends the round of a server whose client sends no datagram.
func (p *rawPort) checkClient(now mono.Time) error {
	if p.dog.stuck(p.heard, now, 2*time.Duration(p.r.PeerTimeoutNs)+
		time.Duration(p.r.GapNs)+rawStartTime) {
		return errSilent
	}
	return nil
}

// deadlineFrom returns the time at which a peer that sends nothing from now on counts as dead.
func (r *Round) deadlineFrom(now mono.Time) mono.Time {
	return now.Add(time.Duration(r.PeerTimeoutNs))
}
