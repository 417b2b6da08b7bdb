package vnic

import (
	"slices"

	"gobtl/internal/mono"
)

// The method "told" handles an agent's response to a Get request of the manager.
func (m *Manager) told(s *session, r *request, msg *Message) {
	if msg.Status != StatusOK {
		return
	}
	vport := msg.Vport()
	ok := false
	switch r.attr {
	case AttrVportInfo:
		ok = m.toldInfo(s, vport, msg.Data)
	case AttrUnicastMACs:
		ok = m.toldAddresses(s, vport, r.data, msg.Data)
	case AttrMACEntries:
		ok = m.toldRows(s, vport, r.data, msg.Data)
	default: // other traps need no request
	}
	if !ok {
		m.Stats.Malformed++
	}
}

func (m *Manager) toldInfo(s *session, vport uint8, data []byte) bool {
	info, err := ParseVportInfo(data)
	if err != nil {
		return false
	}
	s.host.Links[vport] = info.LinkStatus == LinkUp
	s.host.Digests[vport] = info.MACDigest
	s.vesw[vport] = info.VESW
	if !m.plan.hasPort(s.host.Name, vport) { // reports of other ports are not used
		return true
	}
	have := s.host.reportOf(vport)
	switch {
	case have.told && have.generation == info.UniGen:
	case info.UniGen == 0:
		m.takeReport(s, vport, report{told: true})
	default:
		s.askOnce(vport, AttrUnicastMACs, (&MACList{}).Append(nil))
	}
	// The MAC table of a host can contain addresses that hosts reported to an earlier manager. The
	// manager reads the host's MAC table if a host on the same switch has not yet reported its
	// addresses to this manager, unless this manager itself has sent the table.
	_, sent := s.acked[wantKey{vport, AttrMACEntries}]
	w, ok := m.wantedPort(s.host.Name, vport)
	if ok && !sent && w.info.VESW == info.VESW && info.MACDigest != 0 &&
		w.tables.digest != info.MACDigest && m.untold(info.VESW) {
		s.ask(vport, AttrMACEntries, (&MACEntries{Num: MACEntriesPerMsg}).Append(nil))
	}
	return true
}

// The method "untold" reports whether a host on the switch has not yet reported its addresses to
// this manager.
func (m *Manager) untold(vesw uint16) bool {
	for i := range m.plan.Switches {
		sw := &m.plan.Switches[i]
		if sw.ID == vesw {
			return sw.Reported && slices.ContainsFunc(sw.Ports, func(p PlanPort) bool {
				h := m.hosts[p.Host]
				return h != nil && !h.reportOf(p.Vport).told
			})
		}
	}
	return false
}

// The type "pages" is a list of addresses that the agent sends in several messages (pages).
type pages struct {
	report
	again int // number of restarts of the list
}

const pagesAgainMax = 8

// toldAddresses handles one message with a part of a device's addresses. The manager uses a
// device's list of addresses only after the last message of the list. If the list changes between
// two messages, the manager requests the list from the beginning, at most pagesAgainMax times. The
// manager refuses a list if a message other than the last has room for more addresses.
// toldAddresses ignores the addresses of a port that is not in the plan.
func (m *Manager) toldAddresses(s *session, vport uint8, asked, data []byte) bool {
	if !m.plan.hasPort(s.host.Name, vport) { // the plan has changed since the request
		delete(s.pages, vport)
		return true
	}
	ask, _ := ParseMACList(asked) // request of this manager
	l, err := ParseMACList(data)
	if err != nil || l.Start != ask.Start || len(l.MACs) != int(l.Num) {
		delete(s.pages, vport)
		return false
	}
	p := s.pages[vport]
	if p == nil {
		p = &pages{}
		s.pages[vport] = p
	}
	if l.Start == 0 {
		p.report = report{told: true, generation: l.Generation}
	}
	if p.generation != l.Generation {
		if p.again++; p.again > pagesAgainMax {
			delete(s.pages, vport)
			return false
		}
		s.askOnce(vport, AttrUnicastMACs, (&MACList{}).Append(nil))
		return true
	}
	p.macs = append(p.macs, l.MACs...)
	if next := len(p.macs); next < int(l.Total) && next < listMax {
		if l.Num < MACsPerMsg { // an agent sends as many addresses as fit
			delete(s.pages, vport)
			return false
		}
		s.ask(vport, AttrUnicastMACs, (&MACList{Start: uint16(next)}).Append(nil))
		return true
	}
	delete(s.pages, vport)
	m.takeReport(s, vport, p.report)
	return true
}

// The type rowsTold counts the rows that the manager has taken from the MAC table of a host's port.
type rowsTold struct {
	rows  int  // since the manager was started
	news  bool // the switch's tables do not contain all counted rows yet
	whole bool // the manager has read the whole MAC table at least once
}

// toldRows handles one message with a part of a host's MAC table. If the address of a row is not in
// the plan, toldRows assumes that the row's host reported this address to an earlier manager. The
// manager takes at most MACEntriesMax rows with unplanned addresses from the MAC table of one port.
// If a message has fewer rows than the manager has requested, it is the last message of the MAC
// table.
func (m *Manager) toldRows(s *session, vport uint8, asked, data []byte) bool {
	ask, _ := ParseMACEntries(asked) // request of this manager
	a, err := ParseMACEntries(data)
	w, ok := m.wantedPort(s.host.Name, vport)
	if err != nil || a.Offset != ask.Offset || len(a.Rows) != int(a.Num) {
		return false
	}
	if !ok || w.info.VESW != s.vesw[vport] {
		return true
	}
	o := s.host.others[vport]
	if o == nil {
		o = &rowsTold{}
		s.host.others[vport] = o
	}
	for _, row := range a.Rows {
		if _, wanted := w.tables.has[row.MAC]; row.MAC == 0 || wanted || o.rows == MACEntriesMax {
			continue
		}
		p := m.plan.portOf(w.info.VESW, row.DLID)
		if p != nil && m.hosts[p.Host] != nil &&
			m.hosts[p.Host].reportOf(p.Vport).add(row.MAC, s.host.LID) {
			o.rows++
			o.news = true
		}
	}
	if next := int(a.Offset) + int(a.Num); a.Num >= ask.Num && next < MACEntriesMax {
		num := min(MACEntriesPerMsg, MACEntriesMax-next)
		more := MACEntries{Offset: uint16(next), Num: uint16(num)}
		s.ask(vport, AttrMACEntries, more.Append(nil))
		return true
	}
	if o.news {
		m.change(s.host, !o.whole)
	}
	o.news, o.whole = false, true
	return true
}

// The method "add" adds an address to the report of a host that has not reported its addresses yet,
// and returns true if the address is new. The argument "by" of the method "add" is the LID of the
// host whose MAC table contains the address.
func (r *report) add(mac MAC, by uint32) bool {
	at, has := slices.BinarySearch(r.macs, mac)
	if has || r.told || len(r.macs) >= listMax {
		return false
	}
	r.macs = slices.Insert(r.macs, at, mac)
	if r.by == nil {
		r.by = make(map[MAC]uint32)
	}
	r.by[mac] = by
	return true
}

// takeReport records the addresses that a port's device has reported. If the reported addresses
// have changed, takeReport requests new tables for all hosts on the same switches.
func (m *Manager) takeReport(s *session, vport uint8, r report) {
	slices.Sort(r.macs)
	was := s.host.reportOf(vport)
	same, first := slices.Equal(was.macs, r.macs), !was.told
	r.since = was.since
	*was = r
	m.claim(was)
	if !same || m.contested(s.host) {
		m.change(s.host, first)
	}
}

// The method "claim" gives a claim number to each new address in the report of a connected host.
// The claim numbers ascend in the order in which all hosts report addresses.
func (m *Manager) claim(r *report) {
	was := r.since
	r.since = make(map[MAC]uint64, len(r.macs))
	for _, mac := range r.macs {
		n := was[mac]
		if n == 0 {
			m.claimsMade++
			n = m.claimsMade
		}
		r.since[mac] = n
	}
}

// When a host connects again, claimAll gives new claim numbers to the addresses that the host
// reported on an earlier connection. The claim number of an address tells which of several hosts
// has reported the address first.
func (m *Manager) claimAll(h *HostState) {
	for _, r := range h.unicast {
		if r.told {
			m.claim(r)
		}
	}
	m.claimsChanged(h)
}

// unclaimAll deletes the claim numbers of the addresses of a host that has disconnected. After the
// deletion, a connected host that reports the same address gets the address.
func (m *Manager) unclaimAll(h *HostState) {
	for _, r := range h.unicast {
		r.since = nil
	}
	m.claimsChanged(h)
}

// claimsChanged makes the manager update the MAC tables on the switches of the host h, if a
// different host reports the same address as h.
func (m *Manager) claimsChanged(h *HostState) {
	if m.contested(h) {
		m.change(h, false)
	}
}

// trapsHeard is the largest number of traps of one host that the manager handles in each period of
// the length trapWindow. trapsHeard is twice trapsMax, because one trapWindow of the manager can
// overlap two trapWindows of the agent.
const trapsHeard = 2 * trapsMax

// trap records a received trap, and requests from the agent the state that has changed according to
// the trap. The method "trap" sends no request for a port that is not in the plan.
func (m *Manager) trap(now mono.Time, s *session, msg *Message) {
	t, err := ParseTrap(msg.Data)
	if err != nil {
		m.Stats.Malformed++
		return
	}
	m.Stats.Traps++
	if now.Sub(s.window) >= trapWindow {
		s.window, s.traps = now, 0
	}
	if s.traps++; s.traps > trapsHeard {
		m.Stats.TrapsIgnored++
		return
	}
	if len(m.traps) == trapsRemembered {
		m.traps = slices.Delete(m.traps, 0, 1)
	}
	m.traps = append(m.traps, TrapSeen{now, s.host.Name, t})
	if t.Opcode == TrapMulticast || !m.plan.hasPort(s.host.Name, t.Index) {
		return
	}
	attr, data := AttrVportInfo, []byte(nil)
	if t.Opcode == TrapUnicast {
		attr, data = AttrUnicastMACs, (&MACList{}).Append(nil)
	}
	s.askOnce(t.Index, attr, data)
}
