//go:build linux

package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"gobtl/btl"
	"gobtl/vnic"
)

// PortReport describes a port for users and programs.
type PortReport struct {
	Port      uint8             `json:"port"`
	Device    string            `json:"device"`
	Switch    uint16            `json:"switch"`
	LID       uint32            `json:"lid"`
	MAC       string            `json:"mac"`
	MTU       int               `json:"mtu"`
	WantedMTU int               `json:"wanted_mtu"` // larger than MTU if the path carries less
	Carrier   string            `json:"carrier"`
	State     string            `json:"state"` // forwarding, or the reason why not
	Members   int               `json:"members"`
	Entries   int               `json:"mac_entries"`
	Digest    uint32            `json:"mac_digest"`
	Learned   int               `json:"learned"`
	LargeTCP  bool              `json:"large_tcp"`
	LargeUDP  bool              `json:"large_udp"`
	Refusals  uint64            `json:"large_refused"`
	Problems  map[string]string `json:"problems,omitempty"`
}

// HostReport describes the agent for users and programs.
type HostReport struct {
	Host       string          `json:"host"`
	LID        uint32          `json:"lid"`
	Manager    string          `json:"manager"`
	Connected  bool            `json:"connected"` // to a manager
	Leased     bool            `json:"leased"`    // the lease of a manager is valid
	Refused    string          `json:"refused,omitempty"`
	Management vnic.AgentStats `json:"management"`
	Strangers  uint64          `json:"management_strangers"`
	TrainsLost uint64          `json:"trains_lost"`
	Trains     OrderReport     `json:"trains"`
	Silent     []uint32        `json:"silent"` // LIDs of the hosts that answer no probes of sizes
	Ports      []PortReport    `json:"ports"`
}

// OrderReport counts trains (messages with the packets of one frame) that arrived out of order. The
// counts are those of all peers since the start of the agent.
type OrderReport struct {
	Early   uint64 `json:"early"`
	Late    uint64 `json:"late"`
	Skipped uint64 `json:"skipped"`
}

// orders returns the counts of the peers that are there, and of those that are gone.
func (a *Agent) orders() OrderReport {
	r := a.ordered
	for _, p := range a.mates {
		if p.order != nil {
			r.add(p.order)
		}
	}
	return r
}

func (r *OrderReport) add(o *vnic.Order) {
	r.Early += o.Early
	r.Late += o.Late
	r.Skipped += o.Skipped
}

// Entry is an Ethernet address in a table of a port.
type Entry struct {
	Port   uint8   `json:"port"`
	MAC    string  `json:"mac"`
	VLAN   uint16  `json:"vlan"`
	LID    uint32  `json:"lid"`
	Kind   string  `json:"kind"` // "table" or "learned"
	AgeSec float64 `json:"age_seconds,omitempty"`
}

// CountReport holds the counters of a port by name.
type CountReport struct {
	Port     uint8             `json:"port"`
	Device   string            `json:"device"`
	Counters map[string]uint64 `json:"counters"`
}

// Report returns a description of the agent and its ports.
func (a *Agent) Report(ctx context.Context) (r HostReport, err error) {
	err = a.do(ctx, func() {
		_, leased := a.core.Lease(clock())
		r = HostReport{
			Host: a.cfg.Host, LID: a.core.LID(), Manager: a.cfg.Manager,
			Connected: a.station.Connected() > 0, Leased: leased, Management: a.core.Stats,
			Refused: a.refusal(), Strangers: a.station.Strangers,
			TrainsLost: a.trainsLost.Load(), Trains: a.orders(), Ports: []PortReport{},
			Silent: []uint32{},
		}
		for lid, s := range a.paths {
			if s.Silent() {
				r.Silent = append(r.Silent, lid)
			}
		}
		slices.Sort(r.Silent)
		for _, p := range a.ports {
			if p != nil {
				r.Ports = append(r.Ports, p.report())
			}
		}
	})
	return r, err
}

func (p *port) report() PortReport {
	r := PortReport{
		Port: p.num, MTU: p.mtu, State: "no switch", Problems: maps.Clone(p.problems),
		Refusals: p.refusals.Load(),
	}
	if p.dev != nil {
		r.Device, r.LargeTCP, r.LargeUDP = p.dev.Name(), p.dev.LargeTCP(), p.dev.LargeUDP()
	}
	p.learnMu.Lock()
	r.Learned = p.fdb.Len()
	p.learnMu.Unlock()
	t := p.tables
	switch {
	case p.dev == nil:
		r.State = "no device"
		return r
	case t == nil:
		return r
	}
	r.Switch, r.LID, r.MAC = t.Info.VESW, t.Info.EncapSLID, t.Info.BaseMAC.String()
	r.WantedMTU, r.Carrier = int(t.Info.EthMTU), t.Options.Carrier.String()
	r.Members, r.Entries, r.Digest = len(t.Members), len(t.MACs.Entries()), t.Info.MACDigest
	switch {
	case t.Forwarding():
		r.State = "forwarding"
	case t.Info.ConfigState == vnic.StateDropAll:
		r.State = "drops all, as configured"
	default:
		r.State = "interface is down"
	}
	return r
}

// Entries lists the address tables of all ports. If the argument learned is set, Entries lists the
// learned addresses, and otherwise the addresses that the manager has sent.
func (a *Agent) Entries(ctx context.Context, learned bool) (list []Entry, err error) {
	list = []Entry{}
	err = a.do(ctx, func() {
		now := clock()
		for _, p := range a.ports {
			if p == nil || p.tables == nil {
				continue
			}
			if !learned {
				for _, e := range p.tables.MACs.Entries() {
					list = append(list, Entry{
						Port: p.num, MAC: e.MAC.String(), LID: e.DLID, Kind: "table",
					})
				}
				continue
			}
			p.learnMu.Lock()
			entries := p.fdb.Entries(now)
			p.learnMu.Unlock()
			slices.SortFunc(entries, func(x, y vnic.FDBEntry) int {
				if x.MAC != y.MAC {
					return int(int64(x.MAC) - int64(y.MAC))
				}
				return int(x.VLAN) - int(y.VLAN)
			})
			for _, e := range entries {
				list = append(list, Entry{
					Port: p.num, MAC: e.MAC.String(), VLAN: e.VLAN, LID: e.LID, Kind: "learned",
					AgeSec: now.Sub(e.Seen).Round(time.Millisecond).Seconds(),
				})
			}
		}
	})
	return list, err
}

// counts returns the sum of the counters of all parts of a port. Only the control thread may call
// the method counts.
func (a *Agent) counts(vport uint8) (c vnic.Counts) {
	p := a.ports[vport]
	if p == nil || p.dev == nil {
		return c
	}
	c.Add(&p.trainsLost)
	first := true // the first port also gets packets that belong to no port
	for _, other := range a.ports[:vport] {
		first = first && other == nil
	}
	for i, s := range a.senders {
		s.mu.Lock()
		c.Add(&p.outlets[i].out.Counts)
		s.mu.Unlock()
	}
	for i, r := range a.receivers {
		r.mu.Lock()
		c.Add(&p.inlets[i].in.Counts)
		if first {
			c.Add(&r.host.Strangers)
		}
		r.mu.Unlock()
	}
	if first {
		c.Add(&a.strangers)
	}
	a.local.mu.Lock()
	c.Add(&p.inlets[len(a.receivers)].in.Counts)
	if first {
		c.Add(&a.local.host.Strangers)
	}
	a.local.mu.Unlock()
	return c
}

// Counters returns the counters of all ports.
func (a *Agent) Counters(ctx context.Context) (list []CountReport, err error) {
	list = []CountReport{}
	err = a.do(ctx, func() {
		for _, p := range a.ports {
			if p == nil || p.dev == nil {
				continue
			}
			c := a.counts(p.num)
			r := CountReport{Port: p.num, Device: p.dev.Name(), Counters: make(map[string]uint64)}
			for _, name := range vnic.Counters() {
				r.Counters[name.String()] = c[name]
			}
			list = append(list, r)
		}
	})
	return list, err
}

// Stats returns the counters of the transport.
func (a *Agent) Stats() btl.Stats { return a.module.Stats() }
