package vnic

import (
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
	told          bool // the agent has acknowledged the key
	rounds        int
	at            mono.Time // time of the next round
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
	if !ok || !also {
		m.release(p)
		return StatusInvalid
	}
	m.provings[conn] = p
	return StatusOK
}

func (m *Manager) release(p *proving) {
	for _, n := range slices.Concat(p.receive, p.send) {
		_ = m.prover.dom.Remove(n.addr) // cannot fail: the address was inserted
	}
}

// The method "decided" ends the verification of a registration's addresses, and answers the
// registration with the given status.
func (m *Manager) decided(now mono.Time, p *proving, status Status) {
	delete(m.provings, p.conn)
	m.release(p)
	if status == StatusOK {
		status = m.admits(&p.reg)
	}
	m.answer(now, p.conn, &p.asked, &p.reg, status)
}

// proveAll handles the proof datagrams that the Prover has received, and sends the requests and
// proof datagrams that are due. proveAll returns the number of completions that the Prover has
// read.
func (m *Manager) proveAll(now mono.Time) (int, error) {
	if m.prover == nil {
		return 0, nil
	}
	n, err := m.prover.poll(func(from fabric.Addr, key, proof uint64) {
		for _, p := range m.provings {
			if p.key == key {
				p.heard(p.send, proof, func(n *unprovenName) bool { return n.addr == from })
			}
		}
	})
	conns := make([]int, 0, len(m.provings))
	for conn := range m.provings {
		conns = append(conns, conn)
	}
	slices.Sort(conns)
	for _, conn := range conns {
		m.proveOne(now, m.provings[conn])
	}
	return n, err
}

// The method "heard" marks an address in "list" as verified, if the function "here" returns true
// for the address, and the argument "proof" is the hash that the manager expects from this address.
func (p *proving) heard(list []unprovenName, proof uint64, here func(*unprovenName) bool) {
	for i := range list {
		n := &list[i]
		if here(n) && proofOf(n.number, p.reg.Ways.Module) == proof {
			n.proven = true
		}
	}
}

// proveOne ends the verification of a registration if all addresses are verified, or if an address
// is still not verified after proveRounds requests. Until all addresses are verified, proveOne
// repeats its request to the agent at intervals of proveEvery.
func (m *Manager) proveOne(now mono.Time, p *proving) {
	lacks := func(list []unprovenName) bool {
		return slices.ContainsFunc(list, func(n unprovenName) bool { return n.missing() })
	}
	switch {
	case !lacks(p.receive) && !lacks(p.send):
		m.decided(now, p, StatusOK)
		return
	case now < p.at:
		return
	case p.rounds == proveRounds:
		m.Stats.Unproven++
		m.decided(now, p, StatusUnproven)
		return
	}
	p.rounds++
	p.at = now.Add(proveEvery)
	if p.rounds == 1 || lacks(p.send) {
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

// proofMessage handles a message from an agent whose addresses the manager is verifying, which is a
// response to a request for proof or the answer to a proof datagram.
func (m *Manager) proofMessage(now mono.Time, p *proving, msg *Message) {
	switch {
	case msg.Attr != AttrProof:
		m.Stats.Malformed++
	case msg.Method == MethodResponse:
		m.Stats.Responses++
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
		p.heard(p.receive, proof, func(*unprovenName) bool { return true })
	default:
		m.Stats.Malformed++
	}
}
