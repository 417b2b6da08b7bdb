package vnic

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// ManagerConfig holds the name of a manager, the number of its run, and the duration of its leases.
type ManagerConfig struct {
	Name     string
	Instance uint64        // random number of this run of the manager
	Lease    time.Duration // duration of the lease after each renewal; 0 means 5 s
}

const (
	leaseDefault    = 5 * time.Second
	answerTimeout   = 3 * time.Second
	trapsRemembered = 256
)

// Manager is the Ethernet Manager. A manager configures the agents according to its Plan.
type Manager struct {
	cfg        ManagerConfig
	plan       *Plan
	sessions   map[int]*session
	conns      []int // of the sessions, ascending
	byHost     map[string]*session
	hosts      map[string]*HostState
	names      map[endpointName]*HostState // by the names of the hosts that are known
	out        []Outgoing
	failed     []int
	traps      []TrapSeen
	tid        uint64
	claimsMade uint64          // latest claim number (see the method "claim")
	waysMade   uint64          // number of changes of the hosts' endpoint names
	tables     []*switchTables // by the switch's index in the plan; nil: not made yet
	changed    []*HostState    // hosts whose latest changes are not in the switches' tables yet
	// The function "proves" reports whether all endpoint names that a host registers belong to the
	// validated source address of the host's connection. If the function "proves" is nil, the manager
	// does not check whether registered names belong to the host's connection.
	proves func(conn int, w *Ways) bool
	// The field "prover" verifies registered addresses by datagrams. If the field "prover" is nil, the
	// manager does not verify addresses by datagrams.
	prover   *Prover
	provings provings
	// Stats are counters for the operator.
	Stats ManagerStats
}

// ManagerStats holds the numbers of a manager's requests, of the responses to them, of refused
// registrations, and of traps.
type ManagerStats struct {
	Requests  uint64 `json:"requests"`
	Responses uint64 `json:"responses"`
	Refused   uint64 `json:"refused"` // responses with a status other than OK
	Malformed uint64 `json:"malformed"`
	Strangers uint64 `json:"strangers"` // registrations that were not accepted
	Unproven  uint64 `json:"unproven"`  // registrations refused: an address could not be verified
	Older     uint64 `json:"older"`     // registrations refused: the agent cannot prove addresses
	Traps     uint64 `json:"traps"`
	// TrapsIgnored counts the traps that are ignored because their host exceeds the limit trapsHeard.
	TrapsIgnored uint64 `json:"traps_ignored"`
	// TablesMade is the number of times that the manager has made the tables of a switch, summed over
	// all switches.
	TablesMade uint64 `json:"tables_made"`
}

// HostState is the state of a host in a manager. The manager does not delete the HostState of a
// host when the host disconnects.
type HostState struct {
	Name      string           `json:"name"`
	LID       uint32           `json:"lid"`
	Connected bool             `json:"connected"`
	Synced    bool             `json:"synced"` // the host is configured as planned
	Problem   string           `json:"problem,omitempty"`
	Links     map[uint8]bool   `json:"links"` // by port: the link is up
	SyncedAt  mono.Time        `json:"-"`
	Digests   map[uint8]uint32 `json:"digests"` // by port: digest of the MAC table that the host has

	ways     Ways              // as in the host's latest registration
	known    bool              // ways is valid
	unicast  map[uint8]*report // by port: addresses that its device reports
	problems map[wantKey]string
	others   map[uint8]*rowsTold // by port: number of rows that were read from the port's MAC table

	changed bool      // the host is in Manager.changed
	first   bool      // the host's first addresses or endpoint names are not in the tables yet
	window  mono.Time // start of the present window of changes
	changes int       // changes put into tables in the present window
}

// The type "report" holds the MAC addresses of a port's device, as its host has reported them.
type report struct {
	macs []MAC // ascending
	// The field "told" of a report is true if the host has reported its addresses since the start of
	// this manager. While "told" is false, the field "macs" has the addresses that the host reported
	// to an earlier manager.
	told bool
	// While "told" is false, the map "by" has for each address the LID of the host from whose MAC
	// table the manager has read the address.
	by         map[MAC]uint32
	generation uint16
	// The field "since" of a report has a claim number for each address. Claim numbers ascend in the
	// order in which all hosts have reported their addresses. An address of a host that is not
	// connected has no entry in "since".
	since map[MAC]uint64
}

// The method "problem" records the fault "text" for an attribute of a host's port. If "text" is
// empty, the method "problem" removes the fault. HostState.Problem is the recorded fault with the
// lowest port number and, for this port, the lowest attribute.
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

// reportOf returns the report of a port. reportOf never returns nil.
func (h *HostState) reportOf(vport uint8) *report {
	r := h.unicast[vport]
	if r == nil {
		r = &report{}
		h.unicast[vport] = r
	}
	return r
}

// TrapSeen is a received trap with its sender.
type TrapSeen struct {
	At   mono.Time
	Host string
	Trap Trap
}

// session is a connection to an agent.
type session struct {
	conn    int
	host    *HostState
	acked   map[wantKey]string // contents that the agent has acknowledged
	vesw    [VportMax + 1]uint16
	pages   map[uint8]*pages // by port: a list of addresses, partly received
	queue   []request
	pending *request
	tid     uint64
	sentAt  mono.Time
	leaseAt mono.Time // when the lease must be renewed
	looked  uint8     // last port that review has checked
	window  mono.Time // start of the present window of traps
	traps   int       // traps received in the present window
	// The field "compared" is the number of comparisons of the agent's configuration with the plan
	// since the latest renewal of the lease. A change of the plan, or of another host that shares a
	// switch with the host of this session (connection), sets the field "compared" to 0.
	compared int
	leased   bool
	dirty    bool
	leaving  bool   // the host is not in the plan, or has a different LID in the plan
	waysSeen uint64 // Manager.waysMade at the latest comparison of the endpoint names
}

type wantKey struct {
	vport uint8
	attr  Attribute
}

type request struct {
	method  Method
	attr    Attribute
	mod     uint32
	data    []byte
	last    bool
	content string // stored in session.acked when the agent acknowledges the last message
}

// NewManager returns a manager with an empty plan.
func NewManager(cfg ManagerConfig) *Manager {
	if cfg.Lease == 0 {
		cfg.Lease = leaseDefault
	}
	cfg.Lease = min(cfg.Lease, LeaseMsMax*time.Millisecond)
	return &Manager{
		cfg: cfg, plan: &Plan{}, sessions: make(map[int]*session),
		byHost: make(map[string]*session), hosts: make(map[string]*HostState),
		names:    make(map[endpointName]*HostState),
		provings: newProvings(),
	}
}

// Config returns the configuration that was passed to NewManager.
func (m *Manager) Config() ManagerConfig { return m.cfg }

// SetPlan replaces the planned configuration of all hosts. The caller must have called Complete on
// the plan. After SetPlan the manager sends only the differences between the old and the new plan
// to the agents.
func (m *Manager) SetPlan(p *Plan) {
	m.plan, m.tables = p, make([]*switchTables, len(p.Switches))
	m.waysMade++
	for name, h := range m.hosts {
		if p.lidOf(name) != h.LID {
			m.forgetNames(h)
			delete(m.hosts, name)
		}
	}
	for _, h := range p.Hosts {
		m.hostState(h.Name, h.LID)
	}
	for name, h := range m.hosts {
		maps.DeleteFunc(h.unicast, func(vport uint8, _ *report) bool { return !p.hasPort(name, vport) })
	}
	for _, s := range m.sessions {
		s.leaving = m.hosts[s.host.Name] != s.host // renamed, removed, or with another LID
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
			others: make(map[uint8]*rowsTold),
		}
		m.hosts[name] = h
	}
	return h
}

// comparedMax is the largest number of comparisons with the plan between two renewals of the
// lease.
const comparedMax = 256

// The method "differs" reports whether the manager must compare the configuration of the agent on
// this session (connection) with the plan in the next call of Progress.
func (s *session) differs() bool { return s.dirty && s.compared < comparedMax }

// touch makes the manager compare the configuration of the agent on this session (connection) with
// the plan in a later call of Progress.
func (s *session) touch() { s.dirty, s.host.Synced = true, false }

// Hosts lists the hosts of the plan by LID.
func (m *Manager) Hosts() []*HostState {
	all := make([]*HostState, 0, len(m.hosts))
	for _, h := range m.hosts {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *HostState) int { return int(a.LID) - int(b.LID) })
	return all
}

// Traps lists the latest received traps (at most 256), the oldest first.
func (m *Manager) Traps() []TrapSeen { return slices.Clone(m.traps) }

// Plan returns the plan in use.
func (m *Manager) Plan() *Plan { return m.plan }

// Outbox returns the messages that the caller must send, and removes the messages from the manager.
func (m *Manager) Outbox() []Outgoing {
	out := m.out
	m.out = nil
	return out
}

// Failed returns the connections that the caller must close, and removes the connections from the
// manager.
func (m *Manager) Failed() []int {
	f := m.failed
	m.failed = nil
	return f
}

// Disconnect tells the manager that the connection with the number "conn" has ended.
func (m *Manager) Disconnect(conn int) {
	if p := m.provings.byConn[conn]; p != nil {
		m.release(p)
	}
	s := m.sessions[conn]
	if s == nil {
		return
	}
	delete(m.sessions, conn)
	if i, ok := slices.BinarySearch(m.conns, conn); ok {
		m.conns = slices.Delete(m.conns, i, i+1)
	}
	if s.host != nil && m.byHost[s.host.Name] == s {
		delete(m.byHost, s.host.Name)
		s.host.Connected, s.host.Synced = false, false
		m.unclaimAll(s.host)
	}
}

// Receive handles a message that has arrived on the connection with the number "conn". The number
// of a connection must not be 0.
func (m *Manager) Receive(now mono.Time, conn int, b []byte) {
	msg, err := ParseMessage(b)
	if err != nil {
		m.Stats.Malformed++
		return
	}
	s := m.sessions[conn]
	p := m.provings.byConn[conn]
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

// register handles a registration. register accepts a host if the host is in the plan, is not
// connected yet, and has proven its addresses.
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
			return // answered after the verification
		}
	}
	m.answer(now, conn, msg, &r, status)
}

// admits checks a registration before the verification of addresses. The result of admits is
// StatusOK, or the reason why the manager must refuse the registration.
func (m *Manager) admits(r *Registration) Status {
	switch {
	case r.Manager != m.cfg.Name || m.plan.lidOf(r.Host) == 0 || !r.Ways.complete():
		return StatusInvalid
	case m.byHost[r.Host] != nil || m.claimed(r):
		return StatusBusy
	}
	return StatusOK
}

// The method "answer" sends the response to a registration, and accepts the host if "status" is
// StatusOK.
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
	changed, first := !h.known || !h.ways.Equal(&r.Ways), len(h.ways.Module) == 0
	m.forgetNames(h)
	h.ways, h.known, h.Connected = r.Ways, true, true
	m.keepNames(h)
	clear(h.problems)
	h.problem(wantKey{}, "")
	clear(h.Digests)
	s := &session{
		conn: conn, host: h, acked: make(map[wantKey]string), pages: make(map[uint8]*pages),
		leaseAt: now, dirty: true,
	}
	for n := 1; n <= VportMax; n++ {
		if r.Ports[n/8]>>(n%8)&1 != 0 {
			s.vesw[n] = VESWMax + 1 // on some switch: requested by the next line
			s.ask(uint8(n), AttrVportInfo, nil)
		} else if h.unicast[uint8(n)] != nil {
			m.takeReport(s, uint8(n), report{told: true}) // on no switch: the device does not exist yet
		}
	}
	for _, ref := range m.plan.ports[r.Host] {
		if n := m.plan.Switches[ref.of].Ports[ref.at].Vport; s.vesw[n] == 0 {
			h.reportOf(n).told = true // no device either
		}
	}
	m.sessions[conn], m.byHost[r.Host] = s, s
	i, _ := slices.BinarySearch(m.conns, conn) // conn has no session yet
	m.conns = slices.Insert(m.conns, i, conn)
	m.claimAll(h)
	if changed {
		m.waysMade++
		m.change(h, first)
	}
}

func (s *session) ask(vport uint8, attr Attribute, data []byte) {
	s.queue = append(s.queue, request{
		method: MethodGet, attr: attr, mod: uint32(vport), data: data, last: true,
	})
}

// askOnce queues a Get of an attribute, unless the same Get is already queued.
func (s *session) askOnce(vport uint8, attr Attribute, data []byte) {
	if !slices.ContainsFunc(s.queue, func(r request) bool {
		return r.method == MethodGet && r.attr == attr && r.mod == uint32(vport)
	}) {
		s.ask(vport, attr, data)
	}
}

// reviewPorts is the number of ports that are checked at each renewal of the lease. The manager
// checks ports regularly because it does not receive all traps. Traps can be lost, and an agent
// drops traps above its limit of trapsMax in each trapWindow.
const reviewPorts = 4

// review requests the state of reviewPorts ports. Successive calls of the method "review" cover all
// ports in rotation.
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

// keepAsks removes the queued Set requests and keeps the queued Get requests.
func (s *session) keepAsks() {
	s.queue = slices.DeleteFunc(s.queue, func(r request) bool { return r.method != MethodGet })
	s.waysSeen = 0
}

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
		// A request that the agent has refused counts as acknowledged and is not repeated, because the
		// agent would refuse it again.
		s.acked[wantKey{msg.Vport(), r.attr}] = r.content
	}
}
