package vnic

import (
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
)

// All errors of Plan.Complete wrap ErrPlan, which means that a plan has a fault.
var ErrPlan = errors.New("vnic: plan")

// Plan is the desired configuration of the hosts and of the switches with their ports.
type Plan struct {
	Hosts    []PlanHost
	Switches []PlanSwitch

	lids  map[string]uint32    // by host; set by Complete
	ports map[string][]portRef // by host; set by Complete
	at    map[portKey]portRef  // set by Complete
}

// portRef is the index of a switch in Plan.Switches and the index of a port in PlanSwitch.Ports.
type portRef struct{ of, at int }

// portKey is the number of a switch and the LID of a host.
type portKey struct {
	vesw uint16
	lid  uint32
}

// PlanHost is a host of the fabric.
type PlanHost struct {
	Name string
	LID  uint32 // 1 to HostLIDMax
}

// HostLIDMax is the largest LID that a host can have. LIDs above HostLIDMax are group LIDs, which
// stand for all members of a switch.
const HostLIDMax = 0xEFFFFF

// GroupLID returns the group LID, which stands for all members of a switch.
func GroupLID(vesw uint16) uint32 { return 0xF00000 | uint32(vesw) }

// PlanSwitch is a virtual switch.
type PlanSwitch struct {
	Name    string
	ID      uint16
	PKey    uint16
	MTU     uint16 // 0 means MTUDefault
	RC      uint32
	Options Options
	// PCPToSC holds the service class for each priority of tagged unicast frames, and PCPToSCGroup
	// holds the service class for each priority of tagged group frames. SC is the service class of
	// untagged unicast frames, and SCGroup is the service class of untagged group frames.
	PCPToSC, PCPToSCGroup [8]uint8
	SC, SCGroup           uint8
	Ports                 []PlanPort
	MACs                  []PlanMAC // rows in addition to the ports' addresses
	Default               []string  // hosts that receive frames to unknown addresses
	Reported              bool      // put addresses that devices report into the MAC table
}

// PlanPort is a host's port on a switch.
type PlanPort struct {
	Host  string
	Vport uint8 // number of the port on the host; 0 means the next free one
	MAC   MAC   // 0 means the result of MACFor
	MACs  []MAC // further addresses behind this port
	Drop  bool  // the port drops all frames
}

// PlanMAC is a row in the MAC tables of all ports of a switch.
type PlanMAC struct {
	MAC  MAC
	Host string
}

// Complete fills in the unset values of the plan, and returns an error that wraps ErrPlan if the
// plan has a fault.
func (p *Plan) Complete() error {
	hosts := make(map[string]uint32)
	lids := make(map[uint32]string)
	for _, h := range p.Hosts {
		switch {
		case !NameOK(h.Name):
			return fmt.Errorf("%w: host name %q: want 1 to %d printable characters", ErrPlan, h.Name,
				HostNameBytesMax)
		case h.LID < 1 || h.LID > HostLIDMax:
			return fmt.Errorf("%w: host %s: lid is %d, want 1 to %d", ErrPlan, h.Name, h.LID, HostLIDMax)
		case hosts[h.Name] != 0:
			return fmt.Errorf("%w: host %s is there twice", ErrPlan, h.Name)
		case lids[h.LID] != "":
			return fmt.Errorf("%w: hosts %s and %s have the same lid %d", ErrPlan, lids[h.LID], h.Name,
				h.LID)
		}
		hosts[h.Name], lids[h.LID] = h.LID, h.Name
	}
	ids, names := make(map[uint16]string), make(map[string]bool)
	vports := make(map[string][]uint8)
	p.lids, p.ports, p.at = hosts, make(map[string][]portRef), make(map[portKey]portRef)
	for i := range p.Switches {
		s := &p.Switches[i]
		switch {
		case !NameOK(s.Name) || names[s.Name]:
			return fmt.Errorf("%w: switch name %q: want each one once", ErrPlan, s.Name)
		case s.ID < 1 || s.ID > VESWMax:
			return fmt.Errorf("%w: switch %s: id is %d, want 1 to %d", ErrPlan, s.Name, s.ID, VESWMax)
		case ids[s.ID] != "":
			return fmt.Errorf("%w: switches %s and %s have the same id %d", ErrPlan, ids[s.ID], s.Name,
				s.ID)
		}
		ids[s.ID], names[s.Name] = s.Name, true
		for j := range s.Ports {
			host := s.Ports[j].Host
			p.ports[host] = append(p.ports[host], portRef{i, j})
			p.at[portKey{s.ID, hosts[host]}] = portRef{i, j}
		}
		if err := s.complete(hosts, vports); err != nil {
			return fmt.Errorf("%w: switch %s: %w", ErrPlan, s.Name, err)
		}
	}
	return nil
}

func (s *PlanSwitch) complete(hosts map[string]uint32, vports map[string][]uint8) error {
	if s.MTU == 0 {
		s.MTU = MTUDefault
	}
	if s.MTU < MTUMin || s.MTU > MTUMax {
		return fmt.Errorf("mtu is %d, want %d to %d", s.MTU, MTUMin, MTUMax)
	}
	if s.Options.LearnedMax > FDBEntriesMax {
		return fmt.Errorf("learned_max is %d, want at most %d", s.Options.LearnedMax, FDBEntriesMax)
	}
	if s.SC > SCMax || s.SCGroup > SCMax || slices.Max(s.PCPToSC[:]) > SCMax ||
		slices.Max(s.PCPToSCGroup[:]) > SCMax {
		return fmt.Errorf("a service class is above %d", SCMax)
	}
	rows := len(s.MACs)
	macs := make(map[MAC]bool)
	on := make(map[string]bool)
	for i := range s.Ports {
		port := &s.Ports[i]
		lid, ok := hosts[port.Host]
		if !ok {
			return fmt.Errorf("port on host %q, which is not there", port.Host)
		}
		if on[port.Host] {
			return fmt.Errorf("two ports on host %s", port.Host)
		}
		on[port.Host] = true
		used := vports[port.Host]
		if port.Vport == 0 {
			port.Vport = 1
			for slices.Contains(used, port.Vport) && port.Vport < VportMax {
				port.Vport++
			}
		}
		if slices.Contains(used, port.Vport) {
			return fmt.Errorf("host %s has two ports with number %d", port.Host, port.Vport)
		}
		vports[port.Host] = append(used, port.Vport)
		if port.MAC == 0 {
			port.MAC = MACFor(s.ID, lid)
		}
		for _, m := range append([]MAC{port.MAC}, port.MACs...) {
			if m == 0 || m.Group() || macs[m] {
				return fmt.Errorf("address %v of host %s: want one of one device, once", m, port.Host)
			}
			macs[m] = true
		}
		rows += 1 + len(port.MACs)
	}
	if err := s.checkRows(hosts, on); err != nil {
		return err
	}
	for _, h := range s.Default {
		if !on[h] {
			return fmt.Errorf("default port on host %q, which has no port here", h)
		}
	}
	if rows > MACEntriesMax || len(s.Default) > DefaultPorts || len(s.Ports) > MembersMax {
		return fmt.Errorf("%d addresses, %d default ports, %d ports: at most %d, %d, %d", rows,
			len(s.Default), len(s.Ports), MACEntriesMax, DefaultPorts, MembersMax)
	}
	return nil
}

// checkRows checks the rows in PlanSwitch.MACs, and the value of the switch's routing control. The
// argument "on" of checkRows is the set of hosts that have a port on the switch.
func (s *PlanSwitch) checkRows(hosts map[string]uint32, on map[string]bool) error {
	seen := make(map[MAC]bool)
	for _, m := range s.MACs {
		switch {
		case hosts[m.Host] == 0 || m.MAC == 0:
			return fmt.Errorf("address %v is at host %q, which is not there", m.MAC, m.Host)
		case !on[m.Host]:
			return fmt.Errorf("address %v is at host %q, which has no port here", m.MAC, m.Host)
		case seen[m.MAC]:
			return fmt.Errorf("address %v has two rows", m.MAC)
		}
		seen[m.MAC] = true
	}
	if s.RC&^rcBits != 0 {
		return fmt.Errorf("rc is %#x, want seven rows of three bits, %#x", s.RC, uint32(rcBits))
	}
	return nil
}

// rcBits are the bits of the routing control that are not reserved.
const rcBits = 0x7777777

// wanted is the planned configuration of a port.
type wanted struct {
	vport   uint8
	info    VportInfo
	options Options
	tables  *switchTables
}

func (p *Plan) lidOf(host string) uint32 {
	return p.lids[host]
}

// The method "near" returns the set that contains the given host and all hosts that share a switch
// with the given host.
func (p *Plan) near(host string) map[string]bool {
	all := make(map[string]bool)
	for _, ref := range p.ports[host] {
		for i := range p.Switches[ref.of].Ports {
			all[p.Switches[ref.of].Ports[i].Host] = true
		}
	}
	return all
}

func (p *Plan) hasPort(host string, vport uint8) bool {
	return slices.ContainsFunc(p.ports[host], func(ref portRef) bool {
		return p.Switches[ref.of].Ports[ref.at].Vport == vport
	})
}

// portOf returns the port of a host on a switch, or nil if the plan has no such port. The running
// time of portOf must not depend on the size of the plan, because a host can make the manager call
// portOf once for each table row that the host reports.
func (p *Plan) portOf(vesw uint16, lid uint32) *PlanPort {
	ref, ok := p.at[portKey{vesw, lid}]
	if !ok {
		return nil
	}
	return &p.Switches[ref.of].Ports[ref.at]
}

// The method "port" returns the planned configuration of a port of a switch, without the MAC table
// and the list of members.
func (p *Plan) port(s *PlanSwitch, port *PlanPort) wanted {
	lid := p.lidOf(port.Host)
	w := wanted{vport: port.Vport, options: s.Options}
	w.info = VportInfo{
		VESW: s.ID, PKey: s.PKey, McastDLID: GroupLID(s.ID), RC: s.RC, EthMTU: s.MTU,
		PortNum: uint32(port.Vport), BaseMAC: port.MAC, EncapSLID: lid, ConfigState: StateForwarding,
		PCPToSCUni: s.PCPToSC, PCPToSCMulti: s.PCPToSCGroup, SCUni: s.SC, SCMulti: s.SCGroup,
	}
	if port.Drop {
		w.info.ConfigState = StateDropAll
	}
	for i, h := range s.Default {
		w.info.UcastDLID[i] = p.lidOf(h)
		if h != port.Host { // no frames to the host itself
			w.info.DefPortMask |= 1 << i
		}
	}
	return w
}

// The method "rows" returns the rows of the MAC table that all ports of a switch have. The argument
// "reported" of the method "rows" maps the addresses that devices have reported to the LIDs of
// their hosts.
func (p *Plan) rows(s *PlanSwitch, reported map[MAC]uint32) []MACEntry {
	var rows []MACEntry
	taken := make(map[MAC]bool)
	add := func(m MAC, at uint32) {
		if !taken[m] && len(rows) < MACEntriesMax {
			taken[m] = true
			rows = append(rows, MACEntry{MAC: m, DLID: at})
		}
	}
	for _, m := range s.MACs { // configured rows take precedence
		add(m.MAC, p.lidOf(m.Host))
	}
	for i := range s.Ports {
		other := &s.Ports[i]
		at := p.lidOf(other.Host)
		add(other.MAC, at)
		for _, m := range other.MACs {
			add(m, at)
		}
	}
	more := make([]MAC, 0, len(reported))
	for m := range reported {
		more = append(more, m)
	}
	slices.Sort(more)
	for _, m := range more {
		add(m, reported[m])
	}
	return rows
}

// The method "members" returns the LIDs of all hosts with a port on a switch, in ascending order.
func (p *Plan) members(s *PlanSwitch) []uint32 {
	lids := make([]uint32, 0, len(s.Ports))
	for i := range s.Ports {
		lids = append(lids, p.lidOf(s.Ports[i].Host))
	}
	slices.Sort(lids)
	return lids
}

// digestOf returns the CRC-32 of the rows. If the CRC-32 is 0, digestOf returns 1, because a digest
// of 0 means that there is no table.
func digestOf(rows []MACEntry) uint32 {
	m := MACEntries{Rows: rows}
	d := crc32.ChecksumIEEE(m.Append(nil))
	return max(d, 1)
}
