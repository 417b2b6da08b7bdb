//go:build linux && cgo

package ofi

import (
	"fmt"
	"net"

	"gobtl/fabric"
)

const (
	// maxDatagramBytes is the largest UDP payload over IPv4. Providers that emulate datagrams over a
	// stream report a limit near 2^64, which is too large for the size of a receive buffer.
	maxDatagramBytes = 65507
	// maxSegmentBytes is the size of the largest datagram on reliable endpoints. The layer rxm of
	// libfabric sends messages of up to maxSegmentBytes eagerly, and larger messages by a rendezvous
	// with the receiver.
	maxSegmentBytes = 16 << 10

	cacheLineBytes  = 64
	defaultBuffers  = 4096
	maxBuffers      = 1 << 24
	maxBufferBytes  = 1 << 20
	maxArenaBytes   = 1 << 40
	maxDepth        = 1 << 15 // entries of a queue; the shim counts them in 16 bits
	maxPrefixBytes  = 1 << 12 // limit for prefixes; real providers have 40 and 64
	slackBytes      = 1       // additional bytes that reveal a truncated datagram; see gofi_recv
	minInfoMTUBytes = 1
)

// The type "limits" holds the sizes that a provider reports.
type limits struct {
	maxMsgBytes, prefixBytes, injectBytes uint64
	txPrefix, rxPrefix                    bool // FI_MSG_PREFIX in that direction
	txDepth, rxDepth, iovLimit            uint64
	reliable                              bool // FI_EP_RDM
	quirks                                quirks
}

// mtuBytes is the size of the largest payload. If the provider includes its packet prefix in
// max_msg_size, mtuBytes subtracts the size of the prefix.
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
	// jumboBytes is the largest Ethernet MTU that the package uses.
	jumboBytes = 9000
	// plainBytes is the MTU that the package assumes for the loopback device, and for a device whose
	// MTU is unknown.
	plainBytes = 1500
)

// onDevice returns the limits of the udp provider on a device with the given MTU. libfabric's udp
// provider always reports a payload limit of 1472 bytes, but accepts every datagram that the device
// can carry.
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

// The method "inject" returns the size of the largest payload that the shim (the C part of the
// package) sends with fi_inject.
func (l limits) inject() int { return clip(sub(l.injectBytes, l.tx()), l.mtuBytes()) }

// The method "done" returns the size of the largest payload whose send is complete when Post
// returns, because Post copies the payload.
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

// The function "depth" returns the requested depth of a queue or the provider's limit, whichever is
// lower.
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

// The type "layout" describes the slots of an arena. Each slot of an arena has strideBytes bytes,
// which are the headroom of headroomBytes, then sizeBytes for the caller, and then at least
// slackBytes. In each slot, the caller's bytes begin at the start of a cache line, and directly
// follow the provider's packet prefix at the end of the headroom.
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

func roundUp(n, unit int) int { return (n + unit - 1) &^ (unit - 1) }
