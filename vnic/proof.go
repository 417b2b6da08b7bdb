package vnic

import (
	"crypto/sha256"
	"encoding/binary"
)

// A manager verifies the addresses that a host has registered before the manager gives these
// addresses to other hosts. The manager sends a datagram with a random number to each receiving
// address of the host. The agent answers each datagram by sending the hash of the random number
// over the agent's connection to the manager. For each sending address of the host, the manager
// sends a random number on its connection to the agent. From each sending address, the agent sends
// a datagram to the manager, which contains the hash of the random number for this address. The
// hash includes the name of the agent's btl module, so that an agent cannot use the answer of a
// different agent. The manager repeats a request for proof only after the agent has answered the
// earlier request.
//
//	manager                                     agent
//	   <------ Set registration ------------------
//	   ------- Set proof, key, name, numbers ---->   again each proveEvery while one is missing
//	   ======= datagram, key, number ============>   to each address that receives
//	   <------ Set proof, key, hash --------------
//	   <====== datagram, key, hash ===============   from each address that sends
//	   ------- registration is answered --------->

// ProofBytes is the size of a proof datagram. A proof datagram is shorter than any encapsulated
// packet.
const ProofBytes = 24

// proofMagic is the beginning of each proof datagram. The last byte of proofMagic is the version.
const proofMagic = "VNICPRV\x01"

// AppendProof appends the bytes of a proof datagram.
func AppendProof(b []byte, key, number uint64) []byte {
	return be.AppendUint64(be.AppendUint64(append(b, proofMagic...), key), number)
}

// ParseProof decodes a proof datagram. The result "ok" of ParseProof is true if b is a proof
// datagram, and otherwise false.
func ParseProof(b []byte) (key, number uint64, ok bool) {
	if len(b) != ProofBytes || string(b[:len(proofMagic)]) != proofMagic {
		return 0, 0, false
	}
	return be.Uint64(b[8:]), be.Uint64(b[16:]), true
}

// proofOf returns the first 8 bytes of the SHA-256 hash of a number and the name of the agent's btl
// module.
func proofOf(number uint64, module []byte) uint64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, number), module...))
	return be.Uint64(sum[:])
}

// proofRequest is the attribute by which a manager asks an agent to prove its addresses.
type proofRequest struct {
	key     uint64   // key of the registration
	name    []byte   // name of the manager's endpoint
	numbers []uint64 // one for each sending address of the host
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

// appendProofAnswer appends the attribute with which an agent answers a manager's proof datagram.
func appendProofAnswer(b []byte, key, proof uint64) []byte {
	return be.AppendUint64(be.AppendUint64(b, key), proof)
}

func parseProofAnswer(b []byte) (key, proof uint64, err error) {
	if len(b) != 16 {
		return 0, 0, malformed("proof", len(b))
	}
	return be.Uint64(b), be.Uint64(b[8:]), nil
}

// Proof is a proof datagram that the caller must send from an address of the agent to the manager.
type Proof struct {
	From int    // index in Ways.Send
	To   []byte // name of the manager's endpoint
	Data []byte
}

// proofsMax is the largest number of proof datagrams that wait for a call of Agent.Proofs. If a
// proof datagram is lost, the manager repeats its request for proof.
const proofsMax = 4 * LanesMax

// setProof handles a manager's request to prove that the agent owns its sending addresses.
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

// Proofs returns the proof datagrams that the caller must send, and removes them from the agent.
func (a *Agent) Proofs() []Proof {
	p := a.proofs
	a.proofs = nil
	return p
}

// Proving reports whether a manager is verifying the addresses of this host. While Proving returns
// true, the caller must pass each proof datagram that arrives to Challenged.
func (a *Agent) Proving() bool { return len(a.keys) > 0 }

// Challenged handles a proof datagram that arrived at an address in Ways.Receive. The arguments
// "key" and "number" are the results of ParseProof. If no manager has announced the key, Challenged
// ignores the proof datagram.
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
