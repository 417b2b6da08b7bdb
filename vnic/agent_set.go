package vnic

import (
	"slices"
	"time"

	"gobtl/internal/mono"
)

// set handles a Set request from a manager, and returns the status and the data of the response.
func (a *Agent) set(now mono.Time, conn int, m *Message) (Status, []byte) {
	switch m.Attr {
	case AttrLease:
		return a.setLease(now, conn, m.Data)
	case AttrProof: // An agent may prove its addresses without a lease.
		return a.setProof(conn, m), nil
	default:
	}
	if a.holder != conn || now >= a.until {
		return StatusBusy, a.lease.Append(nil)
	}
	switch m.Attr {
	case AttrLIDs:
		return a.setLIDs(m), nil
	case AttrVportInfo:
		return a.setInfo(m)
	case AttrMACEntries, AttrMembers, AttrOptions, AttrDeleteVESW:
	default:
		return StatusUnsupported, nil
	}
	p := a.ports[m.Vport()]
	if p == nil {
		return StatusInvalid, nil
	}
	switch m.Attr {
	case AttrMACEntries:
		return a.setMACs(p, m), nil
	case AttrMembers:
		return a.setMembers(p, m), nil
	case AttrOptions:
		o, err := ParseOptions(m.Data)
		if err != nil {
			return StatusInvalid, nil
		}
		if p.Options != o {
			p.Options = o
			a.refresh(p, false)
		}
	default:
		a.delete(p)
	}
	return StatusOK, nil
}

// setLease grants the lease to a manager if no other manager holds an unexpired lease. A restarted
// manager counts as a different manager, and does not hold the lease of its earlier run. The end of
// the connection to a manager does not end the manager's lease.
func (a *Agent) setLease(now mono.Time, conn int, data []byte) (Status, []byte) {
	l, err := ParseLease(data)
	if err != nil || l.Manager != a.cfg.Manager {
		return StatusInvalid, nil
	}
	if a.holder != 0 && a.holder != conn && now < a.until &&
		(l.Instance != a.lease.Instance || a.holder > 0) {
		return StatusBusy, a.lease.Append(nil)
	}
	a.holder, a.lease = conn, l
	a.until = now.Add(time.Duration(l.Ms) * time.Millisecond)
	if a.lid != l.LID {
		a.lid = l.LID
		a.changes = append(a.changes, Change{})
	}
	return StatusOK, nil
}

func (a *Agent) setLIDs(m *Message) Status {
	list, err := ParseLIDs(m.Data)
	if err != nil {
		return StatusInvalid
	}
	if m.Modifier&ModNew != 0 {
		a.stage = nil
	}
	if len(a.stage)+len(list) > MembersMax {
		a.stage = nil
		return StatusInvalid
	}
	a.stage = append(a.stage, list...)
	if m.Modifier&ModMore != 0 {
		return StatusOK
	}
	a.lids, a.stage = keepLIDs(a.stage, a.lids), nil
	a.changes = append(a.changes, Change{})
	return StatusOK
}

// keepLIDs merges the new table of LIDs, "list", with the old table. If the new table has no
// addresses for a host, keepLIDs copies the host's addresses from the old table. keepLIDs copies
// the old addresses of a host only if none of these addresses belongs to a different host in the
// new table.
func keepLIDs(list, old []LIDEntry) []LIDEntry {
	kept := make([]LIDEntry, 0, len(list))
	told := make(map[endpointName]bool)
	for _, e := range list {
		if !e.Ways.none() {
			kept = append(kept, e)
			e.Ways.each(func(n endpointName) { told[n] = true })
		}
	}
	before := make(map[uint32]*LIDEntry, len(old))
	for i := range old {
		before[old[i].LID] = &old[i]
	}
	for _, e := range list {
		was := before[e.LID]
		if was == nil || !e.Ways.none() {
			continue
		}
		free := true
		was.Ways.each(func(n endpointName) { free = free && !told[n] })
		if free {
			kept = append(kept, *was)
		}
	}
	slices.SortStableFunc(kept, func(x, y LIDEntry) int { return int(x.LID) - int(y.LID) })
	return kept
}

// setInfo creates or changes a port. setInfo ignores those values in the message that the device or
// the agent determines.
func (a *Agent) setInfo(m *Message) (Status, []byte) {
	info, err := ParseVportInfo(m.Data)
	if err != nil || m.Vport() == 0 || info.Validate() != nil || info.EncapSLID != a.lid {
		return StatusInvalid, nil
	}
	for _, other := range a.ports {
		if other != nil && other.Num != m.Vport() && other.Info.VESW == info.VESW {
			return StatusInvalid, nil // a host has one port on a switch
		}
	}
	p := a.ports[m.Vport()]
	if p == nil {
		p = &PortState{Num: m.Vport(), Info: PowerOn()}
		a.ports[p.Num] = p
	}
	old := p.Info
	moved := old.VESW != info.VESW
	if moved {
		p.clear()
	}
	info.LinkStatus, info.OperState = old.LinkStatus, old.OperState
	info.MACDigest = p.Info.MACDigest
	info.MaxMACs, info.MaxSourceMACs = MACEntriesMax, SourceMACsMax
	info.UniGen, info.MultiGen = old.UniGen, old.MultiGen
	if p.Info != info || moved {
		p.Info = info
		a.refresh(p, moved)
	}
	return StatusOK, p.Info.Append(nil)
}

// clear deletes those parts of a port's state that depend on the port's present switch.
func (p *PortState) clear() {
	p.MACs, p.Members, p.Options = nil, nil, Options{}
	p.stagedMACs, p.stagedMembers, p.staging = nil, nil, false
	p.Info.MACDigest = 0
}

func (a *Agent) delete(p *PortState) {
	p.clear()
	mac, uni, multi := p.Info.BaseMAC, p.Info.UniGen, p.Info.MultiGen
	p.Info = PowerOn()
	p.Info.BaseMAC, p.Info.UniGen, p.Info.MultiGen = mac, uni, multi
	a.refresh(p, true)
}

// setMACs collects the rows of a port's new MAC table from several messages. After the last message
// of the new table, the collected rows replace the port's MAC table.
func (a *Agent) setMACs(p *PortState, m *Message) Status {
	rows, err := ParseMACEntries(m.Data)
	if err != nil || int(rows.Num) != len(rows.Rows) {
		return StatusInvalid
	}
	base := p.stagedMACs
	if base == nil {
		base = p.MACs
	}
	if m.Modifier&ModNew != 0 {
		base = nil
	}
	next, err := base.Replace(rows.Digest, int(rows.Offset), rows.Rows)
	if err != nil {
		p.stagedMACs = nil
		return StatusInvalid
	}
	if m.Modifier&ModMore != 0 {
		p.stagedMACs = next
		return StatusOK
	}
	p.MACs, p.stagedMACs = next, nil
	p.Info.MACDigest = rows.Digest
	a.refresh(p, false)
	return StatusOK
}

func (a *Agent) setMembers(p *PortState, m *Message) Status {
	lids, err := ParseMembers(m.Data)
	if err != nil {
		return StatusInvalid
	}
	if m.Modifier&ModNew != 0 || !p.staging {
		p.stagedMembers, p.staging = nil, true
	}
	if len(p.stagedMembers)+len(lids) > MembersMax {
		p.stagedMembers, p.staging = nil, false
		return StatusInvalid
	}
	p.stagedMembers = append(p.stagedMembers, lids...)
	if m.Modifier&ModMore != 0 {
		return StatusOK
	}
	slices.Sort(p.stagedMembers)
	members := slices.Compact(p.stagedMembers)
	p.stagedMembers, p.staging = nil, false
	if !slices.Equal(members, p.Members) {
		p.Members = members
		a.refresh(p, false)
	}
	return StatusOK
}
