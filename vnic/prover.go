package vnic

import (
	"errors"

	"gobtl/fabric"
)

// ProverBuffers is the number of packet buffers that the fabric.Domain of a Prover must have.
const ProverBuffers = 256

// Prover is the endpoint with which a Manager verifies the addresses of hosts. Only the goroutine
// of the Station may use the Prover.
type Prover struct {
	dom    fabric.Domain
	ep     fabric.Endpoint
	arena  fabric.Arena
	inject int // the fabric reports no completion for sends up to this size
	random func() uint64
	free   []fabric.Buf
	out    [proofsPerPass]fabric.Completion
}

// proofsPerPass is the largest number of completions that one call of poll reads. Because
// proofsPerPass is the number of buffers, one call of poll reads all completions, and so frees each
// buffer that the fabric no longer uses.
const proofsPerPass = ProverBuffers

// NewProver returns a Prover on the domain "dom". The domain must have ProverBuffers buffers of
// ProofBytes or more. Closing the Prover also closes the domain. The function "random" must return
// unpredictable numbers.
func NewProver(dom fabric.Domain, random func() uint64) (*Prover, error) {
	ep, err := dom.OpenEndpoint(fabric.EndpointConfig{RxDepth: ProverBuffers / 2, Source: true})
	if err != nil {
		return nil, errors.Join(err, dom.Close())
	}
	p := &Prover{
		dom: dom, ep: ep, arena: dom.Arena(), inject: ep.Caps().InjectBytes, random: random,
	}
	var posted []fabric.Buf
	for b := range fabric.Buf(ProverBuffers) {
		if b < ProverBuffers/2 {
			posted = append(posted, b)
		} else {
			p.free = append(p.free, b)
		}
	}
	if n, err := ep.Recv(posted); n == 0 {
		return nil, errors.Join(err, dom.Close())
	}
	return p, nil
}

// Close closes the Prover's domain.
func (p *Prover) Close() error { return p.dom.Close() }

// send sends a proof datagram. If no buffer is free, or if the endpoint does not accept the send,
// the method "send" drops the datagram.
func (p *Prover) send(to fabric.Addr, key, number uint64) {
	last := len(p.free) - 1
	if last < 0 {
		return
	}
	buf := p.free[last]
	n := copy(p.arena.Bytes(buf), AppendProof(nil, key, number))
	taken, _ := p.ep.Post([]fabric.Send{{To: to, Buf: buf, Len: uint32(n)}})
	if taken == 1 && n > p.inject {
		p.free = p.free[:last] // in use until its completion
	}
}

// poll reads completions, and calls the function "take" for each received proof datagram. poll
// returns the number of completions.
func (p *Prover) poll(take func(from fabric.Addr, key, proof uint64)) (int, error) {
	n, err := p.ep.Poll(p.out[:])
	for i := range p.out[:n] {
		c := &p.out[i]
		if c.Op == fabric.OpSend {
			p.free = append(p.free, c.Buf)
			continue
		}
		mem := p.arena.Bytes(c.Buf)
		if c.Errno == 0 && int(c.Len) <= len(mem) {
			if key, proof, ok := ParseProof(mem[:c.Len]); ok {
				take(c.From, key, proof)
			}
		}
		if _, again := p.ep.Recv([]fabric.Buf{c.Buf}); again != nil {
			err = errors.Join(err, again)
		}
	}
	return n, err
}
