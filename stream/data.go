package stream

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"gobtl/fabric"
)

// dataPort contains the endpoints of the unreliable mode, which are the port's own endpoint, and
// one endpoint for each multicast group to which a receiver listens.
type dataPort struct {
	dom   fabric.Domain
	arena fabric.Arena
	main  *dataEndpoint
	all   []*dataEndpoint
	free  []fabric.Buf // receive buffers that are not posted
	txBuf []fabric.Buf // free send buffers
	// The element owner[b] is the source of the payload in send buffer b. The element holds[b] is the
	// number of references that the batch and incomplete sends hold to send buffer b.
	owner []sentFrom
	holds []uint16
	drops dropCount
	// If the field "reliable" is true, the fabric reports ErrAgain for the receiver whose queue is
	// full, and still accepts datagrams to other receivers.
	reliable bool
}

// dataEndpoint is a fabric endpoint, together with the datagrams that were polled from it and are
// not processed yet.
type dataEndpoint struct {
	ep     fabric.Endpoint
	caps   fabric.Caps
	lander fabric.Lander
	group  string
	users  int // number of receivers at a group's endpoint
	out    [pollBatch]fabric.Completion
	at, n  int    // index of the next completion, and number of completions
	landed []byte // memory to which the fabric may have written payload directly
	bufs   []fabric.Buf
	repost []fabric.Buf
}

const (
	pollBatch    = 128
	txBuffers    = 256
	rxBuffers    = 1024 // of the port's own endpoint
	groupBuffers = 512  // receive buffers of a multicast group's endpoint
)

// DataConfig returns the number and the size of the buffers of the domain for the unreliable mode.
func DataConfig(info fabric.Info) fabric.DomainConfig {
	return fabric.DomainConfig{
		Buffers: txBuffers + rxBuffers + groupsMax*groupBuffers, BufferBytes: info.MTUBytes,
	}
}

func newDataPort(dom fabric.Domain) (*dataPort, error) {
	d := &dataPort{
		dom: dom, arena: dom.Arena(), owner: make([]sentFrom, txBuffers),
		holds: make([]uint16, txBuffers), reliable: dom.Info().Reliable,
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
	if d.main, err = d.add(ep, ""); err != nil {
		return d, errors.Join(err, ep.Close())
	}
	return d, nil
}

// endpointConfig requests a large socket buffer, because the kernel drops datagrams when the buffer
// is full.
var endpointConfig = fabric.EndpointConfig{RxDepth: rxBuffers, RecvBufferBytes: 64 << 20}

// add posts receive buffers to a new endpoint. If add returns an error, the caller must close the
// endpoint.
func (d *dataPort) add(ep fabric.Endpoint, group string) (*dataEndpoint, error) {
	de := &dataEndpoint{ep: ep, caps: ep.Caps(), group: group}
	if l, ok := ep.(fabric.Lander); ok && de.caps.Landing {
		de.lander = l
	}
	n := min(rxBuffers, de.caps.RxDepth, len(d.free))
	if group != "" {
		n = min(n, groupBuffers)
	}
	rest := len(d.free) - n
	de.bufs = append([]fabric.Buf(nil), d.free[rest:]...)
	de.repost = append(make([]fabric.Buf, 0, rxBuffers), de.bufs...)
	d.free = d.free[:rest]
	d.all = append(d.all, de)
	if err := de.refill(); err != nil {
		d.remove(de)
		return nil, err
	}
	return de, nil
}

// remove removes a closed endpoint, or one that the caller is about to close, from the list of
// endpoints, and takes back the endpoint's receive buffers.
func (d *dataPort) remove(de *dataEndpoint) {
	d.free = append(d.free, de.bufs...)
	d.all = slices.DeleteFunc(d.all, func(other *dataEndpoint) bool { return other == de })
}

// The method "most" returns the size of the largest datagram that the port's own endpoint can
// receive.
func (d *dataPort) most() int { return min(d.main.caps.MTUBytes, d.arena.Size()) }

// The method "floor" returns the smallest datagram size that a receiver of this port accepts. The
// datagram size needs a lower limit, because the memory and the work of a receiver grow with the
// number of datagrams per message. If the port's own configuration permits only datagrams of less
// than floorBytes, the method "floor" returns the configured size.
func (d *dataPort) floor() int { return min(floorBytes, d.most()) }

// refill posts the receive buffers of processed datagrams again.
func (de *dataEndpoint) refill() error {
	n, err := de.ep.Recv(de.repost)
	de.repost = append(de.repost[:0], de.repost[n:]...)
	if errors.Is(err, fabric.ErrAgain) {
		return nil
	}
	return err
}

// poll processes the received datagrams and returns their number. If a receiver has no free region
// for a datagram and must not drop the datagram, the method "poll" processes this datagram and all
// later datagrams of the endpoint in its next call.
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
			if !de.datagram(e, c, d.arena.Bytes(c.Buf)) {
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

// The method "waiting" reports whether any polled datagram has not been processed yet.
func (d *dataPort) waiting() bool {
	for _, de := range d.all {
		if de.at < de.n {
			return true
		}
	}
	return false
}

// join opens an endpoint that listens to a multicast group. All receivers of one group use the same
// endpoint.
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
	cfg := endpointConfig
	cfg.Source = true
	ep, err := g.OpenGroup(group, cfg)
	if err != nil {
		return nil, err
	}
	if !ep.Caps().Source {
		err = fmt.Errorf("%w: the provider does not know from where datagrams come",
			fabric.ErrNotSupported)
		return nil, errors.Join(err, ep.Close())
	}
	de, err := d.add(ep, group)
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	de.users = 1
	return de, nil
}

// leave ends one receiver's use of a multicast group's endpoint, and closes the endpoint if it has
// no other receiver.
func (d *dataPort) leave(de *dataEndpoint) {
	if de == nil {
		return
	}
	if de.users--; de.users > 0 {
		return
	}
	_ = de.ep.Close()
	d.remove(de)
}

// dropCount extends a 32-bit counter that wraps around, such as a counter of the kernel, to 64
// bits.
type dropCount struct{ last, total uint64 }

// look takes a new value of the 32-bit counter, and returns the count extended to 64 bits. The
// value can be a sum of several 32-bit counters, if at most one of them has wrapped around since
// the previous call.
func (c *dropCount) look(value uint64) uint64 {
	more := value - c.last
	if value < c.last {
		more = uint64(uint32(more))
	}
	c.last = value
	c.total += more
	return c.total
}

// The method "dropped" returns the number of packets that the kernel has dropped at the port's
// sockets since the port was opened.
func (d *dataPort) dropped() uint64 { return d.drops.look(d.socketDrops()) }

// socketDrops returns the kernel's present counter of packets dropped at the sockets.
func (d *dataPort) socketDrops() uint64 {
	for _, a := range d.dom.Info().Attrs {
		if a.Name == fabric.OverrunsAttr {
			n, _ := strconv.ParseUint(a.Value, 10, 64) // 0 if the value is not a number
			return n
		}
	}
	return 0
}

// rescue finds payload that the fabric has written directly to a wrong position of the ring, and
// copies this payload into the receive buffer, after the datagram's header. rescue must run before
// the ring memory at the wrong position is overwritten. rescue sets the completion's field Landed
// to 0, which tells later code that the payload follows the header.
func (d *dataPort) rescue(e *Engine, de *dataEndpoint) {
	for i := de.at; i < de.n; i++ {
		c := &de.out[i]
		if c.Landed == 0 {
			continue
		}
		buf := d.arena.Bytes(c.Buf)
		landed := de.landed[c.LandedOff:][:c.Landed]
		if de.inPlace(e, buf, c, landed) {
			continue
		}
		copy(buf[headerBytes:], landed)
		c.Landed = 0
	}
}

// parseDatagram decodes the header of the received datagram that the completion c describes. The
// receive buffer buf begins with the datagram, and can end with bytes of earlier datagrams. If the
// result "ok" of parseDatagram is true, the datagram is valid, and its payload is
// buf[headerBytes:c.Len]. If "ok" is false, the datagram is damaged or truncated.
func parseDatagram(c *fabric.Completion, buf []byte) (h header, ok bool) {
	if c.Errno != 0 || int(c.Len) > len(buf) {
		return h, false
	}
	return parseHeader(buf[:c.Len])
}

// inPlace reports whether the fabric has written the payload of a datagram directly to its final
// position in the ring.
func (de *dataEndpoint) inPlace(
	e *Engine, buf []byte, c *fabric.Completion, landed []byte,
) bool {
	h, ok := parseDatagram(c, buf)
	if !ok || int(c.Len) != headerBytes+len(landed) {
		return false
	}
	r := de.receiverOf(e, c, h)
	return r != nil && r.asm.isPlace(h, landed)
}

// The method "datagram" processes one datagram and returns true, or returns false if the datagram
// must wait for a free region.
func (de *dataEndpoint) datagram(e *Engine, c *fabric.Completion, buf []byte) bool {
	h, ok := parseDatagram(c, buf)
	if ok && h.datagram == probeDatagram {
		e.onProbe(h)
		return true
	}
	var r *Receiver
	if ok {
		r = de.receiverOf(e, c, h)
	}
	if r == nil {
		e.foreign()
		return true
	}
	return r.datagram(h, buf[headerBytes:c.Len], c.Landed > 0)
}

// dataSource identifies the datagrams of one stream. A stream's datagrams have the same data key
// and, in a multicast group, come from the same endpoint. For a stream without a multicast group,
// only the sender of the stream knows the data key, so the field "from" is not needed and is
// AddrUnknown.
type dataSource struct {
	key  uint64
	from fabric.Addr
}

// receiverOf returns the receiver to whose stream a datagram with the header h belongs, or nil if
// there is none.
func (de *dataEndpoint) receiverOf(e *Engine, c *fabric.Completion, h header) *Receiver {
	source := dataSource{h.key, fabric.AddrUnknown}
	if de.group != "" {
		source.from = c.From
	}
	if r := e.latest; r != nil && r.source == source {
		return r
	}
	if r := e.bySource[source]; r != nil {
		e.latest = r
		return r
	}
	return nil
}

// If the engine has only one receiver, the method "foreign" counts a datagram that belongs to no
// stream in Stats.Foreign of this receiver. If the engine has several receivers, the datagram is
// not counted.
func (e *Engine) foreign() {
	if len(e.receiving) == 1 && e.receiving[0].asm != nil {
		e.receiving[0].asm.track.foreign++
	}
}

// dataInfo returns the network of the data endpoint. The data endpoint has the same host address as
// the btl module, and a different port number.
func dataInfo(info fabric.Info) fabric.Info {
	if host, _, err := net.SplitHostPort(info.Node); err == nil {
		info.Node = host
	}
	return info
}
