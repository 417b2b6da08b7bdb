//go:build linux

package agent

import (
	"bytes"
	"errors"
	"fmt"

	"gobtl/fabric"
	"gobtl/vnic"
)

// A manager verifies the addresses of this host by challenge datagrams. The manager sends
// challenges to the receiver threads of the host, and the sender threads of the host send the
// replies. The control thread handles the challenges and makes the replies.

// challenge is a received datagram that claims to be a challenge of the manager.
type challenge struct{ key, number uint64 }

// challengesWaiting is the maximum number of challenges that wait for the control thread.
const challengesWaiting = 64

// OpenProver opens the endpoint by which a manager verifies the addresses of hosts.
func OpenProver(info fabric.Info) (*vnic.Prover, error) {
	dom, err := fabric.Open(anyPort(info), fabric.DomainConfig{
		Buffers: vnic.ProverBuffers, BufferBytes: min(info.MTUBytes, proverBufferBytes),
	})
	if err != nil {
		return nil, at(info, err)
	}
	p, err := vnic.NewProver(dom, Random)
	return p, at(info, err)
}

const proverBufferBytes = 512

// challenged handles a challenge datagram on a receiving thread. challenged returns false if b is
// not a challenge, or if no manager has announced a challenge.
func (a *Agent) challenged(b []byte) bool {
	key, number, ok := vnic.ParseProof(b)
	if !ok || !a.proving.Load() {
		return false
	}
	select {
	case a.challenges <- challenge{key, number}:
		a.wake()
	default: // The manager repeats the challenge.
	}
	return true
}

// prove handles the received challenges, and sends the datagrams that the manager has asked for.
func (a *Agent) prove() (n int) {
	for range challengesWaiting {
		select {
		case c := <-a.challenges:
			a.core.Challenged(c.key, c.number)
			n++
			continue
		default:
		}
		break
	}
	for _, p := range a.core.Proofs() {
		n++
		if err := a.senders[p.From].prove(p.To, p.Data); err != nil {
			a.limitedf(&a.proofLines, "the proof of an address for the manager: %v", err)
		}
	}
	a.proving.Store(a.core.Proving())
	return n
}

// prove sends a datagram for an address check to a manager's endpoint. If the send queue is full,
// the datagram is lost, and the manager asks again.
func (s *sender) prove(to, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(to, s.proverName) {
		addr, err := s.link.dom.Insert(to)
		if err != nil {
			return fmt.Errorf("the manager's endpoint: %w", err)
		}
		if s.proverName != nil {
			_ = s.link.dom.Remove(s.prover) // the address was inserted
		}
		s.prover, s.proverName = addr, to
	}
	if err := s.reap(); err != nil || len(s.free) == 0 {
		return err
	}
	buf := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.refs[buf]++
	one := fabric.Send{To: s.prover, Buf: buf, Len: uint32(copy(s.link.arena.Bytes(buf), data))}
	lost := s.link.offer(one)
	if lost != nil || int(one.Len) <= s.link.caps.InjectBytes {
		s.release(buf)
	}
	if errors.Is(lost, fabric.ErrAgain) {
		return nil
	}
	return lost
}
