package vnic

import (
	"errors"
	"slices"

	"gobtl/btl"
	"gobtl/internal/mono"
)

// Fragments with management messages and fragments with frames have different btl tags.
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

// Station carries the management messages of an Agent or a Manager over a btl module. Only the
// goroutine that owns the module may use the Station. The caller must call Progress and Deadline of
// the Station instead of Progress and Deadline of the module. The Station uses the module's
// callbacks OnEndpoint and OnRoom, which the caller must not use.
type Station struct {
	// Strangers counts messages to an agent on connections that the agent did not open.
	Strangers uint64

	m       *btl.Module
	agent   *Agent   // nil for a manager
	manager *Manager // nil for an agent
	party   party
	now     mono.Time
	conns   map[*btl.Endpoint]int
	eps     map[int]*btl.Endpoint
	last    int
	waiting map[int][][]byte // by connection: messages that the module has not accepted yet
	offers  uint64           // messages that were offered to the module
	watch   func(ep *btl.Endpoint, ev btl.Event, err error)
}

// waitingMax is the largest number of messages for one connection that may wait until the module
// accepts them. If a further message would have to wait, the Station closes the connection.
const waitingMax = 256

// NewAgentStation makes a Station for an agent on the module. The function "watch" may be nil. The
// Station calls "watch" for each event of the module's endpoints, after handling the event itself.
func NewAgentStation(
	m *btl.Module, a *Agent, watch func(*btl.Endpoint, btl.Event, error),
) (*Station, error) {
	return newStation(&Station{m: m, agent: a, party: a, watch: watch})
}

// NewManagerStation makes a Station for a manager on the module. Each host that connects is allowed
// to register, and the manager accepts a host after the Prover has verified the host's addresses.
// If the argument "prover" is nil, as in simulations, the manager only checks that the registered
// endpoint names have the host address of the connection.
func NewManagerStation(m *btl.Module, manager *Manager, prover *Prover) (*Station, error) {
	s := &Station{m: m, manager: manager, party: manager}
	manager.proves, manager.prover = s.proves, prover
	return newStation(s)
}

// The method "proves" reports whether all endpoint names in w belong to the peer of a connection.
// The endpoint names must be on the peer's host, and w.Module must be the name of the peer's
// module. The endpoint names of a host must be checked, because all hosts of a switch send frames
// to these names without a handshake.
func (s *Station) proves(conn int, w *Ways) bool {
	ep := s.eps[conn]
	elsewhere := func(name []byte) bool { return !ep.AtHost(name) }
	return ep != nil && ep.IsModule(w.Module) && !slices.ContainsFunc(w.Receive, elsewhere) &&
		!slices.ContainsFunc(w.Send, elsewhere)
}

func newStation(s *Station) (*Station, error) {
	s.conns, s.eps = make(map[*btl.Endpoint]int), make(map[int]*btl.Endpoint)
	s.waiting = make(map[int][][]byte)
	s.m.OnEndpoint(s.event)
	s.m.OnRoom(s.room)
	return s, s.m.HandleUpTo(TagManagement, MessageBytesMax, s.receive)
}

// Dial connects an agent to the manager's module with the given name, and sends the registration.
// The argument "now" of Dial is the current time. The result "conn" of Dial is the number of the
// new connection, for calls of Alive.
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

// Alive reports whether the connection with the number "conn" is open or being opened.
func (s *Station) Alive(conn int) bool { return s.eps[conn] != nil }

// Connected returns the number of connections to managers or agents, including connections that are
// being opened.
func (s *Station) Connected() int { return len(s.conns) }

func (s *Station) add(ep *btl.Endpoint) {
	s.last++
	s.conns[ep], s.eps[s.last] = s.last, ep
}

func (s *Station) event(ep *btl.Endpoint, ev btl.Event, err error) {
	if conn := s.conns[ep]; conn != 0 && ev != btl.EventConnected {
		delete(s.conns, ep)
		delete(s.eps, conn)
		delete(s.waiting, conn)
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

// Progress calls the Progress of the module, and sends the messages of the agent or manager.
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
	for _, o := range s.party.Outbox() {
		s.send(o)
	}
	if s.manager != nil { // after the messages with the reason
		for _, conn := range s.manager.Failed() {
			if ep := s.eps[conn]; ep != nil {
				ep.Close(now)
			}
		}
	}
	return n, nil
}

// send passes a message to the module. If earlier messages for a connection wait, a further message
// waits behind them, so that the messages of a connection keep their order.
func (s *Station) send(o Outgoing) {
	ep := s.eps[o.Conn]
	if ep == nil { // the connection has ended
		return
	}
	waiting := s.waiting[o.Conn]
	switch {
	case len(waiting) == 0 && s.offer(ep, o.Data):
	case len(waiting) == waitingMax:
		delete(s.waiting, o.Conn)
		ep.Abort()
	default:
		s.waiting[o.Conn] = append(waiting, o.Data)
	}
}

// offer offers a message to the module. The result of the method "offer" is false if the module
// cannot accept the message yet. If the method "offer" returns false, the module later calls the
// method "room".
func (s *Station) offer(ep *btl.Endpoint, data []byte) bool {
	s.offers++
	// If sendCopy returns an error that is not ErrAgain, the endpoint is being closed. The module
	// will then call Station.event.
	return !errors.Is(sendCopy(s.now, ep, TagManagement, data), btl.ErrAgain)
}

// The module calls the method "room" when it can accept a message that it could not accept before.
// Because the module calls the method "room", a call of Progress need not examine the messages that
// wait for slow peers.
func (s *Station) room(ep *btl.Endpoint) {
	conn := s.conns[ep]
	waiting := s.waiting[conn]
	n := 0
	for n < len(waiting) && s.offer(ep, waiting[n]) {
		n++
	}
	clear(waiting[:n])
	if s.waiting[conn] = waiting[n:]; n == len(waiting) {
		delete(s.waiting, conn)
	}
}

// sendCopy sends a copy of data on the endpoint.
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

// Deadline returns the time at which the caller must next call Progress of the Station if no packet
// arrives.
func (s *Station) Deadline() mono.Time {
	at := s.m.Deadline()
	if s.manager != nil {
		at = at.Min(s.manager.Deadline()).Min(s.manager.proveAt(s.now))
	}
	return at
}
