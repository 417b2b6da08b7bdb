// Package emfile parses the configuration file of the Ethernet Manager. The configuration file is
// in TOML, and describes hosts and virtual switches with their ports and MAC tables. Any goroutine
// may call this package. The file docs/vnic.md describes the keys.
//
//	table               keys
//	=====               ====
//	                    name
//	[[host]]            name, lid
//	[[switch]]          name, id, mtu, carrier, learning and others
//	[[switch.port]]     host, port, mac, macs, drop
//	[[switch.mac]]      mac, host
package emfile

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/BurntSushi/toml"

	"gobtl/vnic"
)

// ErrFile means that the content of a configuration file is invalid.
var ErrFile = errors.New("manager's file")

// BytesMax is the largest size of a configuration file of the Ethernet Manager, in bytes.
const BytesMax = 16 << 20

// leaseMin is the shortest duration of a lease. leaseMin is several times as long as a message
// exchange between a host and the manager. A lease that is much shorter than leaseMin could expire
// before the manager has renewed the lease.
const leaseMin = 100 * time.Millisecond

// File is the content of a configuration file.
type File struct {
	Name  string // name of the manager
	Lease time.Duration
	Plan  *vnic.Plan
}

type document struct {
	Name     string        `toml:"name"`
	Lease    time.Duration `toml:"lease"`
	Hosts    []host        `toml:"host"`
	Switches []virtual     `toml:"switch"`
}

type host struct {
	Name string `toml:"name"`
	LID  uint32 `toml:"lid"`
}

type virtual struct {
	Name         string   `toml:"name"`
	ID           uint16   `toml:"id"`
	PKey         uint16   `toml:"pkey"`
	MTU          uint16   `toml:"mtu"`
	Carrier      string   `toml:"carrier"`
	Cut          bool     `toml:"cut"`
	Learning     bool     `toml:"learning"`
	Flood        bool     `toml:"flood"`
	Suppress     bool     `toml:"suppress"`
	Reported     *bool    `toml:"reported"`
	Ageing       uint16   `toml:"ageing_seconds"`
	LearnedMax   uint32   `toml:"learned_max"`
	GroupRate    uint32   `toml:"group_rate"`
	RC           uint32   `toml:"rc"`
	SC           uint8    `toml:"sc"`
	SCGroup      *uint8   `toml:"sc_group"`
	PCPToSC      []uint8  `toml:"pcp_to_sc"`
	PCPToSCGroup []uint8  `toml:"pcp_to_sc_group"`
	Default      []string `toml:"default"`
	Ports        []port   `toml:"port"`
	MACs         []mac    `toml:"mac"`
}

type port struct {
	Host string   `toml:"host"`
	Port uint8    `toml:"port"`
	MAC  string   `toml:"mac"`
	MACs []string `toml:"macs"`
	Drop bool     `toml:"drop"`
}

type mac struct {
	MAC  string `toml:"mac"`
	Host string `toml:"host"`
}

// Parse decodes a configuration file of the Ethernet Manager. The errors of Parse wrap ErrFile, and
// the error text describes the fault and names the part of the file with the fault.
func Parse(text []byte) (*File, error) {
	if len(text) > BytesMax {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrFile, len(text), BytesMax)
	}
	var d document
	meta, err := toml.Decode(string(text), &d)
	if err != nil {
		var at toml.ParseError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%w: line %d: %s", ErrFile, at.Position.Line, at.Message)
		}
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("%w: unknown key %s", ErrFile, unknown[0])
	}
	f := &File{Name: d.Name, Lease: d.Lease, Plan: &vnic.Plan{}}
	if !vnic.NameOK(f.Name) {
		return nil, fmt.Errorf("%w: name: want the manager's, 1 to %d printable characters of ASCII "+
			"without spaces", ErrFile, vnic.HostNameBytesMax)
	}
	if f.Lease != 0 && f.Lease < leaseMin || f.Lease > vnic.LeaseMsMax*time.Millisecond ||
		f.Lease%time.Millisecond != 0 {
		return nil, fmt.Errorf("%w: lease is %v, want %v to %v, as in \"5s\"", ErrFile,
			f.Lease, leaseMin, vnic.LeaseMsMax*time.Millisecond)
	}
	for _, h := range d.Hosts {
		f.Plan.Hosts = append(f.Plan.Hosts, vnic.PlanHost{Name: h.Name, LID: h.LID})
	}
	for i := range d.Switches {
		s, err := d.Switches[i].plan()
		if err != nil {
			return nil, fmt.Errorf("%w: switch %s: %w", ErrFile, d.Switches[i].Name, err)
		}
		f.Plan.Switches = append(f.Plan.Switches, s)
	}
	if err := f.Plan.Complete(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return f, nil
}

func (v *virtual) plan() (s vnic.PlanSwitch, err error) {
	s = vnic.PlanSwitch{
		Name: v.Name, ID: v.ID, PKey: v.PKey, MTU: v.MTU, RC: v.RC, SC: v.SC, SCGroup: v.SC,
		Default: v.Default, Reported: v.Reported == nil || *v.Reported,
		Options: vnic.Options{
			Cut: v.Cut, Learning: v.Learning, Flood: v.Flood, Suppress: v.Suppress,
			AgeingSeconds: v.Ageing, LearnedMax: v.LearnedMax, GroupRate: v.GroupRate,
		},
	}
	if v.SCGroup != nil {
		s.SCGroup = *v.SCGroup
	}
	switch v.Carrier {
	case "", vnic.CarrierDatagram.String():
	case vnic.CarrierFragment.String():
		s.Options.Carrier = vnic.CarrierFragment
	default:
		return s, fmt.Errorf("carrier is %q, want datagram or fragment", v.Carrier)
	}
	if s.PCPToSC, err = eight("pcp_to_sc", v.PCPToSC, [8]uint8{}); err != nil {
		return s, err
	}
	if s.PCPToSCGroup, err = eight("pcp_to_sc_group", v.PCPToSCGroup, s.PCPToSC); err != nil {
		return s, err
	}
	for _, p := range v.Ports {
		one := vnic.PlanPort{Host: p.Host, Vport: p.Port, Drop: p.Drop}
		if p.MAC != "" {
			if one.MAC, err = vnic.ParseMAC(p.MAC); err != nil {
				return s, err
			}
		}
		for _, text := range p.MACs {
			m, err := vnic.ParseMAC(text)
			if err != nil {
				return s, err
			}
			one.MACs = append(one.MACs, m)
		}
		s.Ports = append(s.Ports, one)
	}
	for _, row := range v.MACs {
		m, err := vnic.ParseMAC(row.MAC)
		if err != nil {
			return s, err
		}
		s.MACs = append(s.MACs, vnic.PlanMAC{MAC: m, Host: row.Host})
	}
	return s, nil
}

// The function "eight" converts a list with one value for each of the eight priorities to an array.
// If the list is empty, the function "eight" returns the argument "other".
func eight(name string, list []uint8, other [8]uint8) ([8]uint8, error) {
	if len(list) == 0 {
		return other, nil
	}
	if len(list) != len(other) {
		return other, fmt.Errorf("%s has %d values, want 8", name, len(list))
	}
	return [8]uint8(slices.Clone(list)), nil
}
