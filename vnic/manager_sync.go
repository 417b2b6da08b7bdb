package vnic

import (
	"slices"

	"gobtl/internal/mono"
)

// Progress sends the due messages to the agents. Progress renews leases, sends queued requests, and
// changes the configuration of those hosts whose configuration differs from the plan.
func (m *Manager) Progress(now mono.Time) {
	m.applyChanges(now)
	for _, conn := range m.conns {
		s := m.sessions[conn]
		if s.pending != nil && now.Sub(s.sentAt) >= answerTimeout {
			s.host.problem(wantKey{}, "no answer")
			m.failed = append(m.failed, s.conn)
			s.sentAt = now // report the failure once
		}
		m.next(now, s)
	}
}

// Deadline returns the time at which the caller must next call Progress of the Manager if no
// message arrives.
func (m *Manager) Deadline() mono.Time {
	at := m.changesAt()
	for _, s := range m.sessions {
		if s.pending != nil {
			at = at.Min(s.sentAt.Add(answerTimeout))
			continue
		}
		if s.leased && (len(s.queue) > 0 || s.differs()) {
			return 0
		}
		at = at.Min(s.leaseAt)
	}
	return at
}

// The method "next" sends the next queued request on a session (the connection to an agent), unless
// the session waits for a response.
func (m *Manager) next(now mono.Time, s *session) {
	if s.pending != nil {
		return
	}
	if now >= s.leaseAt {
		l := Lease{
			Manager: m.cfg.Name, Instance: m.cfg.Instance, Ms: uint32(m.cfg.Lease.Milliseconds()),
			LID: s.host.LID,
		}
		m.send(now, s, request{method: MethodSet, attr: AttrLease, data: l.Append(nil), last: true})
		return
	}
	if !s.leased {
		return
	}
	if len(s.queue) == 0 && s.differs() {
		s.dirty = false
		s.compared++
		m.compare(s)
		if len(s.queue) == 0 && s.leaving {
			m.failed = append(m.failed, s.conn)
			s.leased = false
			return
		}
		if len(s.queue) == 0 && !s.host.Synced {
			s.host.Synced, s.host.SyncedAt = true, now
		}
	}
	if len(s.queue) > 0 {
		r := s.queue[0]
		s.queue = s.queue[1:]
		if len(s.queue) == 0 {
			s.dirty = true // look for changes made in the meantime
		}
		m.send(now, s, r)
	}
}

func (m *Manager) send(now mono.Time, s *session, r request) {
	m.tid++
	s.tid, s.sentAt, s.pending = m.tid, now, &r
	msg := Message{Method: r.method, Attr: r.attr, TID: m.tid, Modifier: r.mod, Data: r.data}
	m.out = append(m.out, Outgoing{s.conn, msg.Append(nil)})
	m.Stats.Requests++
}

// compare queues requests for the differences between the host's configuration and the plan.
func (m *Manager) compare(s *session) {
	var ports []wanted
	if !s.leaving {
		ports = m.wantedPorts(s.host.Name)
	}
	wants := func(n int) *wanted {
		i := slices.IndexFunc(ports, func(w wanted) bool { return int(w.vport) == n })
		if i < 0 {
			return nil
		}
		return &ports[i]
	}
	for n := 1; n <= VportMax; n++ { // the ports that must leave their switch come first
		w := wants(n)
		if s.vesw[n] == 0 || w != nil && w.info.VESW == s.vesw[n] {
			continue
		}
		s.vesw[n] = 0
		for k := range s.acked {
			if int(k.vport) == n {
				delete(s.acked, k)
				s.host.problem(k, "")
			}
		}
		s.host.Digests[uint8(n)] = 0
		s.queue = append(s.queue, request{
			method: MethodSet, attr: AttrDeleteVESW, mod: uint32(n), last: true,
		})
	}
	if s.leaving {
		m.table(s, 0, AttrLIDs, tableOf([][]byte{nil}))
	} else if s.waysSeen != m.waysMade {
		s.waysSeen = m.waysMade
		m.table(s, 0, AttrLIDs, tableOf(m.lidsFor(s.host.Name)))
	}
	for i := range ports {
		w := &ports[i]
		s.vesw[w.vport] = w.info.VESW
		m.table(s, w.vport, AttrVportInfo, tableOf([][]byte{w.info.Append(nil)}))
		m.table(s, w.vport, AttrOptions, tableOf([][]byte{w.options.Append(nil)}))
		m.table(s, w.vport, AttrMembers, w.tables.members)
		m.macs(s, w)
	}
}

// The method "table" queues the messages of a table, unless the agent already has the same table.
// If a table consists of several messages, the agent uses the new table when the last message has
// arrived.
func (m *Manager) table(s *session, vport uint8, attr Attribute, t table) {
	if was, ok := s.acked[wantKey{vport, attr}]; ok && was == t.content {
		return
	}
	staged := attr != AttrVportInfo && attr != AttrOptions
	for i, data := range t.messages {
		r := request{method: MethodSet, attr: attr, mod: uint32(vport), data: data}
		if i == 0 && staged {
			r.mod |= ModNew
		}
		if i < len(t.messages)-1 {
			r.mod |= ModMore
		} else {
			r.last, r.content = true, t.content
		}
		s.queue = append(s.queue, r)
	}
}

// The method "macs" queues the messages of a port's MAC table, and a Get of VportInfo that checks
// whether the table has arrived.
func (m *Manager) macs(s *session, w *wanted) {
	t, key := w.tables, wantKey{w.vport, AttrMACEntries}
	_, ok := s.acked[key]
	if !ok && s.host.Digests[w.vport] == t.digest { // sent by an earlier run of the manager
		s.acked[key] = t.macs.content
	}
	queued := len(s.queue)
	if m.table(s, w.vport, AttrMACEntries, t.macs); len(s.queue) > queued {
		s.ask(w.vport, AttrVportInfo, nil)
	}
}

func (m *Manager) wantedPorts(host string) []wanted {
	all := make([]wanted, 0, len(m.plan.ports[host]))
	for _, ref := range m.plan.ports[host] {
		s := &m.plan.Switches[ref.of]
		w := m.plan.port(s, &s.Ports[ref.at])
		w.tables = m.tablesOf(ref.of)
		all = append(all, w)
	}
	return all
}

func (m *Manager) wantedPort(host string, vport uint8) (wanted, bool) {
	for _, w := range m.wantedPorts(host) {
		if w.vport == vport {
			return w, true
		}
	}
	return wanted{}, false
}

// lidsFor returns messages with the endpoint names of all hosts that share a switch with the given
// host. A host that has not registered since the manager was started has an entry without endpoint
// names.
func (m *Manager) lidsFor(host string) [][]byte {
	var list []LIDEntry
	for name := range m.plan.near(host) {
		if name == host {
			continue
		}
		e := LIDEntry{LID: m.plan.lidOf(name)}
		if h := m.hosts[name]; h != nil && h.known {
			e.Ways = h.ways
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b LIDEntry) int { return int(a.LID) - int(b.LID) })
	return lidMessages(list)
}
