package layers

import (
	"errors"
	"fmt"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

const (
	// rawTxBuffers and rawRxBuffers bound the buffers of a bare endpoint. A provider without a socket
	// holds no more datagrams than it has receives posted, so those are many.
	rawTxBuffers = 256
	rawRxBuffers = 4096
	// rawRxBytes bounds the memory of the receive buffers, where datagrams are large.
	rawRxBytes = 64 << 20
	// rawBatch is how many sends and completions move in one call: a few of the runs that a provider
	// makes of them.
	rawBatch = 128
	// rawBatchBytes bounds what one call sends, so that the buffers, which are used again for the next
	// batch where the provider copies them, stay in the cache.
	rawBatchBytes = 256 << 10
)

// rawPort is a bare fabric endpoint: the yardstick for the transport. Its code is as short as the
// fabric's interface allows. It handles loss only so far that it does not hang.
type rawPort struct {
	dom   fabric.Domain
	ep    fabric.Endpoint
	arena fabric.Arena
	caps  fabric.Caps
	mtu   int

	r            *Round // the one that runs
	peer         fabric.Addr
	peerCapacity int

	free  []fabric.Buf        // send buffers that may be written
	out   []fabric.Completion // scratch of Poll
	spare []fabric.Completion // the same, for pollSends
	// pending was received while pollSends looked for something else.
	pending []fabric.Completion
	sends   []fabric.Send // scratch of Post
	repost  []fabric.Buf  // scratch of Recv

	// background keeps the other layer's connection alive while this one is measured; called about
	// every millisecond from the hot loops.
	background func()
	passes     uint
	waiter     waiter
}

var _ Layer = (*rawPort)(nil)

// openRaw opens a bare endpoint. mtuBytes caps its datagrams; 0 is the provider's MTU.
func openRaw(open openDomainFunc, info *fabric.Info, mtuBytes int, wait waiting.Mode,
) (_ *rawPort, err error) {
	depth := func(offered, most int) int {
		if offered > 0 {
			return min(offered, most)
		}
		return most
	}
	tx, rx := depth(info.TxDepth, rawTxBuffers), depth(info.RxDepth, rawRxBuffers)
	bufferBytes := info.MTUBytes
	if mtuBytes > 0 {
		bufferBytes = min(bufferBytes, mtuBytes)
	}
	if bufferBytes < rawControlBytes+8 {
		return nil, fmt.Errorf("MTU of %d bytes is too small to measure with", bufferBytes)
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
		dom: dom, ep: ep, arena: dom.Arena(), caps: ep.Caps(),
		free:   bufRange(0, tx),
		out:    make([]fabric.Completion, rawBatch),
		spare:  make([]fabric.Completion, rawBatch),
		sends:  make([]fabric.Send, rawBatch),
		repost: make([]fabric.Buf, 0, rawBatch),
		waiter: newWaiter(wait, sleepOn(dom)),
	}
	p.mtu = min(p.caps.MTUBytes, p.arena.Size(), bufferBytes)
	if p.mtu < rawControlBytes+8 {
		return nil, fmt.Errorf("MTU of %d bytes is too small to measure with", p.mtu)
	}
	if n, err := ep.Recv(bufRange(tx, rx)); err != nil {
		return nil, fmt.Errorf("posting receive %d of %d: %w", n, rx, err)
	}
	return p, nil
}

func (p *rawPort) offer() Offer {
	return Offer{
		Layer: plan.LayerRaw, Name: p.ep.Name(), RecvCapacity: p.caps.RecvCapacity, MTUBytes: p.mtu,
		MessageBytesMax: plan.SizeBytesMax,
	}
}

func (p *rawPort) connect(peer Offer, _ time.Duration) (err error) {
	p.peer, err = p.dom.Insert(peer.Name)
	p.peerCapacity = max(1, peer.RecvCapacity)
	p.mtu = min(p.mtu, peer.MTUBytes)
	return err
}

// Prepare removes the datagrams of an earlier round from the endpoint.
func (p *rawPort) Prepare(r *Round) (uint64, error) {
	p.r = r
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

// poll fetches what was received, at most len(out), and takes the buffers of finished sends back.
// The result may be smaller than the number of completions; 0 means that there was none.
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

// send posts one datagram of size bytes from buf, waiting for room. A buffer that is not complete
// at once comes back through poll.
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

// pollSends looks for finished sends when there is no room for another one. Received datagrams wait
// in p.pending for the next poll.
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

// takeFree returns a send buffer that may be written.
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

// lookAround is called by the hot loops once per pass: rarely, it serves the other layer.
func (p *rawPort) lookAround() {
	if p.passes++; p.passes%4096 == 0 && p.background != nil {
		p.background()
	}
}

// deadlineFrom returns when a peer that sends nothing from now on counts as dead.
func (r *Round) deadlineFrom(now mono.Time) mono.Time {
	return now.Add(time.Duration(r.PeerTimeoutNs))
}
