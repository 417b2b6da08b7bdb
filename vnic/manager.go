package vnic

import (
	"fmt"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// ManagerConfig says who a manager is.
type ManagerConfig struct {
	Name     string
	Instance uint64        // random, for this life
	Lease    time.Duration // how long agents obey it after it was last heard of; 0 means 5 s
}

const (
	leaseDefault    = 5 * time.Second
	answerTimeout   = 3 * time.Second
	trapsRemembered = 256
	conflictsMax    = 64
)

// Manager is the Ethernet Manager: it brings the agents to what its Plan says.
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
	// Stats are for people.
	Stats ManagerStats
}

// ManagerStats count management messages.
type ManagerStats struct {
	Requests  uint64 `json:"requests"`
	Responses uint64 `json:"responses"`
	Refused   uint64 `json:"refused"` // responses with another status than OK
	Malformed uint64 `json:"malformed"`
	Strangers uint64 `json:"strangers"` // registrations that were not accepted
	Traps     uint64 `json:"traps"`
}

// HostState is what a manager knows of a host. It stays when the host is gone.
type HostState struct {
	Name      string           `json:"name"`
	LID       uint32           `json:"lid"`
	Connected bool             `json:"connected"`
	Synced    bool             `json:"synced"` // it is as the plan wants it
	Problem   string           `json:"problem,omitempty"`
	Links     map[uint8]bool   `json:"links"` // by port: the link is up
	ways      Ways             // as it registered last
	known     bool             // ways holds
	unicast   map[uint8][]MAC  // by port: addresses that its device reports
	SyncedAt  mono.Time        `json:"-"`
	Digests   map[uint8]uint32 `json:"digests"` // of MAC tables, as the host tells them
}

// TrapSeen is a trap and where it came from.
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
	queue   []request
	pending *request
	tid     uint64
	sentAt  mono.Time
	leaseAt mono.Time // when it is due again
	leased  bool
	dirty   bool
}

type wantKey struct {
	vport uint8
	attr  Attribute
}

// request is a message to an agent, and what it means once it is confirmed.
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
	}
}

// Config returns what the manager was made with.
func (m *Manager) Config() ManagerConfig { return m.cfg }

// SetPlan makes a plan that was completed the one to follow. Only what differs is sent.
func (m *Manager) SetPlan(p *Plan) {
	m.plan = p
	for _, s := range m.sessions {
		if s.host != nil && p.lidOf(s.host.Name) != s.host.LID {
			m.failed = append(m.failed, s.conn) // it is another host now, or none
		}
	}
	for name, h := range m.hosts {
		if p.lidOf(name) == 0 {
			delete(m.hosts, name)
			continue
		}
		h.LID = p.lidOf(name)
	}
	for _, h := range p.Hosts {
		m.hostState(h.Name, h.LID)
	}
	for _, s := range m.sessions {
		s.touch()
	}
}

func (m *Manager) hostState(name string, lid uint32) *HostState {
	h := m.hosts[name]
	if h == nil {
		h = &HostState{
			Name: name, LID: lid, Links: make(map[uint8]bool), unicast: make(map[uint8][]MAC),
			Digests: make(map[uint8]uint32),
		}
		m.hosts[name] = h
	}
	return h
}

// touch has a session compare what is with what shall be.
func (s *session) touch() { s.dirty, s.host.Synced = true, false }

// touchNear touches the sessions of all hosts that share a switch with one.
func (m *Manager) touchNear(host string) {
	for name := range m.plan.near(host) {
		if s := m.byHost[name]; s != nil {
			s.touch()
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

// Plan returns the plan that is followed.
func (m *Manager) Plan() *Plan { return m.plan }

// Outbox returns the messages to send, and forgets them.
func (m *Manager) Outbox() []Outgoing {
	out := m.out
	m.out = nil
	return out
}

// Failed returns the connections that are to be ended, and forgets them.
func (m *Manager) Failed() []int {
	f := m.failed
	m.failed = nil
	return f
}

// Disconnect tells that a connection is gone.
func (m *Manager) Disconnect(conn int) {
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

// Receive handles a message that came by a connection; its number is not 0.
func (m *Manager) Receive(now mono.Time, conn int, b []byte) {
	msg, err := ParseMessage(b)
	if err != nil {
		m.Stats.Malformed++
		return
	}
	s := m.sessions[conn]
	switch {
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

// register accepts a host of the plan that is not connected yet.
func (m *Manager) register(now mono.Time, conn int, msg *Message) {
	r, err := ParseRegistration(msg.Data)
	status := StatusOK
	switch {
	case err != nil || r.Manager != m.cfg.Name || m.plan.lidOf(r.Host) == 0:
		status = StatusInvalid
	case m.byHost[r.Host] != nil:
		status = StatusBusy
	}
	answer := msg.Response(status, nil)
	m.out = append(m.out, Outgoing{conn, answer.Append(nil)})
	if status != StatusOK {
		m.Stats.Strangers++
		m.failed = append(m.failed, conn)
		return
	}
	h := m.hostState(r.Host, m.plan.lidOf(r.Host))
	changed := !h.known || !h.ways.Equal(&r.Ways)
	h.ways, h.known, h.Connected, h.Problem = r.Ways, true, true, ""
	s := &session{
		conn: conn, host: h, acked: make(map[wantKey]string), leaseAt: now, dirty: true,
	}
	for n := 1; n <= VportMax; n++ {
		if r.Ports[n/8]>>(n%8)&1 != 0 {
			s.vesw[n] = VESWMax + 1 // on some switch: asked for below
			s.ask(uint8(n), AttrVportInfo, nil)
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

// keepAsks forgets what was to be set. What was to be asked is still to be known.
func (s *session) keepAsks() {
	s.queue = slices.DeleteFunc(s.queue, func(r request) bool { return r.method != MethodGet })
}

// response ends the pending request.
func (m *Manager) response(now mono.Time, s *session, msg *Message) {
	m.Stats.Responses++
	r := s.pending
	if r == nil || msg.TID != s.tid || msg.Attr != r.attr {
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
		s.host.Problem = "another manager has the lease"
		if l, err := ParseLease(msg.Data); err == nil {
			s.host.Problem = fmt.Sprintf("another manager, %s %016x, has the lease", l.Manager, l.Instance)
		}
		return
	case msg.Status != StatusOK:
		m.Stats.Refused++
		s.host.Problem = fmt.Sprintf("port %d: attribute %#x refused: status %#x", msg.Vport(),
			uint16(msg.Attr), uint16(msg.Status))
	}
	switch {
	case r.attr == AttrLease:
		s.leased = msg.Status == StatusOK
		s.leaseAt = now.Add(m.cfg.Lease / 3)
		if !s.leased {
			s.keepAsks()
		}
	case r.method == MethodGet:
		m.told(s, r, msg)
	case r.last:
		// A refused one, too: asking again for the same would be refused again.
		s.acked[wantKey{msg.Vport(), r.attr}] = r.content
	}
}

// told takes in the answer to a Get.
func (m *Manager) told(s *session, r *request, msg *Message) {
	if msg.Status != StatusOK {
		return
	}
	vport := msg.Vport()
	switch r.attr {
	case AttrVportInfo:
		info, err := ParseVportInfo(msg.Data)
		if err != nil {
			m.Stats.Malformed++
			return
		}
		s.host.Links[vport] = info.LinkStatus == LinkUp
		s.host.Digests[vport] = info.MACDigest
		s.vesw[vport] = info.VESW
		w, ok := m.wantedPort(s.host.Name, vport)
		if ok && w.info.VESW == info.VESW && w.digest == info.MACDigest {
			s.acked[wantKey{vport, AttrMACEntries}] = contentOf(w.rows)
		}
	case AttrUnicastMACs:
		l, err := ParseMACList(msg.Data)
		if err != nil {
			m.Stats.Malformed++
			return
		}
		if l.Start == 0 {
			s.host.unicast[vport] = nil
		}
		s.host.unicast[vport] = append(s.host.unicast[vport], l.MACs...)
		if next := l.Start + l.Num; l.Num > 0 && next < l.Total && next <= listMax {
			more := MACList{Start: next}
			s.ask(vport, AttrUnicastMACs, more.Append(nil))
			return
		}
		m.touchNear(s.host.Name)
	default: // nothing else is asked for
	}
}

// trap notes a trap and asks for what it tells of.
func (m *Manager) trap(now mono.Time, s *session, msg *Message) {
	t, err := ParseTrap(msg.Data)
	if err != nil {
		m.Stats.Malformed++
		return
	}
	m.Stats.Traps++
	if len(m.traps) == trapsRemembered {
		m.traps = slices.Delete(m.traps, 0, 1)
	}
	m.traps = append(m.traps, TrapSeen{now, s.host.Name, t})
	if t.Opcode == TrapMulticast {
		return
	}
	attr, data := AttrVportInfo, []byte(nil)
	if t.Opcode == TrapUnicast {
		attr, data = AttrUnicastMACs, (&MACList{}).Append(nil)
	}
	if !slices.ContainsFunc(s.queue, func(r request) bool {
		return r.method == MethodGet && r.attr == attr && r.mod == uint32(t.Index)
	}) {
		s.ask(t.Index, attr, data)
	}
}
