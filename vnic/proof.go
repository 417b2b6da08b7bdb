package vnic

import (
	"crypto/sha256"
	"encoding/binary"
)

// A manager proves the addresses that a host registers before it hands them to other hosts. To each
// address that receives frames it sends a datagram with a random number, and the agent returns what
// the number stands for on its connection. From each address that sends frames the agent sends what
// a number of the connection stands for. A number stands for its hash with the name of the agent's
// module, so the answer of one agent is no proof for another.
//
//	manager                                     agent
//	   <------ Set registration ------------------
//	   ------- Set proof: key, name, numbers ---->   again each proveEvery while one is missing
//	   ======= datagram: key, number ============>   to each address that receives
//	   <------ Set proof: key, hash --------------
//	   <====== datagram: key, hash ===============   from each address that sends
//	   ------- registration is answered --------->

// ProofBytes is the size of a datagram of a proof. It is less than the size of a packet.
const ProofBytes = 24

// proofMagic begins the datagrams of proofs; the last byte is their version.
const proofMagic = "VNICPRV\x01"

// AppendProof appends a datagram of a proof.
func AppendProof(b []byte, key, number uint64) []byte {
	return be.AppendUint64(be.AppendUint64(append(b, proofMagic...), key), number)
}

// ParseProof reads what AppendProof wrote.
func ParseProof(b []byte) (key, number uint64, ok bool) {
	if len(b) != ProofBytes || string(b[:len(proofMagic)]) != proofMagic {
		return 0, 0, false
	}
	return be.Uint64(b[8:]), be.Uint64(b[16:]), true
}

// proofOf returns what a number stands for when the agent with a module of that name answers. The
// number cannot be computed from it.
func proofOf(number uint64, module []byte) uint64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, number), module...))
	return be.Uint64(sum[:])
}

// proofRequest is the attribute by which a manager asks for proofs.
type proofRequest struct {
	key     uint64   // of this registration
	name    []byte   // of the manager's endpoint
	numbers []uint64 // one for each address that sends
}

func (p *proofRequest) append(b []byte) []byte {
	b = appendName(be.AppendUint64(b, p.key), p.name)
	for _, n := range p.numbers {
		b = be.AppendUint64(b, n)
	}
	return b
}

func parseProofRequest(b []byte) (p proofRequest, err error) {
	c := cursor{b: b}
	key := c.take(8)
	p.name = c.name()
	if c.bad || len(p.name) == 0 || len(c.b)%8 != 0 || len(c.b)/8 > LanesMax {
		return p, malformed("proof request", len(b))
	}
	p.key = be.Uint64(key)
	for ; len(c.b) > 0; c.b = c.b[8:] {
		p.numbers = append(p.numbers, be.Uint64(c.b))
	}
	return p, nil
}

// appendProofAnswer appends the attribute by which an agent answers a datagram.
func appendProofAnswer(b []byte, key, proof uint64) []byte {
	return be.AppendUint64(be.AppendUint64(b, key), proof)
}

func parseProofAnswer(b []byte) (key, proof uint64, err error) {
	if len(b) != 16 {
		return 0, 0, malformed("proof", len(b))
	}
	return be.Uint64(b), be.Uint64(b[8:]), nil
}

// Proof is a datagram that an agent sends from one of its addresses to its manager.
type Proof struct {
	From int    // which of Ways.Send
	To   []byte // name of the manager's endpoint
	Data []byte
}

// proofsMax bounds the datagrams that wait for Proofs. A manager asks again for lost ones.
const proofsMax = 4 * LanesMax

// setProof handles a manager's request for proofs.
func (a *Agent) setProof(conn int, m *Message) Status {
	p, err := parseProofRequest(m.Data)
	if err != nil || len(p.numbers) != len(a.cfg.Ways.Send) {
		return StatusInvalid
	}
	if a.keys == nil {
		a.keys = make(map[int]uint64)
	}
	a.keys[conn] = p.key
	for i, n := range p.numbers {
		if len(a.proofs) < proofsMax {
			a.proofs = append(a.proofs, Proof{
				From: i, To: p.name, Data: AppendProof(nil, p.key, proofOf(n, a.cfg.Ways.Module)),
			})
		}
	}
	return StatusOK
}

// Proofs returns the datagrams to send, and removes them from the agent.
func (a *Agent) Proofs() []Proof {
	p := a.proofs
	a.proofs = nil
	return p
}

// Proving reports whether a manager proves the addresses of this host, so that datagrams for
// Challenged may arrive.
func (a *Agent) Proving() bool { return len(a.keys) > 0 }

// Challenged handles a datagram of a proof, as ParseProof reads it, that has come to one of
// Ways.Receive. It ignores the datagrams of strangers.
func (a *Agent) Challenged(key, number uint64) {
	for _, conn := range a.conns {
		if k, ok := a.keys[conn]; ok && k == key {
			a.send(conn, Message{
				Method: MethodSet, Attr: AttrProof,
				Data: appendProofAnswer(nil, key, proofOf(number, a.cfg.Ways.Module)),
			})
		}
	}
}
