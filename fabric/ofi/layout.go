//go:build linux && cgo

package ofi

import (
	"fmt"
	"net"

	"gobtl/fabric"
)

const (
	// maxDatagramBytes is the largest UDP payload over IPv4. Providers that emulate datagrams over a
	// stream advertise nearly 2^64; a receive buffer has to end somewhere.
	maxDatagramBytes = 65507
	// maxSegmentBytes is what a datagram may be on reliable providers, whose messages have no limit
	// that matters: what the layer rxm sends without asking the receiver first.
	maxSegmentBytes = 16 << 10

	cacheLineBytes  = 64
	defaultBuffers  = 4096
	maxBuffers      = 1 << 24
	maxBufferBytes  = 1 << 20
	maxArenaBytes   = 1 << 40
	maxDepth        = 1 << 15 // entries of a queue; the shim counts them in 16 bits
	maxPrefixBytes  = 1 << 12 // the providers' are 40 and 64; anything huge is a broken provider
	slackBytes      = 1       // see gofi_recv: shows a datagram that was cut
	minInfoMTUBytes = 1
)

// limits are the sizes that a provider reports, before they mean anything to a caller.
type limits struct {
	maxMsgBytes, prefixBytes, injectBytes uint64
	txPrefix, rxPrefix                    bool // FI_MSG_PREFIX in that direction
	txDepth, rxDepth, iovLimit            uint64
	reliable                              bool // FI_EP_RDM
	quirks                                quirks
}

// mtuBytes is the largest payload. Whether max_msg_size counts the prefix differs from provider to
// provider, so the smaller reading is taken, as libfabric's own reliable-datagram layer does.
func (l limits) mtuBytes() int {
	most := maxDatagramBytes
	if l.reliable {
		most = maxSegmentBytes
	}
	return clip(sub(l.maxMsgBytes, l.prefix()), most)
}

const (
	headerBytes4 = 20 + 8 // of IPv4 and UDP
	headerBytes6 = 40 + 8
	// jumboBytes is the largest MTU of an Ethernet that is made use of.
	jumboBytes = 9000
	// plainBytes is the MTU counted on where the device's is not known, or is the loopback's.
	plainBytes = 1500
)

// onDevice are the limits of the udp provider on a device with an MTU: 1472 is what it says of all,
// also where that leaves as two fragments, and it refuses nothing of what the device can carry.
func (l limits) onDevice(mtuBytes int, form nameForm) limits {
	header := headerBytes4
	if form == formSockIn6 {
		header = headerBytes6
	}
	payload := uint64(max(min(mtuBytes, jumboBytes)-header, 1))
	l.maxMsgBytes, l.injectBytes = payload, payload
	return l
}

// deviceMTU returns a device's MTU in bytes.
func deviceMTU(name string) int {
	dev, err := net.InterfaceByName(name)
	if err != nil || dev.Flags&net.FlagLoopback != 0 {
		return plainBytes
	}
	return dev.MTU
}

// inject is the largest payload that fi_inject takes, by the same rule.
func (l limits) inject() int { return clip(sub(l.injectBytes, l.tx()), l.mtuBytes()) }

// done is the largest payload whose send is done with when it was posted: a copy has been made.
func (l limits) done() int {
	if l.quirks.copies {
		return l.mtuBytes()
	}
	return l.inject()
}

func (l limits) prefix() uint64 { return max(l.tx(), l.rx()) }

func (l limits) tx() uint64 { return when(l.txPrefix, l.prefixBytes) }

func (l limits) rx() uint64 { return when(l.rxPrefix, l.prefixBytes) }

func when(yes bool, v uint64) uint64 {
	if yes {
		return v
	}
	return 0
}

func sub(a, b uint64) uint64 { return a - min(a, b) }

func clip(v uint64, most int) int { return int(min(v, uint64(most))) }

// depth returns a queue's depth: what was asked for within what the provider has.
func depth(what string, asked int, provider uint64) (int, error) {
	most := max(clip(provider, maxDepth), 1)
	switch {
	case asked < 0:
		return 0, fmt.Errorf("%w: %s is %d, want 0 (the provider's %d) or more",
			fabric.ErrBadConfig, what, asked, most)
	case asked == 0:
		return most, nil
	}
	return min(asked, most), nil
}

// layout is the geometry of an arena. In each slot of strideBytes, headroom bytes hold the
// provider's prefix (right before the caller's bytes, which start on a cache line), then come
// sizeBytes of the caller and at least slackBytes.
type layout struct {
	count, strideBytes, headroomBytes, sizeBytes int
	txPrefixBytes, rxPrefixBytes                 int
	mtuBytes, injectBytes                        int
}

func newLayout(l limits, cfg fabric.DomainConfig) (layout, error) {
	if l.prefix() > maxPrefixBytes || l.mtuBytes() < minInfoMTUBytes {
		return layout{}, fmt.Errorf("%w: the provider reports a prefix of %d bytes and an MTU of %d",
			fabric.ErrUnavailable, l.prefix(), l.mtuBytes())
	}
	lay := layout{
		count:         cfg.Buffers,
		sizeBytes:     cfg.BufferBytes,
		headroomBytes: roundUp(int(l.prefix()), cacheLineBytes),
		txPrefixBytes: int(l.tx()),
		rxPrefixBytes: int(l.rx()),
		mtuBytes:      l.mtuBytes(),
		injectBytes:   l.inject(),
	}
	if lay.count == 0 {
		lay.count = defaultBuffers
	}
	if lay.sizeBytes == 0 {
		lay.sizeBytes = lay.mtuBytes
	}
	if l.reliable {
		// Reliable providers do not survive a message that is larger than the buffer posted for it:
		// shm 1.17 never returns from fi_cq_read, net and tcp lose the connection.
		lay.sizeBytes = max(lay.sizeBytes, lay.mtuBytes)
	}
	if lay.count < 1 || lay.count > maxBuffers {
		return layout{}, fmt.Errorf("%w: Buffers is %d, want 1 to %d",
			fabric.ErrBadConfig, lay.count, maxBuffers)
	}
	if lay.sizeBytes < 1 || lay.sizeBytes > maxBufferBytes {
		return layout{}, fmt.Errorf("%w: BufferBytes is %d, want 1 to %d",
			fabric.ErrBadConfig, lay.sizeBytes, maxBufferBytes)
	}
	lay.strideBytes = roundUp(lay.headroomBytes+lay.sizeBytes+slackBytes, cacheLineBytes)
	if lay.count > maxArenaBytes/lay.strideBytes {
		return layout{}, fmt.Errorf("%w: %d buffers of %d bytes are more than %d bytes",
			fabric.ErrBadConfig, lay.count, lay.strideBytes, maxArenaBytes)
	}
	return lay, nil
}

// roundUp rounds n up to a multiple of unit, a power of two.
func roundUp(n, unit int) int { return (n + unit - 1) &^ (unit - 1) }
