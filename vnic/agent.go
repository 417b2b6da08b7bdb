package vnic

import (
	"hash/crc32"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// AgentConfig holds the names of an agent's host and manager, the instance number of the agent, and
// the addresses of the host.
type AgentConfig struct {
	Host     string // this host's name in the manager's file
	Manager  string // the name of the only manager that is obeyed
	Instance uint64 // random, for this start of the agent
	Ways     Ways   // addresses of this host for other hosts
	// The function Counts returns the counters of a port. If Counts is nil, the agent reports all
	// counters as zero.
	Counts func(vport uint8) Counts
}

// Change reports that a port has changed. A Change with Vport 0 reports that the table of LIDs has
// changed.
type Change struct {
	Vport uint8
	// Moved is true if the port has left its previous switch, so that the addresses that the port has
	// learned on the previous switch are invalid.
	Moved bool
}

// PortState is the state of a port in an agent.
type PortState struct {
	Num       uint8
	Info      VportInfo
	Options   Options
	MACs      *MACTable
	Members   []uint32
	Unicast   []MAC // of the device, without the manager's base MAC
	Multicast []MAC
	Up        bool    // the device is up
	Tables    *Tables // tables in use; nil while the port is on no switch

	stagedMACs    *MACTable // nil: nothing is staged
	stagedMembers []uint32
	staging       bool // stagedMembers counts, also when it is empty
	uniCRC        uint32
	multiCRC      uint32
}

// Agent is the host side of the management of virtual switches (the VEMA of Omni-Path). An Agent
// connects only to managers with the configured name. An Agent accepts its configuration only from
// the manager to which the Agent has granted the lease (the temporary right to configure the
// Agent).
type Agent struct {
	cfg     AgentConfig
	ports   [VportMax + 1]*PortState
	lid     uint32
	lids    []LIDEntry
	stage   []LIDEntry
	holder  int // connection that has the lease; 0 is none
	lease   Lease
	until   mono.Time
	out     []Outgoing
	changes []Change
	window  mono.Time // start of the present trapWindow
	traps   int       // traps sent in the present window
	conns   []int
	refused Status // status of the latest response to a registration
	tid     uint64
	keys    map[int]uint64 // by connection: key of the address verification in progress
	proofs  []Proof
	// Stats are counters for the operator.
	Stats AgentStats
}

// AgentStats holds the numbers of the requests that an agent has received and refused, of malformed
// messages, and of traps.
type AgentStats struct {
	Requests   uint64 `json:"requests"`
	Malformed  uint64 `json:"malformed"`
	Refused    uint64 `json:"refused"` // requests answered with a status other than OK
	Traps      uint64 `json:"traps"`
	TrapsQuiet uint64 `json:"traps_suppressed"`
}

// Outgoing is a message for a connection.
type Outgoing struct {
	Conn int
	Data []byte
}

// An agent sends at most trapsMax traps in each interval of the length trapWindow (4.096 us * 2^18,
// about 1.07 s).
const (
	trapsMax   = 4
	trapWindow = 4096 * (1 << responseTimeCode) * time.Nanosecond
)

// NewAgent returns an agent without ports.
func NewAgent(cfg AgentConfig) *Agent { return &Agent{cfg: cfg} }

// Config returns the configuration that was passed to NewAgent.
func (a *Agent) Config() AgentConfig { return a.cfg }

// LID returns this host's LID, or 0 until a manager has assigned one.
func (a *Agent) LID() uint32 { return a.lid }

// LIDs returns the table of LIDs, which maps the LID of each host to the host's addresses. The
// caller must not change the returned slice.
func (a *Agent) LIDs() []LIDEntry { return a.lids }

// Port returns the port with number vport, or nil if the agent never had such a port.
func (a *Agent) Port(vport uint8) *PortState { return a.ports[vport] }

// Ports lists all ports of the agent, by number.
func (a *Agent) Ports() []*PortState {
	var all []*PortState
	for _, p := range a.ports {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Lease returns the latest lease that the agent has granted to a manager, and reports whether this
// lease is valid at the time "now".
func (a *Agent) Lease(now mono.Time) (Lease, bool) {
	return a.lease, a.holder != 0 && now < a.until
}

// Refused returns the reason why the manager does not accept this host, or StatusOK. StatusInvalid
// means that the manager's configuration file does not name the host. StatusBusy means that a
// different host, which uses the name or an address of this host, is connected to the manager.
// StatusUnproven means that the manager could not verify the addresses that this host has
// registered. StatusVersion means that the manager and this host use different methods to verify
// addresses. StatusOK means that no manager has refused this host.
func (a *Agent) Refused() Status {
	if a.holder > 0 {
		return StatusOK
	}
	return a.refused
}

// Outbox returns the messages that the caller must send, and removes the messages from the agent.
func (a *Agent) Outbox() []Outgoing {
	out := a.out
	a.out = nil
	return out
}

// Changes returns the changes of the agent's ports and table of LIDs since the previous call of
// Changes.
func (a *Agent) Changes() []Change {
	c := a.changes
	a.changes = nil
	return c
}

// Connect tells the agent about a new connection to a manager. The argument "conn" of Connect is
// the number of the connection, which must not be 0.
func (a *Agent) Connect(conn int) {
	a.conns = append(a.conns, conn)
	r := Registration{
		Host: a.cfg.Host, Manager: a.cfg.Manager, Instance: a.cfg.Instance, Ways: a.cfg.Ways,
	}
	for _, p := range a.ports {
		if p != nil && p.Info.VESW != 0 {
			r.Ports[p.Num/8] |= 1 << (p.Num % 8)
		}
	}
	a.send(conn, Message{Method: MethodSet, Attr: AttrRegister, Data: r.Append(nil)})
}

// Disconnect tells the agent that the connection with the number "conn" has ended. A disconnection
// does not change the ports. Disconnect does not end the lease of the manager, so that a manager
// that connects again before the lease expires still has the lease.
func (a *Agent) Disconnect(conn int) {
	delete(a.keys, conn)
	a.conns = slices.DeleteFunc(a.conns, func(c int) bool { return c == conn })
	if a.holder == conn {
		a.holder = -1 // still valid, but the manager is not connected
	}
}

func (a *Agent) send(conn int, m Message) {
	if m.Method != MethodResponse {
		a.tid++
		m.TID = a.tid
	}
	a.out = append(a.out, Outgoing{conn, m.Append(nil)})
}

// Receive handles a message that has arrived on the connection with the number "conn".
func (a *Agent) Receive(now mono.Time, conn int, b []byte) {
	m, err := ParseMessage(b)
	if err != nil {
		a.Stats.Malformed++
		return
	}
	if !slices.Contains(a.conns, conn) {
		a.Stats.Refused++
		return
	}
	if m.Method == MethodResponse {
		if m.Attr == AttrRegister {
			a.refused = m.Status
			delete(a.keys, conn)
		}
		return
	}
	a.Stats.Requests++
	var status Status
	var data []byte
	switch m.Method {
	case MethodGet:
		status, data = a.get(&m)
	case MethodSet:
		status, data = a.set(now, conn, &m)
	default:
		status = StatusMethod
	}
	if status != StatusOK {
		a.Stats.Refused++
	}
	a.send(conn, m.Response(status, data))
}

func (a *Agent) get(m *Message) (Status, []byte) {
	p := a.ports[m.Vport()]
	if p == nil { // unknown port: reports the power-on state
		p = &PortState{Num: m.Vport(), Info: PowerOn()}
	}
	switch m.Attr {
	case AttrClassPortInfo:
		return StatusOK, AppendClassPortInfo(nil)
	case AttrVportInfo:
		return StatusOK, p.Info.Append(nil)
	case AttrMACEntries:
		return p.getMACs(m.Data)
	case AttrUnicastMACs:
		return getList(m.Data, p.Unicast, p.Info.UniGen)
	case AttrMulticastMACs:
		return getList(m.Data, p.Multicast, p.Info.MultiGen)
	case AttrSummary:
		c := a.counts(p.Num)
		return StatusOK, AppendSummary(nil, p.Info.VESW, p.Info.PortNum, &c)
	case AttrErrors:
		c := a.counts(p.Num)
		return StatusOK, AppendErrors(nil, p.Info.VESW, p.Info.PortNum, &c)
	case AttrOptions:
		return StatusOK, p.Options.Append(nil)
	default:
		return StatusUnsupported, nil
	}
}

func (a *Agent) counts(vport uint8) (c Counts) {
	if a.cfg.Counts != nil && a.ports[vport] != nil {
		c = a.cfg.Counts(vport)
	}
	return c
}

func (p *PortState) getMACs(data []byte) (Status, []byte) {
	ask, err := ParseMACEntries(data)
	if err != nil {
		return StatusInvalid, nil
	}
	answer := MACEntries{Offset: ask.Offset, Digest: p.Info.MACDigest}
	if rows := p.MACs.Entries(); int(ask.Offset) < len(rows) {
		rows = rows[ask.Offset:]
		answer.Rows = rows[:min(int(ask.Num), len(rows))]
	}
	answer.Num = uint16(len(answer.Rows))
	return StatusOK, answer.Append(nil)
}

func getList(data []byte, macs []MAC, generation uint16) (Status, []byte) {
	ask, err := ParseMACList(data)
	if err != nil {
		return StatusInvalid, nil
	}
	answer := MACList{Start: ask.Start, Total: uint16(len(macs)), Generation: generation}
	if int(ask.Start) < len(macs) {
		answer.MACs = macs[ask.Start:][:min(len(macs)-int(ask.Start), MACsPerMsg)]
	}
	answer.Num = uint16(len(answer.MACs))
	return StatusOK, answer.Append(nil)
}

// SetLink tells the agent whether a port's device is up.
func (a *Agent) SetLink(now mono.Time, vport uint8, up bool) {
	p := a.ports[vport]
	if p == nil || p.Up == up {
		return
	}
	p.Up = up
	a.refresh(p, false)
	a.trap(now, p, TrapLink)
}

// A device has a list of unicast addresses and a list of multicast addresses, and listMax is the
// largest number of addresses in each list.
const listMax = 4096

// SetMACs tells the agent which addresses a port's device has in addition to the port's base MAC.
// For each of the two lists, unicast and multicast, the agent sends a trap if the list has changed.
func (a *Agent) SetMACs(now mono.Time, vport uint8, unicast, multicast []MAC) {
	p := a.ports[vport]
	if p == nil {
		return
	}
	clean := func(list []MAC) ([]MAC, uint32) {
		list = slices.DeleteFunc(slices.Clone(list), func(m MAC) bool { return m == p.Info.BaseMAC })
		slices.Sort(list)
		list = slices.Compact(list)
		list = list[:min(len(list), listMax)]
		h := crc32.NewIEEE()
		for _, m := range list {
			_, _ = h.Write(m.Bytes()) // a hash returns no error
		}
		return list, h.Sum32()
	}
	uni, crc := clean(unicast)
	if crc != p.uniCRC {
		p.Unicast, p.uniCRC = uni, crc
		p.Info.UniGen++
		a.trap(now, p, TrapUnicast)
	}
	multi, crc := clean(multicast)
	if crc != p.multiCRC {
		p.Multicast, p.multiCRC = multi, crc
		p.Info.MultiGen++
		a.trap(now, p, TrapMulticast)
	}
}

// trap sends a trap to all managers, unless trapsMax traps were already sent in the present
// trapWindow.
func (a *Agent) trap(now mono.Time, p *PortState, opcode uint8) {
	if a.window == 0 || now.Sub(a.window) >= trapWindow {
		a.window, a.traps = now, 0
	}
	if a.traps == trapsMax {
		a.Stats.TrapsQuiet++
		return
	}
	a.traps++
	a.Stats.Traps++
	t := Trap{
		FabricID: p.Info.FabricID, VESW: p.Info.VESW, Port: p.Info.PortNum, OPAPort: 1, Index: p.Num,
		Opcode: opcode,
	}
	for _, conn := range a.conns {
		a.send(conn, Message{
			Method: MethodTrap, Attr: AttrVportInfo, Modifier: uint32(p.Num), Data: t.Append(nil),
		})
	}
}

// refresh makes new Tables for a port from the port's present configuration.
func (a *Agent) refresh(p *PortState, moved bool) {
	p.Info.LinkStatus = LinkDown
	p.Info.OperState = StateDropAll
	if p.Up {
		p.Info.LinkStatus = LinkUp
		if p.Info.ConfigState == StateForwarding {
			p.Info.OperState = StateForwarding
		}
	}
	p.Tables = nil
	if p.Info.VESW != 0 {
		p.Tables = &Tables{
			Info: p.Info, Options: p.Options.WithDefaults(), MACs: p.MACs, Members: p.Members,
		}
	}
	a.changes = append(a.changes, Change{Vport: p.Num, Moved: moved})
}
