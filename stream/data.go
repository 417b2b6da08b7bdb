package stream

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"gobtl/fabric"
)

// dataPort holds the endpoints of the unreliable mode: one for the port itself, and one for each
// multicast group that a receiver listens to.
type dataPort struct {
	dom   fabric.Domain
	arena fabric.Arena
	main  *dataEndpoint
	all   []*dataEndpoint
	free  []fabric.Buf // receive buffers that are not posted
	txBuf []fabric.Buf // free send buffers
	// For each send buffer: the source of its bytes, and its references.
	owner []sentFrom
	holds []uint16
	drops dropCount
}

// dataEndpoint is an endpoint with the polled datagrams that were not processed yet.
type dataEndpoint struct {
	ep     fabric.Endpoint
	caps   fabric.Caps
	lander fabric.Lander
	group  string
	users  int // number of receivers at a group's endpoint
	out    [pollBatch]fabric.Completion
	at, n  int    // the next of out, and their number
	landed []byte // memory in which polled payload may have landed
	bufs   []fabric.Buf
	repost []fabric.Buf
}

const (
	pollBatch = 128
	txBuffers = 256
	rxBuffers = 1024 // of each endpoint
	groupsMax = 4
)

// DataConfig sizes the domain of the unreliable mode.
func DataConfig(info fabric.Info) fabric.DomainConfig {
	return fabric.DomainConfig{
		Buffers: txBuffers + (1+groupsMax)*rxBuffers, BufferBytes: info.MTUBytes,
	}
}

func newDataPort(dom fabric.Domain) (*dataPort, error) {
	d := &dataPort{
		dom: dom, arena: dom.Arena(), owner: make([]sentFrom, txBuffers),
		holds: make([]uint16, txBuffers),
	}
	if n := d.arena.Len(); n < txBuffers+rxBuffers {
		return nil, fmt.Errorf("%w: the domain has %d buffers, needs %d", ErrConfig, n,
			txBuffers+rxBuffers)
	}
	for b := range d.arena.Len() {
		if b < txBuffers {
			d.txBuf = append(d.txBuf, fabric.Buf(b))
		} else {
			d.free = append(d.free, fabric.Buf(b))
		}
	}
	ep, err := dom.OpenEndpoint(endpointConfig)
	if err != nil {
		return nil, err
	}
	d.main, err = d.add(ep, "")
	return d, err
}

// endpointConfig asks for the largest possible kernel buffer, because datagrams that it cannot hold
// are lost.
var endpointConfig = fabric.EndpointConfig{
	RxDepth: rxBuffers, RecvBufferBytes: 64 << 20, PathSize: true,
}

// add posts receives to a new endpoint.
func (d *dataPort) add(ep fabric.Endpoint, group string) (*dataEndpoint, error) {
	de := &dataEndpoint{ep: ep, caps: ep.Caps(), group: group}
	if l, ok := ep.(fabric.Lander); ok && de.caps.Landing {
		de.lander = l
	}
	n := min(rxBuffers, de.caps.RxDepth, len(d.free))
	rest := len(d.free) - n
	de.bufs = append([]fabric.Buf(nil), d.free[rest:]...)
	de.repost = append(make([]fabric.Buf, 0, rxBuffers), de.bufs...)
	d.free = d.free[:rest]
	d.all = append(d.all, de)
	return de, de.refill()
}

// refill posts the returned buffers.
func (de *dataEndpoint) refill() error {
	n, err := de.ep.Recv(de.repost)
	de.repost = append(de.repost[:0], de.repost[n:]...)
	if errors.Is(err, fabric.ErrAgain) {
		return nil
	}
	return err
}

// poll processes the arrived datagrams and returns their number. A datagram for which a receiver
// has no room, and which it may not drop, stays queued. It keeps all later datagrams in the kernel.
func (d *dataPort) poll(e *Engine) (int, error) {
	total := 0
	for i := 0; i < len(d.all); i++ {
		de := d.all[i]
		if de.at == de.n {
			de.land(e.latest)
			n, err := de.ep.Poll(de.out[:])
			if err != nil {
				return total, err
			}
			de.at, de.n = 0, n
			d.rescue(e, de)
		}
		for ; de.at < de.n; de.at++ {
			c := &de.out[de.at]
			if c.Op == fabric.OpSend {
				d.completed(c.Buf)
				continue
			}
			if !e.datagram(de, c, d.arena.Bytes(c.Buf)) {
				break
			}
			total++
			de.repost = append(de.repost, c.Buf)
		}
		if len(de.repost) > 0 {
			if err := de.refill(); err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// waiting reports whether a polled datagram could not be processed yet.
func (d *dataPort) waiting() bool {
	for _, de := range d.all {
		if de.at < de.n {
			return true
		}
	}
	return false
}

// join listens to a multicast group.
func (d *dataPort) join(group string) (*dataEndpoint, error) {
	for _, de := range d.all {
		if de.group == group {
			de.users++
			return de, nil
		}
	}
	g, ok := d.dom.(fabric.Grouper)
	if !ok {
		return nil, fmt.Errorf("%w: the provider has no multicast", fabric.ErrNotSupported)
	}
	if len(d.all) > groupsMax {
		return nil, fmt.Errorf("%w: more than %d groups", ErrConfig, groupsMax)
	}
	ep, err := g.OpenGroup(group, endpointConfig)
	if err != nil {
		return nil, err
	}
	de, err := d.add(ep, group)
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	de.users = 1
	return de, nil
}

// leave undoes a join.
func (d *dataPort) leave(de *dataEndpoint) {
	if de == nil {
		return
	}
	if de.users--; de.users > 0 {
		return
	}
	_ = de.ep.Close()
	d.free = append(d.free, de.bufs...)
	for i, other := range d.all {
		if other == de {
			d.all = append(d.all[:i], d.all[i+1:]...)
			break
		}
	}
}

// dropCount accumulates a wrapping 32-bit counter, such as the kernel's, at each reading.
type dropCount struct{ last, total uint64 }

// look records a reading of the counter, or of the sum of several counters of which at most one has
// wrapped since the last reading.
func (c *dropCount) look(value uint64) uint64 {
	more := value - c.last
	if value < c.last {
		more = uint64(uint32(more))
	}
	c.last = value
	c.total += more
	return c.total
}

// dropped returns the number of packets that the kernel has dropped at the sockets since the port
// was opened.
func (d *dataPort) dropped() uint64 { return d.drops.look(d.socketDrops()) }

// socketDrops returns the kernel's counts of drops at the sockets.
func (d *dataPort) socketDrops() uint64 {
	for _, a := range d.dom.Info().Attrs {
		if a.Name == fabric.OverrunsAttr {
			n, _ := strconv.ParseUint(a.Value, 10, 64) // ignore a value that is no number
			return n
		}
	}
	return 0
}

// rescue moves payload that has landed in a wrong place back behind the header of its datagram,
// before the place can be overwritten. It sets Landed to 0, so that later code finds the payload
// there.
func (d *dataPort) rescue(e *Engine, de *dataEndpoint) {
	for i := de.at; i < de.n; i++ {
		c := &de.out[i]
		if c.Landed == 0 {
			continue
		}
		buf := d.arena.Bytes(c.Buf)
		landed := de.landed[c.LandedOff:][:c.Landed]
		if e.inPlace(buf, c, landed) {
			continue
		}
		copy(buf[headerBytes:], landed)
		c.Landed = 0
	}
}

// inPlace reports whether the payload of a datagram is in its final place.
func (e *Engine) inPlace(buf []byte, c *fabric.Completion, landed []byte) bool {
	h, ok := parseHeader(buf)
	if !ok || int(c.Len) != headerBytes+len(landed) {
		return false
	}
	r := e.receiverOfKey(h.key)
	return r != nil && r.asm.isPlace(h, landed)
}

// datagram processes one datagram, and returns false if the datagram has to wait.
func (e *Engine) datagram(_ *dataEndpoint, c *fabric.Completion, buf []byte) bool {
	h, ok := parseHeader(buf)
	if h.datagram == probeDatagram && ok && c.Errno == 0 {
		e.onProbe(h)
		return true
	}
	r := e.receiverOfKey(h.key)
	if c.Errno != 0 || !ok || int(c.Len) > len(buf) || r == nil {
		e.foreign(r)
		return true
	}
	return r.datagram(h, buf[headerBytes:c.Len], c.Landed > 0)
}

// foreign counts a datagram that belongs to no stream. It is counted for the receiver if there is
// only one.
func (e *Engine) foreign(r *Receiver) {
	if r == nil && len(e.receiving) == 1 {
		r = e.receiving[0]
	}
	if r != nil && r.asm != nil {
		r.asm.track.foreign++
	}
}

// dataInfo returns the network of the data endpoint: the same as the module's, with another port.
func dataInfo(info fabric.Info) fabric.Info {
	if host, _, err := net.SplitHostPort(info.Node); err == nil {
		info.Node = host
	}
	return info
}
