package vnic

import (
	"cmp"
	"fmt"
	"slices"

	"gobtl/internal/mono"
)

// The type "table" holds a table for an agent as a list of encoded messages that transfer the
// table. The manager compares the field "content" of two tables to find out whether the agent
// already has the same table.
type table struct {
	messages [][]byte
	content  string
}

// tableOf returns the table that the given messages transfer.
func tableOf(messages [][]byte) table {
	var content []byte
	for _, data := range messages {
		content = append(content, data...)
	}
	return table{messages, string(content)}
}

// switchTables holds the tables that are the same for all ports of a switch.
type switchTables struct {
	members, macs table
	digest        uint32
	has           map[MAC]uint32 // the rows of macs
	contested     bool           // two hosts claim the same address
}

// tablesOf returns the tables of the switch with the given index in the plan.
func (m *Manager) tablesOf(index int) *switchTables {
	if t := m.tables[index]; t != nil {
		return t
	}
	s := &m.plan.Switches[index]
	rows := m.plan.rows(s, m.reported(s))
	t := &switchTables{
		members: tableOf(memberMessages(m.plan.members(s))), digest: digestOf(rows),
		has: make(map[MAC]uint32, len(rows)),
	}
	t.macs = macTable(rows, t.digest)
	for _, row := range rows {
		t.has[row.MAC] = row.DLID
	}
	m.tables[index] = t
	m.Stats.TablesMade++
	if s.Reported {
		m.noteClaims(s, t)
	}
	return t
}

// macTable returns the MAC table with the given rows.
func macTable(rows []MACEntry, digest uint32) table {
	whole := MACEntries{Rows: rows}
	t := table{content: string(whole.Append(nil))}
	for offset := 0; offset == 0 || offset < len(rows); offset += MACEntriesPerMsg {
		part := rows[offset:min(offset+MACEntriesPerMsg, len(rows))]
		a := MACEntries{Offset: uint16(offset), Num: uint16(len(part)), Digest: digest, Rows: part}
		t.messages = append(t.messages, a.Append(nil))
	}
	return t
}

func memberMessages(lids []uint32) [][]byte {
	var all [][]byte
	for part := range slices.Chunk(lids, MembersPerMsg) {
		all = append(all, AppendMembers(nil, part))
	}
	if all == nil {
		all = [][]byte{nil}
	}
	return all
}

// In each period of the length trapWindow, the manager puts changes of one host into the tables of
// other hosts at most changesMax times. When a host has reached changesMax, the manager collects
// the host's later changes, and puts them into the tables together in the next period.
const changesMax = trapsMax

// The method "change" requests that the changed addresses or endpoint names of a host are put into
// the tables of all hosts that share a switch with the host. The argument "first" of the method
// "change" is true if the manager knew no addresses or endpoint names of this host before the
// change. The limit changesMax does not delay a change for which "first" is true, because such a
// change occurs only once per host.
func (m *Manager) change(h *HostState, first bool) {
	h.first = h.first || first
	if !h.changed {
		h.changed = true
		m.changed = append(m.changed, h)
	}
}

// changesAt returns the time at which applyChanges must be called next, or mono.Never.
func (m *Manager) changesAt() mono.Time {
	at := mono.Never
	for _, h := range m.changed {
		if h.first || h.changes < changesMax {
			return 0
		}
		at = at.Min(h.window.Add(trapWindow))
	}
	return at
}

// applyChanges makes new tables for the hosts that share a switch with a changed host, unless the
// changed host has already reached changesMax.
func (m *Manager) applyChanges(now mono.Time) {
	waiting := m.changed[:0]
	apply := make([]*HostState, 0, len(m.changed))
	for _, h := range m.changed {
		if now.Sub(h.window) >= trapWindow {
			h.window, h.changes = now, 0
		}
		switch {
		case h.first:
		case h.changes >= changesMax:
			waiting = append(waiting, h)
			continue
		default:
			h.changes++
		}
		h.changed, h.first = false, false
		apply = append(apply, h)
		for _, ref := range m.plan.ports[h.Name] {
			m.tables[ref.of] = nil
		}
	}
	clear(m.changed[len(waiting):])
	m.changed = waiting
	for _, h := range apply {
		m.touchNear(h.Name)
	}
}

// touchNear makes the manager compare the plan with the configurations of all connected hosts that
// share a switch with the host "host".
func (m *Manager) touchNear(host string) {
	for _, ref := range m.plan.ports[host] {
		m.tablesOf(ref.of) // notes the claims
		for i := range m.plan.Switches[ref.of].Ports {
			s := m.byHost[m.plan.Switches[ref.of].Ports[i].Host]
			if s == nil {
				continue
			}
			if s.touch(); s.host.Name != host {
				s.compared = 0
			}
		}
	}
}

// The method "reported" returns, for each address that a device on a switch has reported, the LID
// of the host that gets the address. If two hosts report the same address, reportClaims.beats
// decides which host gets the address. If the MAC table is too small for all addresses, the hosts
// get the rows of the MAC table in turn, one row at a time (round robin). If the manager knows an
// address of a host only from the MAC table of a second host, the row of the address counts as a
// row of the second host.
func (m *Manager) reported(s *PlanSwitch) map[MAC]uint32 {
	if !s.Reported {
		return nil
	}
	var lists []reportClaims
	room := MACEntriesMax - len(s.MACs)
	planned := make(map[MAC]bool)
	for _, row := range s.MACs {
		planned[row.MAC] = true
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		room -= 1 + len(p.MACs)
		planned[p.MAC] = true
		for _, mac := range p.MACs {
			planned[mac] = true
		}
		if h := m.hosts[p.Host]; h != nil && len(h.reportOf(p.Vport).macs) > 0 {
			lists = append(lists, claimsOf(h.LID, h.reportOf(p.Vport))...)
		}
	}
	slices.SortFunc(lists, func(a, b reportClaims) int {
		return cmp.Or(cmp.Compare(a.teller, b.teller), cmp.Compare(a.lid, b.lid))
	})
	all := make(map[MAC]uint32)
	by := make(map[MAC]*reportClaims)
	take := func(l *reportClaims) bool { // takes one more row
		for len(l.left) > 0 && len(all) < room {
			mac := l.left[0]
			l.left = l.left[1:]
			first, taken := by[mac]
			if mac.Group() || mac == 0 || planned[mac] {
				continue
			}
			if !taken || l.beats(first, mac) {
				all[mac], by[mac] = l.lid, l
			}
			if !taken {
				return true
			}
		}
		return false
	}
	for more := true; more; {
		more = false
		for i := range lists {
			l := &lists[i]
			if l.served = i > 0 && lists[i-1].teller == l.teller && lists[i-1].served; !l.served {
				l.served = take(l)
				more = more || l.served
			}
		}
	}
	return all
}

// reportClaims holds those addresses of one port that the manager has learned from one host. The
// field "left" of a reportClaims has those addresses that Manager.reported has not examined yet.
type reportClaims struct {
	*report
	lid    uint32
	teller uint32 // LID of the host that has told the addresses
	left   []MAC
	served bool // the teller has got a row in the present round
}

// claimsOf returns the addresses of a port's report, grouped by the host from which the manager has
// learned the address.
func claimsOf(lid uint32, r *report) []reportClaims {
	if r.told {
		return []reportClaims{{report: r, lid: lid, teller: lid, left: r.macs}}
	}
	parts := make(map[uint32][]MAC)
	for _, mac := range r.macs {
		parts[r.by[mac]] = append(parts[r.by[mac]], mac)
	}
	var all []reportClaims
	for teller, macs := range parts {
		all = append(all, reportClaims{report: r, lid: lid, teller: teller, left: macs})
	}
	return all
}

// The method "beats" reports whether the claim c of a host to an address has precedence over the
// claim "other" of a different host. Of the connected hosts, the host that has reported the address
// first has precedence. Claims of connected hosts have precedence over claims of hosts that have
// disconnected. Claims of hosts that have not reported to this manager have the lowest precedence.
// If two claims have the same precedence, the host with the smaller LID gets the address.
func (c *reportClaims) beats(other *reportClaims, mac MAC) bool {
	mine, theirs := c.since[mac], other.since[mac]
	switch {
	case mine != theirs:
		return theirs == 0 || mine != 0 && mine < theirs
	case c.told != other.told:
		return c.told
	}
	return c.lid < other.lid
}

// The method "contested" reports whether two hosts report the same address on a switch on which the
// given host has a port.
func (m *Manager) contested(h *HostState) bool {
	return slices.ContainsFunc(m.plan.ports[h.Name], func(ref portRef) bool {
		return m.tablesOf(ref.of).contested
	})
}

// noteClaims records conflicts of addresses under the attribute claimsAttr, which is in no message.
const claimsAttr Attribute = 0xFFFE

// noteClaims records a problem for each host on the switch that reports an address that belongs to
// a different host. An address in the manager's file belongs to the host named in the file. An
// address that is not in the manager's file belongs to the host that reportClaims.beats selects.
func (m *Manager) noteClaims(sw *PlanSwitch, t *switchTables) {
	for _, p := range sw.Ports {
		h := m.hosts[p.Host]
		if h == nil {
			continue
		}
		text := ""
		for _, mac := range h.reportOf(p.Vport).macs {
			if lid, ok := t.has[mac]; ok && lid != h.LID {
				text = fmt.Sprintf("port %d: its device reports %v, which another host has, at LID %d",
					p.Vport, mac, lid)
				t.contested = true
				break
			}
		}
		h.problem(wantKey{p.Vport, claimsAttr}, text)
	}
}
