package matrix

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/reliability"
)

// The variables below are the axes of the matrix.
var (
	rtts     = []time.Duration{50 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}
	rates    = []int64{100e6, 1e9, 10e9}       // bits per second
	queues   = []float64{0.25, 1, 4}           // in bandwidth-delay products
	losses   = []float64{0, 0.001, 0.01, 0.05} // of the packets, each for itself
	reorders = []float64{0, 0.05, 0.2}         // of the packets, held back by up to half an RTT
)

const (
	mtuBytes        = 1472
	queuePacketsMin = 20       // a queue is not shorter, however short the path
	streamBytes     = 16 << 10 // messages of the whole matrix
	chunkBytes      = mtuBytes - frag.ChunkHeaderBytes
	receiverPackets = 8192 // that a receiver holds unread: more than a window
)

// packetsOf is the number of packets of a message of the given size, if it shares none.
func packetsOf(messageBytes int) int {
	if messageBytes+frag.FragHeaderBytes <= mtuBytes {
		return 1
	}
	return (messageBytes + chunkBytes - 1) / chunkBytes
}

// wireBytes is the number of bytes that a message occupies on a line, with all headers.
func wireBytes(messageBytes int) int {
	if packetsOf(messageBytes) == 1 {
		return messageBytes + frag.FragHeaderBytes
	}
	return messageBytes + packetsOf(messageBytes)*frag.ChunkHeaderBytes
}

// efficiency is the payload's part of the bytes that a message occupies on a line.
func efficiency(messageBytes int) float64 {
	return float64(messageBytes) / float64(wireBytes(messageBytes))
}

// Cell is a kind of path, with the same properties in both directions.
type Cell struct {
	RTT           time.Duration `json:"rttNs"`
	BitsPerSecond int64         `json:"bitsPerSecond"`
	// QueueBDP is the length of the bottleneck's queue, in bandwidth-delay products.
	QueueBDP float64 `json:"queueBdp"`
	// Loss and Reorder are the probabilities for each packet.
	Loss    float64 `json:"loss"`
	Reorder float64 `json:"reorder"`
}

// Cells returns the whole matrix.
func Cells() []Cell {
	all := make([]Cell, 0, len(rtts)*len(rates)*len(queues)*len(reorders)*len(losses))
	for _, rtt := range rtts {
		for _, rate := range rates {
			for _, queue := range queues {
				for _, reorder := range reorders {
					for _, loss := range losses {
						all = append(all, Cell{rtt, rate, queue, loss, reorder})
					}
				}
			}
		}
	}
	return all
}

// String returns a name such as "1ms 1G queue 0.25 loss 0.1% reorder 5%".
func (c Cell) String() string {
	return fmt.Sprintf("%s loss %s reorder %s", c.line(), percent(c.Loss), percent(c.Reorder))
}

// line is the label of the cell's row in a map.
func (c Cell) line() string {
	return fmt.Sprintf("%v %s queue %g", c.RTT, bits(c.BitsPerSecond), c.QueueBDP)
}

func bits(perSecond int64) string {
	if perSecond >= 1e9 {
		return strconv.FormatFloat(float64(perSecond)/1e9, 'g', -1, 64) + "G"
	}
	return strconv.FormatFloat(float64(perSecond)/1e6, 'g', -1, 64) + "M"
}

func percent(p float64) string { return strconv.FormatFloat(100*p, 'g', 4, 64) + "%" }

// seed returns a random seed that depends only on the cell.
func (c Cell) seed() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.String())) // never fails
	return h.Sum64()
}

func (c Cell) bytesPerSecond() int { return int(c.BitsPerSecond / 8) }

// bdpBytes is the bandwidth-delay product.
func (c Cell) bdpBytes() int {
	return int(float64(c.bytesPerSecond()) * c.RTT.Seconds())
}

// The method path returns one direction of the cell's path, and all paths with the same line share
// the bottleneck.
func (c Cell) path(line *sim.Line) sim.Path {
	return sim.Path{
		Delay:          c.RTT / 2,
		BytesPerSecond: c.bytesPerSecond(),
		QueueBytes:     max(int(c.QueueBDP*float64(c.bdpBytes())), queuePacketsMin*mtuBytes),
		Line:           line,
		Loss:           c.Loss,
		Reorder:        c.Reorder,
		ReorderDelay:   c.RTT / 2,
	}
}

// ceiling is the highest possible payload rate of several streams together, in bytes per second,
// limited by the line or by the windows.
func (c Cell) ceiling(streams, messageBytes int) float64 {
	packet := min(mtuBytes, wireBytes(messageBytes))
	window := float64(streams*reliability.WindowDefault*packet) / c.RTT.Seconds()
	return min(float64(c.bytesPerSecond()), window) * efficiency(messageBytes)
}
