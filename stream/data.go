package stream

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"gobtl/fabric"
)

// dataPort is the endpoints of the unreliable mode: one of this port's own, and one for each
// multicast group that a receiver listens to.
type dataPort struct {
	dom   fabric.Domain
	arena fabric.Arena
	main  *dataEndpoint
	all   []*dataEndpoint
	free  []fabric.Buf // for receiving, not posted
	txBuf []fabric.Buf // for sending, free
	// Of the buffers for sending: what they carry, and why they are not free.
	owner []sentFrom
	holds []uint16
	drops dropCount
}

// dataEndpoint is an endpoint, and what was polled there and not taken yet.
type dataEndpoint struct {
	ep     fabric.Endpoint
	caps   fabric.Caps
	lander fabric.Lander
	group  string
	users  int // receivers, of a group's endpoint
	out    [pollBatch]fabric.Completion
	at, n  int    // the next of out, and their number
	landed []byte // where what is polled may have landed
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

// endpointConfig asks for as much kernel buffer as there may be: what it cannot hold is lost.
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

// refill posts the buffers that were taken back.
func (de *dataEndpoint) refill() error {
	n, err := de.ep.Recv(de.repost)
	de.repost = append(de.repost[:0], de.repost[n:]...)
	if errors.Is(err, fabric.ErrAgain) {
		return nil
	}
	return err
}

// poll takes in what has arrived and returns how many datagrams that were. What a receiver has no
// room for and may not drop stays, and keeps all that is behind it in the kernel.
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

// waiting says whether something was polled that could not be taken.
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

// dropCount adds up counters of 32 bits that wrap, as the kernel's are, each time one is looked at.
type dropCount struct{ last, total uint64 }

// look takes the counter's value, or the sum of several of which at most one has wrapped since.
func (c *dropCount) look(value uint64) uint64 {
	more := value - c.last
	if value < c.last {
		more = uint64(uint32(more))
	}
	c.last = value
	c.total += more
	return c.total
}

// dropped is how many datagrams the kernel has dropped at the sockets since the port was opened.
func (d *dataPort) dropped() uint64 { return d.drops.look(d.socketDrops()) }

// socketDrops is what the kernel tells to have dropped at the sockets.
func (d *dataPort) socketDrops() uint64 {
	for _, a := range d.dom.Info().Attrs {
		if strings.HasPrefix(a.Name, "datagrams lost to a full") {
			n, _ := strconv.ParseUint(a.Value, 10, 64) // what is no number is no count
			return n
		}
	}
	return 0
}

// rescue puts what landed in a wrong place back behind the rest of its datagram, before anything
// can be written there, and tells the rest by Landed 0.
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

// inPlace says whether the payload of a datagram stands where it belongs.
func (e *Engine) inPlace(buf []byte, c *fabric.Completion, landed []byte) bool {
	h, ok := parseHeader(buf)
	if !ok || int(c.Len) != headerBytes+len(landed) {
		return false
	}
	r := e.receiverOfKey(h.key)
	return r != nil && r.asm.isPlace(h, landed)
}

// datagram takes in one datagram and returns false if it has to wait.
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

// foreign counts what belongs to no stream: for the receiver, if there is only one.
func (e *Engine) foreign(r *Receiver) {
	if r == nil && len(e.receiving) == 1 {
		r = e.receiving[0]
	}
	if r != nil && r.asm != nil {
		r.asm.track.foreign++
	}
}

// dataInfo is the network of the data endpoint: that of the module, but another port.
func dataInfo(info fabric.Info) fabric.Info {
	if host, _, err := net.SplitHostPort(info.Node); err == nil {
		info.Node = host
	}
	return info
}
