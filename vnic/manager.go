package vnic

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// ManagerConfig identifies a manager.
type ManagerConfig struct {
	Name     string
	Instance uint64        // random, for this life
	Lease    time.Duration // duration of the lease after each message to an agent; 0 means 5 s
}

const (
	leaseDefault    = 5 * time.Second
	answerTimeout   = 3 * time.Second
	trapsRemembered = 256
)

// Manager is the Ethernet Manager. It configures the agents according to its Plan.
type Manager struct {
	cfg      ManagerConfig
	plan     *Plan
	sessions map[int]*session
	byHost   map[string]*session
	hosts    map[string]*HostState
	out      []Outgoing
	failed   []int
	traps    []TrapSeen
	tid      uint64
	// proves reports whether the names that a host registers lead to the validated source of its
	// connection. nil: unknown.
	proves func(conn int, w *Ways) bool
	// prover proves registered addresses. nil: nothing is proven.
	prover   *Prover
	provings map[int]*proving // by connection
	// Stats are for people.
	Stats ManagerStats
}

// ManagerStats count management messages.
type ManagerStats struct {
	Requests  uint64 `json:"requests"`
	Responses uint64 `json:"responses"`
	Refused   uint64 `json:"refused"` // responses with a status other than OK
	Malformed uint64 `json:"malformed"`
	Strangers uint64 `json:"strangers"` // registrations that were not accepted
	Unproven  uint64 `json:"unproven"`  // of those, with an address that was not proven
	Older     uint64 `json:"older"`     // of those, from agents that cannot prove addresses
	Traps     uint64 `json:"traps"`
	// TrapsIgnored counts traps of hosts that send more than agents do.
	TrapsIgnored uint64 `json:"traps_ignored"`
}

// HostState is the state of a host in a manager. It is kept after the host has gone.
type HostState struct {
	Name      string           `json:"name"`
	LID       uint32           `json:"lid"`
	Connected bool             `json:"connected"`
	Synced    bool             `json:"synced"` // the host is configured as planned
	Problem   string           `json:"problem,omitempty"`
	Links     map[uint8]bool   `json:"links"` // by port: the link is up
	SyncedAt  mono.Time        `json:"-"`
	Digests   map[uint8]uint32 `json:"digests"` // of MAC tables, as the host tells them

	ways     Ways              // as it registered last
	known    bool              // ways holds
	unicast  map[uint8]*report // by port: addresses that its device reports
	problems map[wantKey]string
}

// report is what is known of the addresses that a port's device reports.
type report struct {
	macs []MAC // ascending
	// told means that the host has reported its addresses since the manager started. Until then
	// macs has the addresses that the tables of other hosts still contain from an earlier manager.
	told       bool
	generation uint16
}

// problem records the fault of a part of a host, or with an empty text that the fault is gone.
// Problem is the first of all faults.
func (h *HostState) problem(k wantKey, text string) {
	if text == "" {
		delete(h.problems, k)
	} else {
		h.problems[k] = text
	}
	h.Problem = ""
	first := wantKey{VportMax, ^Attribute(0)}
	for k, text := range h.problems {
		if k.vport < first.vport || k.vport == first.vport && k.attr <= first.attr {
			first, h.Problem = k, text
		}
	}
}

// reportOf is never nil.
func (h *HostState) reportOf(vport uint8) *report {
	r := h.unicast[vport]
	if r == nil {
		r = &report{}
		h.unicast[vport] = r
	}
	return r
}

// TrapSeen is a trap with its sender.
type TrapSeen struct {
	At   mono.Time
	Host string
	Trap Trap
}

// session is a connection to an agent.
type session struct {
	conn    int
	host    *HostState
	acked   map[wantKey]string // what the agent has confirmed
	vesw    [VportMax + 1]uint16
	pages   map[uint8]*pages // lists of addresses that come in pages
	queue   []request
	pending *request
	tid     uint64
	sentAt  mono.Time
	leaseAt mono.Time // when it is due again
	looked  uint8     // the last port that was looked at unasked
	window  mono.Time // of traps: when it began
	traps   int       // that have come in it
	// compared counts the comparisons with the plan since the lease was renewed, or since the plan
	// or another host has changed what is planned.
	compared int
	leased   bool
	dirty    bool
	leaving  bool // the plan has the host no more, or under another LID: it ends when all is deleted
}

type wantKey struct {
	vport uint8
	attr  Attribute
}

// request is a message to an agent, with its effect after confirmation.
type request struct {
	method  Method
	attr    Attribute
	mod     uint32
	data    []byte
	last    bool
	content string // what is acked with the last message
}

// NewManager returns a manager without a plan.
func NewManager(cfg ManagerConfig) *Manager {
	if cfg.Lease == 0 {
		cfg.Lease = leaseDefault
	}
	cfg.Lease = min(cfg.Lease, LeaseMsMax*time.Millisecond)
	return &Manager{
		cfg: cfg, plan: &Plan{}, sessions: make(map[int]*session),
		byHost: make(map[string]*session), hosts: make(map[string]*HostState),
		provings: make(map[int]*proving),
	}
}

// Config returns the configuration of the manager.
func (m *Manager) Config() ManagerConfig { return m.cfg }

// SetPlan sets the plan, on which Complete must have been called. Only the differences are sent to
// the agents.
func (m *Manager) SetPlan(p *Plan) {
	m.plan = p
	for name, h := range m.hosts {
		if p.lidOf(name) != h.LID {
			delete(m.hosts, name)
		}
	}
	for _, h := range p.Hosts {
		m.hostState(h.Name, h.LID)
	}
	for _, s := range m.sessions {
		s.leaving = m.hosts[s.host.Name] != s.host // it is another host now, or none
		s.touch()
		s.compared = 0
	}
}

func (m *Manager) hostState(name string, lid uint32) *HostState {
	h := m.hosts[name]
	if h == nil {
		h = &HostState{
			Name: name, LID: lid, Links: make(map[uint8]bool), unicast: make(map[uint8]*report),
			Digests: make(map[uint8]uint32), problems: make(map[wantKey]string),
		}
		m.hosts[name] = h
	}
	return h
}

// comparedMax bounds the comparisons of a host with what does not change. A host that is never as
// the manager told it to be would have the manager compare without end.
const comparedMax = 256

// differs reports whether a session must compare the state of its host with the plan now.
func (s *session) differs() bool { return s.dirty && s.compared < comparedMax }

// touch makes a session compare the state of its host with the plan.
func (s *session) touch() { s.dirty, s.host.Synced = true, false }

// touchNear touches the sessions of all hosts that share a switch with one.
func (m *Manager) touchNear(host string) {
	for name := range m.plan.near(host) {
		if s := m.byHost[name]; s != nil {
			s.touch()
			if name != host {
				s.compared = 0
			}
		}
	}
}

// Hosts lists the hosts of the plan by name.
func (m *Manager) Hosts() []*HostState {
	all := make([]*HostState, 0, len(m.hosts))
	for _, h := range m.hosts {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *HostState) int { return int(a.LID) - int(b.LID) })
	return all
}

// Traps lists the latest traps, the oldest first.
func (m *Manager) Traps() []TrapSeen { return slices.Clone(m.traps) }

// Plan returns the present plan.
func (m *Manager) Plan() *Plan { return m.plan }

// Outbox returns the messages to send, and forgets them.
func (m *Manager) Outbox() []Outgoing {
	out := m.out
	m.out = nil
	return out
}

// Failed returns the connections that the caller must close, and removes them from the manager.
func (m *Manager) Failed() []int {
	f := m.failed
	m.failed = nil
	return f
}

// Disconnect reports that a connection is gone.
func (m *Manager) Disconnect(conn int) {
	if p := m.provings[conn]; p != nil {
		delete(m.provings, conn)
		m.release(p)
	}
	s := m.sessions[conn]
	if s == nil {
		return
	}
	delete(m.sessions, conn)
	if s.host != nil && m.byHost[s.host.Name] == s {
		delete(m.byHost, s.host.Name)
		s.host.Connected, s.host.Synced = false, false
	}
}

// Receive handles a message of a connection, whose number is not 0.
func (m *Manager) Receive(now mono.Time, conn int, b []byte) {
	msg, err := ParseMessage(b)
	if err != nil {
		m.Stats.Malformed++
		return
	}
	s := m.sessions[conn]
	p := m.provings[conn]
	switch {
	case p != nil:
		m.proofMessage(now, p, &msg)
	case msg.Method == MethodSet && msg.Attr == AttrRegister && s == nil:
		m.register(now, conn, &msg)
	case s == nil:
		m.Stats.Strangers++
	case msg.Method == MethodResponse:
		m.response(now, s, &msg)
	case msg.Method == MethodTrap:
		m.trap(now, s, &msg)
	default:
		m.Stats.Malformed++
	}
}

// register accepts a host of the plan that is not connected yet, after its addresses are proven.
func (m *Manager) register(now mono.Time, conn int, msg *Message) {
	r, err := ParseRegistration(msg.Data)
	status := StatusInvalid
	if err == nil {
		status = m.admits(&r)
	}
	if status != StatusInvalid && m.proves != nil && !m.proves(conn, &r.Ways) {
		m.Stats.Unproven++
		status = StatusUnproven
	}
	if status == StatusOK && m.prover != nil {
		if status = m.prove(now, conn, msg, &r); status == StatusOK {
			return // It is answered later.
		}
	}
	m.answer(now, conn, msg, &r, status)
}

// admits returns StatusOK if a registration may have its host's place, as far as the manager
// knows, or the reason why it may not.
func (m *Manager) admits(r *Registration) Status {
	switch {
	case r.Manager != m.cfg.Name || m.plan.lidOf(r.Host) == 0 || !r.Ways.complete():
		return StatusInvalid
	case m.byHost[r.Host] != nil || m.claimed(r):
		return StatusBusy
	}
	return StatusOK
}

// answer answers a registration, and accepts its host if the status is StatusOK.
func (m *Manager) answer(now mono.Time, conn int, msg *Message, r *Registration, status Status) {
	answer := msg.Response(status, nil)
	m.out = append(m.out, Outgoing{conn, answer.Append(nil)})
	if status != StatusOK {
		m.Stats.Strangers++
		m.failed = append(m.failed, conn)
		return
	}
	m.unclaim(r)
	h := m.hostState(r.Host, m.plan.lidOf(r.Host))
	changed := !h.known || !h.ways.Equal(&r.Ways)
	h.ways, h.known, h.Connected = r.Ways, true, true
	clear(h.problems)
	h.problem(wantKey{}, "")
	clear(h.Digests)
	s := &session{
		conn: conn, host: h, acked: make(map[wantKey]string), pages: make(map[uint8]*pages),
		leaseAt: now, dirty: true,
	}
	for n := 1; n <= VportMax; n++ {
		if r.Ports[n/8]>>(n%8)&1 != 0 {
			s.vesw[n] = VESWMax + 1 // on some switch: asked for below
			s.ask(uint8(n), AttrVportInfo, nil)
		} else if h.unicast[uint8(n)] != nil {
			m.takeReport(s, uint8(n), report{told: true}) // its device is yet to be made
		}
	}
	for _, ref := range m.plan.ports[r.Host] {
		if n := m.plan.Switches[ref.of].Ports[ref.at].Vport; s.vesw[n] == 0 {
			h.reportOf(n).told = true // likewise
		}
	}
	m.sessions[conn], m.byHost[r.Host] = s, s
	if changed {
		m.touchNear(r.Host)
	}
}

func (s *session) ask(vport uint8, attr Attribute, data []byte) {
	s.queue = append(s.queue, request{
		method: MethodGet, attr: attr, mod: uint32(vport), data: data, last: true,
	})
}

// askOnce asks unless that is to be asked already.
func (s *session) askOnce(vport uint8, attr Attribute, data []byte) {
	if !slices.ContainsFunc(s.queue, func(r request) bool {
		return r.method == MethodGet && r.attr == attr && r.mod == uint32(vport)
	}) {
		s.ask(vport, attr, data)
	}
}

// reviewPorts is the number of ports that are checked with each renewal of the lease. The check is
// needed because traps may be lost; the fifth trap in a window always is.
const reviewPorts = 4

// review asks for the state of the next ports.
func (s *session) review() {
	asked := 0
	for range VportMax {
		s.looked = s.looked%VportMax + 1
		if n := s.looked; s.vesw[n] != 0 && s.acked[wantKey{n, AttrVportInfo}] != "" {
			s.askOnce(n, AttrVportInfo, nil)
			if asked++; asked == reviewPorts {
				return
			}
		}
	}
}

// sharesName reports whether a host has a name of another host that registers.
func (h *HostState) sharesName(r *Registration) bool {
	return h.Name != r.Host && h.known && h.ways.shares(&r.Ways)
}

// claimed reports whether another connected host has a name of this host. Frames of one would then
// be attributed to the other.
func (m *Manager) claimed(r *Registration) bool {
	for _, h := range m.hosts {
		if h.Connected && h.sharesName(r) {
			return true
		}
	}
	return false
}

// unclaim takes the names of an accepted host away from hosts that are not connected.
func (m *Manager) unclaim(r *Registration) {
	for _, h := range m.hosts {
		if !h.Connected && h.sharesName(r) {
			h.known = false
			m.touchNear(h.Name)
		}
	}
}

// keepAsks removes the queued Sets and keeps the queued Gets.
func (s *session) keepAsks() {
	s.queue = slices.DeleteFunc(s.queue, func(r request) bool { return r.method != MethodGet })
}

// response ends the pending request.
func (m *Manager) response(now mono.Time, s *session, msg *Message) {
	m.Stats.Responses++
	r := s.pending
	if r == nil || msg.TID != s.tid || msg.Attr != r.attr || msg.Modifier != r.mod {
		m.Stats.Malformed++
		return
	}
	s.pending = nil
	switch {
	case msg.Status == StatusBusy:
		m.Stats.Refused++
		s.leased, s.dirty = false, true
		s.keepAsks()
		s.leaseAt = now.Add(m.cfg.Lease / 3)
		s.host.Synced = false
		text := "another manager has the lease"
		if l, err := ParseLease(msg.Data); err == nil {
			text = fmt.Sprintf("another manager, %s %016x, has the lease", l.Manager, l.Instance)
		}
		s.host.problem(wantKey{0, AttrLease}, text)
		return
	case msg.Status != StatusOK:
		m.Stats.Refused++
		s.host.problem(wantKey{msg.Vport(), r.attr}, fmt.Sprintf("port %d: attribute %#x refused: "+
			"status %#x", msg.Vport(), uint16(msg.Attr), uint16(msg.Status)))
	case r.last:
		s.host.problem(wantKey{msg.Vport(), r.attr}, "")
	}
	switch {
	case r.attr == AttrLease:
		s.leased = msg.Status == StatusOK
		s.leaseAt, s.compared = now.Add(m.cfg.Lease/3), 0
		if !s.leased {
			s.keepAsks()
			return
		}
		s.review()
	case r.method == MethodGet:
		m.told(s, r, msg)
	case r.last:
		// A refused request also counts as done, because the same request would be refused again.
		s.acked[wantKey{msg.Vport(), r.attr}] = r.content
	}
}
