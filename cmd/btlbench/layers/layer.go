package layers

import (
	"fmt"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/fabric"
)

// Layer is one side's endpoint of the measured system, which is the bare fabric or the transport.
// Only the engine's thread may call the methods of a Layer. The methods of a Layer are called once
// per round, so that the dynamic dispatch adds no time per message. Each layer has its own hot
// loops.
type Layer interface {
	// offer returns the information that the peer needs to connect.
	offer() Offer
	// Connect makes the peer reachable, within the time-out. The server may wait for the client's
	// first packet.
	connect(peer Offer, timeout time.Duration) error
	// Memory returns the number of bytes for the contents of messages that the layer has after the
	// call of Prepare for a round.
	Memory(r *Round) int64
	// Prepare prepares a round before either side starts it, and returns the handle of the memory
	// for puts of the peer.
	Prepare(r *Round) (handle uint64, err error)
	// Client measures a round, and Server answers until it is stopped.
	Client(r *Round) error
	Server(r *Round) error
	// Counters returns a snapshot of the layer's counters since it was opened.
	Counters() Counters
	// State returns the present state of the layer.
	State() State
	facts() Facts
	close() error
}

// Offer is a side's message to the peer about its endpoint of a layer.
type Offer struct {
	Layer string `json:"layer"`
	// Name is the address as opaque bytes, which are base64 in JSON.
	Name []byte `json:"name"`
	// RecvCapacity is the number of datagrams that can wait at this endpoint without loss.
	RecvCapacity int `json:"recv_capacity"`
	MTUBytes     int `json:"mtu_bytes"`
	// MessageBytesMax is the size of the largest message of this layer.
	MessageBytesMax int `json:"message_bytes_max"`
}

// Facts are properties of a layer that the report shows.
type Facts struct {
	MTUBytes        int    `json:"mtu_bytes"`
	InjectBytes     int    `json:"inject_bytes"`
	RecvCapacity    int    `json:"recv_capacity_datagrams"`
	RecvBufferBytes int    `json:"recv_buffer_bytes"`
	CreditPackets   int    `json:"credit_packets,omitempty"`
	TinyBytes       int    `json:"tiny_bytes,omitempty"`
	Profile         string `json:"profile,omitempty"`
}

// Counters holds the counters of a side's layer, which the bare fabric does not have.
type Counters struct {
	SegmentsSent uint64 `json:"segments_sent"`
	Retransmits  uint64 `json:"retransmits"`
	Duplicates   uint64 `json:"duplicates"`
	// All holds every counter that is not zero, by its Prometheus name.
	All map[string]uint64 `json:"all,omitempty"`
}

// Since returns the difference from an earlier snapshot.
func (c Counters) Since(earlier Counters) Counters {
	d := Counters{
		SegmentsSent: c.SegmentsSent - earlier.SegmentsSent,
		Retransmits:  c.Retransmits - earlier.Retransmits,
		Duplicates:   c.Duplicates - earlier.Duplicates,
	}
	d.addAll(c.All, earlier.All)
	return d
}

// Add adds the counters of another round.
func (c *Counters) Add(o Counters) {
	c.SegmentsSent += o.SegmentsSent
	c.Retransmits += o.Retransmits
	c.Duplicates += o.Duplicates
	c.addAll(o.All, nil)
}

// addAll adds the differences of the counters to earlier ones, without counters that have not
// changed.
func (c *Counters) addAll(counts, earlier map[string]uint64) {
	for name, v := range counts {
		if v -= earlier[name]; v > 0 {
			if c.All == nil {
				c.All = make(map[string]uint64)
			}
			c.All[name] += v
		}
	}
}

// SkipReason returns the reason why a layer with that offer cannot run a test, or "" if it can.
func SkipReason(offer *Offer, test string, sizeBytes int) string {
	switch {
	case offer.Layer != plan.LayerRaw && sizeBytes > offer.MessageBytesMax:
		return fmt.Sprintf("a message has 0 to %s bytes; --set fragment_bytes_max=SIZE allows more, "+
			"up to %d", plan.SizeText(offer.MessageBytesMax), plan.SizeBytesMax)
	case plan.IsRemote(test) && sizeBytes == 0:
		return "of no bytes nothing can be seen"
	case plan.IsAtomic(test) && sizeBytes != plan.AtomicBytes:
		return fmt.Sprintf("the numbers have %d bytes", plan.AtomicBytes)
	case offer.Layer == plan.LayerRunner && test != plan.TestLat && test != plan.TestBW &&
		test != plan.TestRate:
		return "through a Runner lat, bw and rate are measured"
	case offer.Layer == plan.LayerRaw && test == plan.TestReverse:
		return "the bare fabric has no stream from the server alone"
	case offer.Layer == plan.LayerRaw && plan.IsRemote(test):
		return "the bare fabric has no remote memory"
	case offer.Layer == plan.LayerRaw && test == plan.TestLatLoad:
		return "the bare fabric has no stream of messages"
	case offer.Layer == plan.LayerRaw && plan.IsLatency(test) && sizeBytes > offer.MTUBytes:
		return fmt.Sprintf("larger than one datagram (%d bytes)", offer.MTUBytes)
	}
	return ""
}

// bufRange lists n buffers, beginning with the given one.
func bufRange(from, n int) []fabric.Buf {
	bufs := make([]fabric.Buf, n)
	for i := range bufs {
		bufs[i] = fabric.Buf(from + i)
	}
	return bufs
}
