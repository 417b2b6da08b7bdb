package vnic

import (
	"container/list"
	"slices"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

const (
	proveEvery  = 100 * time.Millisecond
	proveRounds = 20
	// proveLook is the interval at which a Station polls for proof datagrams while addresses are
	// being verified.
	proveLook = 2 * time.Millisecond
	// roundsPerPass is the largest number of verification rounds that one call of proveAll executes.
	// The Prover has buffers for the datagrams of roundsPerPass rounds, if all earlier sends are
	// complete. If the Prover has no buffer for a datagram, the Prover drops the datagram, which the
	// next round of the verification sends again.
	roundsPerPass = ProverBuffers / 2 / LanesMax
)

// proving is the state of a registration whose addresses the manager is verifying. The
// verifications of several registrations of one host can be in progress at the same time. The
// manager accepts the first verified registration of a host.
type proving struct {
	conn          int
	reg           Registration
	asked         Message // the registration message without its data
	key           uint64
	receive, send []unprovenName
	asking        bool // the agent has not answered the latest request yet
	told          bool // the agent has acknowledged the key
	rounds        int
	at            mono.Time     // time of the next round
	turn          *list.Element // in provings.rounds
}

// provings are the verifications in progress. Hosts that are not yet accepted can begin many
// verifications at the same time, up to one for each connection of the module. Neither the work for
// one proof datagram nor the work for one round depends on the number of verifications in progress.
type provings struct {
	byConn map[int]*proving
	byKey  map[uint64]*proving
	rounds *list.List // of *proving, in the order of the next rounds
	looks  uint64     // number of verifications that were looked at
}

func newProvings() provings {
	return provings{
		byConn: make(map[int]*proving), byKey: make(map[uint64]*proving), rounds: list.New(),
	}
}

// unprovenName is an address whose verification is in progress.
type unprovenName struct {
	addr   fabric.Addr
	number uint64
	proven bool
}

func (n *unprovenName) missing() bool { return !n.proven }

// prove begins to verify the addresses of a registration. The method "prove" returns StatusInvalid
// if the fabric provider rejects an address, and otherwise StatusOK.
func (m *Manager) prove(now mono.Time, conn int, msg *Message, r *Registration) Status {
	p := &proving{conn: conn, reg: *r, asked: *msg, key: m.prover.random(), at: now}
	p.asked.Data = nil
	insert := func(names [][]byte) (list []unprovenName, ok bool) {
		for _, name := range names {
			addr, err := m.prover.dom.Insert(name)
			if err != nil {
				return list, false
			}
			list = append(list, unprovenName{addr: addr, number: m.prover.random()})
		}
		return list, true
	}
	var ok, also bool
	p.receive, ok = insert(r.Ways.Receive)
	p.send, also = insert(r.Ways.Send)
	m.provings.byConn[conn], m.provings.byKey[p.key] = p, p
	p.turn = m.provings.rounds.PushBack(p)
	if !ok || !also {
		m.release(p)
		return StatusInvalid
	}
	m.round(now, p)
	return StatusOK
}

// release ends the verification of a registration's addresses without an answer.
func (m *Manager) release(p *proving) {
	delete(m.provings.byConn, p.conn)
	delete(m.provings.byKey, p.key)
	m.provings.rounds.Remove(p.turn)
	for _, n := range slices.Concat(p.receive, p.send) {
		_ = m.prover.dom.Remove(n.addr) // cannot fail: the address was inserted
	}
}

// The method "decided" ends the verification of a registration's addresses, and answers the
// registration with the given status.
func (m *Manager) decided(now mono.Time, p *proving, status Status) {
	m.release(p)
	if status == StatusOK {
		status = m.admits(&p.reg)
	}
	m.answer(now, p.conn, &p.asked, &p.reg, status)
}

// proveAll handles the proof datagrams that the Prover has received, and executes the verification
// rounds that are due. If more than roundsPerPass rounds are due, the remaining rounds wait for the
// next call of proveAll. proveAll returns the number of completions that the Prover has read.
func (m *Manager) proveAll(now mono.Time) (int, error) {
	if m.prover == nil {
		return 0, nil
	}
	n, err := m.prover.poll(func(from fabric.Addr, key, proof uint64) {
		m.provings.looks++
		if p := m.provings.byKey[key]; p != nil {
			m.heard(now, p, p.send, proof, func(n *unprovenName) bool { return n.addr == from })
		}
	})
	for range roundsPerPass {
		p := m.provings.next()
		if p == nil || now < p.at {
			break
		}
		m.provings.looks++
		m.round(now, p)
	}
	return n, err
}

// The method "next" returns the verification whose next round is due first, or nil if no
// verification is in progress.
func (p *provings) next() *proving {
	if first := p.rounds.Front(); first != nil {
		return first.Value.(*proving) //nolint:forcetypeassert // The list has nothing else.
	}
	return nil
}

// proveAt returns the time at which the caller must next call proveAll if no message arrives.
func (m *Manager) proveAt(now mono.Time) mono.Time {
	p := m.provings.next()
	if p == nil {
		return mono.Never
	}
	return now.Add(proveLook).Min(p.at)
}

// The method "heard" marks an address in "list" as verified, if the function "here" returns true
// for the address, and the argument "proof" is the hash that the manager expects from this address.
// When all addresses are verified, the method "heard" ends the verification.
func (m *Manager) heard(now mono.Time, p *proving, list []unprovenName, proof uint64,
	here func(*unprovenName) bool,
) {
	for i := range list {
		n := &list[i]
		if here(n) && proofOf(n.number, p.reg.Ways.Module) == proof {
			n.proven = true
		}
	}
	if !lacks(p.receive) && !lacks(p.send) {
		m.decided(now, p, StatusOK)
	}
}

func lacks(list []unprovenName) bool {
	return slices.ContainsFunc(list, func(n unprovenName) bool { return n.missing() })
}

// The method "round" sends the requests and datagrams again for those addresses of a registration
// that are not verified yet, or ends the verification after proveRounds rounds. The rounds have the
// interval proveEvery. The method "round" repeats a request to the agent only after the agent has
// answered the earlier request, because the connection to the agent does not lose messages.
func (m *Manager) round(now mono.Time, p *proving) {
	if p.rounds == proveRounds {
		m.Stats.Unproven++
		m.decided(now, p, StatusUnproven)
		return
	}
	p.rounds++
	p.at = now.Add(proveEvery)
	m.provings.rounds.MoveToBack(p.turn)
	if !p.asking && lacks(p.send) {
		p.asking = true
		ask := proofRequest{key: p.key, name: m.prover.ep.Name()}
		for _, n := range p.send {
			ask.numbers = append(ask.numbers, n.number)
		}
		m.tid++
		msg := Message{Method: MethodSet, Attr: AttrProof, TID: m.tid, Data: ask.append(nil)}
		m.out = append(m.out, Outgoing{p.conn, msg.Append(nil)})
		m.Stats.Requests++
	}
	m.challenge(p)
}

// challenge sends a datagram to each receiving address that is not verified yet. Until the agent
// has acknowledged the key of the verification, the method "challenge" sends nothing.
func (m *Manager) challenge(p *proving) {
	for _, n := range p.receive {
		if p.told && n.missing() {
			m.prover.send(n.addr, p.key, n.number)
		}
	}
}

// While the manager verifies an agent's addresses, proofMessage handles the agent's responses to
// requests for proof and the agent's answers to proof datagrams.
func (m *Manager) proofMessage(now mono.Time, p *proving, msg *Message) {
	switch {
	case msg.Attr != AttrProof:
		m.Stats.Malformed++
	case msg.Method == MethodResponse:
		m.Stats.Responses++
		p.asking = false
		if msg.Status != StatusOK { // An old agent without AttrProof returns Busy.
			m.Stats.Older++
			m.decided(now, p, StatusVersion)
		} else if !p.told {
			p.told = true
			m.challenge(p)
		}
	case msg.Method == MethodSet:
		key, proof, err := parseProofAnswer(msg.Data)
		if err != nil || key != p.key {
			m.Stats.Malformed++
			return
		}
		m.heard(now, p, p.receive, proof, func(*unprovenName) bool { return true })
	default:
		m.Stats.Malformed++
	}
}
