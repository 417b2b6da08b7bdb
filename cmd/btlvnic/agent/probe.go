//go:build linux

package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"gobtl/vnic"
)

// A probe is an Ethernet frame that agents answer themselves. A probe passes through the same
// tables and paths as any other frame.
//
//	0 destination, 6 source, 12 u16 0x88B5, 14 "btlvnic", 21 u8 1 asks, 2 answers, 22 u64 number
const (
	probeType   = 0x88B5 // IEEE 802, local experimental
	probeMagic  = "btlvnic"
	probeKindAt = 21
	probeIDAt   = 22
	probeBytes  = vnic.FrameBytesMin
	probeAsks   = 1
	probeTells  = 2
)

// probes holds the probes that wait for an answer.
type probes struct {
	mu      sync.Mutex
	waiting map[uint64]chan uint32
}

func isProbe(f []byte, i *vnic.FrameInfo) bool {
	return i.Type == probeType && !i.Tagged && len(f) >= probeIDAt+8 &&
		bytes.Equal(f[14:probeKindAt], []byte(probeMagic))
}

func probeFrame(dst, src vnic.MAC, kind byte, id uint64) []byte {
	f := make([]byte, probeBytes)
	dst.Put(f)
	src.Put(f[6:])
	binary.BigEndian.PutUint16(f[12:], probeType)
	copy(f[14:], probeMagic)
	f[probeKindAt] = kind
	binary.BigEndian.PutUint64(f[probeIDAt:], id)
	return f
}

// The method probe handles a probe that a receiving thread has received. A probe to the address of
// the port is answered, and no probe is written to the device. A probe from a group address gets no
// answer, because the answer would go to all members of the switch. For the same reason, the answer
// to an unknown address is dropped, also if the switch floods frames to unknown addresses.
func (a *Agent) probe(p *port, ar *vnic.Arrival) {
	id := binary.BigEndian.Uint64(ar.Frame[probeIDAt:])
	own := ar.Port.Tables().Info.BaseMAC
	if ar.Info.Dst != own || ar.Info.Src.Group() {
		return
	}
	switch ar.Frame[probeKindAt] {
	case probeAsks:
		a.inject(injected{p, probeFrame(ar.Info.Src, own, probeTells, id), true})
	case probeTells:
		a.probes.mu.Lock()
		if c := a.probes.waiting[id]; c != nil {
			select {
			case c <- ar.Header.SLID:
			default:
			}
		}
		a.probes.mu.Unlock()
	}
}

// injectMax is the maximum number of the agent's own frames that wait for the sending thread.
const injectMax = 64

// inject sends a frame as if it came from the port's device.
func (a *Agent) inject(i injected) {
	a.later(func() { // frames beyond the queue's length are lost
		s := a.senders[0]
		s.injectMu.Lock() // not s.mu, which a busy sender holds nearly all the time
		if len(s.inject) < injectMax {
			s.inject = append(s.inject, i)
		}
		s.injectMu.Unlock()
		s.bell.ring()
	})
}

// ErrNoAnswer means that no agent has answered a probe.
var ErrNoAnswer = errors.New("no answer")

// Ping sends a probe to an Ethernet address through a port, and waits for the answer. Ping returns
// the round-trip time and the LID of the host with the address.
func (a *Agent) Ping(ctx context.Context, vport uint8, to vnic.MAC) (rtt time.Duration, lid uint32,
	err error,
) {
	var p *port
	var src vnic.MAC
	if err := a.do(ctx, func() {
		if p = a.ports[vport]; p != nil && p.tables != nil {
			src = p.tables.Info.BaseMAC
		}
	}); err != nil {
		return 0, 0, err
	}
	if src == 0 {
		return 0, 0, fmt.Errorf("port %d is on no switch", vport)
	}
	if src == to {
		return 0, 0, fmt.Errorf("that is the address of port %d itself", vport)
	}
	id, answer := Random(), make(chan uint32, 1)
	a.probes.mu.Lock()
	if a.probes.waiting == nil {
		a.probes.waiting = make(map[uint64]chan uint32)
	}
	a.probes.waiting[id] = answer
	a.probes.mu.Unlock()
	defer func() {
		a.probes.mu.Lock()
		delete(a.probes.waiting, id)
		a.probes.mu.Unlock()
	}()
	start := time.Now()
	a.inject(injected{p, probeFrame(to, src, probeAsks, id), false})
	select {
	case lid := <-answer:
		return time.Since(start), lid, nil
	case <-ctx.Done():
		return 0, 0, ErrNoAnswer
	case <-a.stopped:
		return 0, 0, ErrNoAnswer
	}
}
