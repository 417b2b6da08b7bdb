package vnic

import (
	"errors"
	"slices"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// The tags of fragments between hosts, and between them and their manager.
const (
	TagManagement btl.Tag = 0x20
	TagTrain      btl.Tag = 0x21
)

// party is the Agent or the Manager of a Station.
type party interface {
	Receive(now mono.Time, conn int, b []byte)
	Disconnect(conn int)
	Outbox() []Outgoing
}

// Station carries the management messages of an Agent or a Manager over a module. It belongs to the
// goroutine that owns the module, and is driven in its place: Progress, Deadline.
type Station struct {
	// Strangers counts messages of unexpected connections.
	Strangers uint64

	m       *btl.Module
	agent   *Agent   // one of the two
	manager *Manager // is not nil
	party   party
	now     mono.Time
	conns   map[*btl.Endpoint]int
	eps     map[int]*btl.Endpoint
	last    int
	waiting []Outgoing // not taken by the module yet
	watch   func(ep *btl.Endpoint, ev btl.Event, err error)
}

// waitingMax bounds the messages of one connection that the module has not accepted. A connection
// with more messages is ended; other connections are not affected. A manager sends an agent one
// request at a time, and an agent sends one answer at a time.
const waitingMax = 256

// NewAgentStation makes a Station for an agent on the module. watch, which may be nil, is called
// for the events of the module's endpoints after the station has handled them.
func NewAgentStation(
	m *btl.Module, a *Agent, watch func(*btl.Endpoint, btl.Event, error),
) (*Station, error) {
	return newStation(&Station{m: m, agent: a, party: a, watch: watch})
}

// NewManagerStation makes a Station for a manager on the module. Any host that connects may
// register, and is accepted when prover has proven its addresses. With a nil prover a host is
// believed that its endpoints are where it says on its own address: for simulations.
func NewManagerStation(m *btl.Module, manager *Manager, prover *Prover) (*Station, error) {
	s := &Station{m: m, manager: manager, party: manager}
	manager.proves, manager.prover = s.proves, prover
	return newStation(s)
}

// proves reports whether all names that a host registers on a connection lead to the host that has
// answered on it, and to its module. The check is needed because other hosts send frames to these
// names unasked.
func (s *Station) proves(conn int, w *Ways) bool {
	ep := s.eps[conn]
	elsewhere := func(name []byte) bool { return !ep.AtHost(name) }
	return ep != nil && ep.IsModule(w.Module) && !slices.ContainsFunc(w.Receive, elsewhere) &&
		!slices.ContainsFunc(w.Send, elsewhere)
}

func newStation(s *Station) (*Station, error) {
	s.conns, s.eps = make(map[*btl.Endpoint]int), make(map[int]*btl.Endpoint)
	s.m.OnEndpoint(s.event)
	return s, s.m.HandleUpTo(TagManagement, MessageBytesMax, s.receive)
}

// Dial connects an agent to a manager's module and registers there; now is the present instant. It
// returns the number of the connection, for Alive.
func (s *Station) Dial(now mono.Time, name []byte) (conn int, err error) {
	ep, err := s.m.Connect(now, name)
	if err != nil {
		return 0, err
	}
	if s.conns[ep] == 0 {
		s.add(ep)
		s.agent.Connect(s.conns[ep])
	}
	return s.conns[ep], nil
}

// Alive reports whether a connection is open or being opened.
func (s *Station) Alive(conn int) bool { return s.eps[conn] != nil }

// Connected returns the number of connections to managers or agents. Connections that are being
// opened count.
func (s *Station) Connected() int { return len(s.conns) }

func (s *Station) add(ep *btl.Endpoint) {
	s.last++
	s.conns[ep], s.eps[s.last] = s.last, ep
}

func (s *Station) event(ep *btl.Endpoint, ev btl.Event, err error) {
	if conn := s.conns[ep]; conn != 0 && ev != btl.EventConnected {
		delete(s.conns, ep)
		delete(s.eps, conn)
		s.party.Disconnect(conn)
	}
	if s.watch != nil {
		s.watch(ep, ev, err)
	}
}

func (s *Station) receive(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	conn := s.conns[ep]
	if conn == 0 {
		if s.agent != nil {
			s.Strangers++
			return
		}
		s.add(ep)
		conn = s.last
	}
	s.party.Receive(s.now, conn, data)
}

// Progress makes a pass of the module, and sends the messages of the agent or manager.
func (s *Station) Progress(now mono.Time) (int, error) {
	s.now = now
	n, err := s.m.Progress(now)
	if err != nil {
		return n, err
	}
	if s.manager != nil {
		heard, err := s.manager.proveAll(now)
		if err != nil {
			return n, err
		}
		n += heard
		s.manager.Progress(now)
	}
	s.waiting = append(s.waiting, s.party.Outbox()...)
	if len(s.waiting) > 0 {
		s.flush()
	}
	if s.manager != nil { // after what tells them why
		for _, conn := range s.manager.Failed() {
			if ep := s.eps[conn]; ep != nil {
				ep.Close(now)
			}
		}
	}
	return n, nil
}

// flush offers the waiting messages to the module, in order.
func (s *Station) flush() {
	kept := s.waiting[:0]
	stuck := make(map[int]int) // messages of those behind one that was not taken
	for _, o := range s.waiting {
		ep := s.eps[o.Conn]
		switch {
		case ep == nil: // It has ended.
			continue
		case stuck[o.Conn] == 0 &&
			!errors.Is(sendCopy(s.now, ep, TagManagement, o.Data), btl.ErrAgain):
			// Any other error is that of an endpoint that ends, of which event hears.
			continue
		}
		if stuck[o.Conn]++; stuck[o.Conn] > waitingMax {
			ep.Abort() // What it has waiting goes with it, the next time.
			continue
		}
		kept = append(kept, o)
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
}

// sendCopy sends bytes that the module need not keep.
func sendCopy(now mono.Time, ep *btl.Endpoint, tag btl.Tag, data []byte) error {
	f, err := ep.Alloc(tag, len(data))
	if err != nil {
		return err
	}
	copy(f.Bytes(), data)
	if _, err := ep.Send(now, f); err != nil {
		return errors.Join(err, ep.Free(f))
	}
	return nil
}

// Deadline is when the next Progress is due.
func (s *Station) Deadline() mono.Time {
	at := s.m.Deadline()
	if s.manager != nil {
		at = at.Min(s.manager.Deadline())
		if len(s.manager.provings) > 0 {
			at = at.Min(s.now.Add(proveLook))
		}
	}
	if len(s.waiting) > 0 {
		at = at.Min(s.now.Add(resendEvery))
	}
	return at
}

// resendEvery is when messages are offered again that the module had no room for.
const resendEvery = 1_000_000
