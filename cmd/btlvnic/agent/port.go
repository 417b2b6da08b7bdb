//go:build linux

package agent

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"gobtl/vnic"
	"gobtl/vnic/tap"
)

// port is a port of a virtual switch on this host. The control thread owns a port. Other threads
// use only the fields that are documented as shared.
type port struct {
	num uint8
	dev *tap.Device

	learnMu sync.Mutex // guards fdb and near
	fdb     vnic.FDB
	near    vnic.Neighbours

	outlets []*outlet // one for each sender, whose lock guards it
	inlets  []*inlet  // one per receiver, whose lock guards it; last: control thread

	dump     atomic.Pointer[dump]
	refusals atomic.Uint64 // large frames that the kernel refused

	owners owners // of the device's IP addresses

	trainsLost vnic.Counts // frames in trains that could not be sent

	tables   *vnic.Tables
	pathMTU  int  // largest packet that all paths carry, in bytes; 0: any packet of the port
	up       bool // the interface is up
	carrier  bool
	mtu      int // the MTU set last
	mac      vnic.MAC
	problems map[string]string // error texts by what failed
}

// usableMTU returns the largest interface MTU whose frames fit into a datagram of datagramBytes
// bytes.
func usableMTU(datagramBytes int) int {
	return datagramBytes&^7 - vnic.OverheadBytesMax + 7 - ethernetBytes
}

// ethernetBytes is the size of an Ethernet header with a VLAN tag.
const ethernetBytes = 14 + 4

// pathFloorBytes is the smallest datagram size to which a path reduces an interface. Linux takes
// IPv6 off a device with an MTU below 1280 bytes.
const pathFloorBytes = (1280 + ethernetBytes + vnic.OverheadBytesMax - 7 + 7) &^ 7

// pathLimit returns the size of datagrams to which a path of packetBytes bytes reduces a port. The
// path of one host does not reduce the port below pathFloorBytes, unless larger frames can be cut.
// Larger frames to that host are then lost and counted.
func pathLimit(t *vnic.Tables, packetBytes int) int {
	if t != nil && t.Options.Cut {
		return packetBytes
	}
	return max(packetBytes, pathFloorBytes)
}

// wantedMTU returns the MTU that the interface of the port should have.
func (p *port) wantedMTU(datagramBytes int) int {
	t := p.tables
	if t == nil {
		return vnic.MTUDefault
	}
	mtu := int(t.Info.EthMTU)
	if t.Options.Carrier == vnic.CarrierFragment || t.Options.Cut {
		return mtu
	}
	if p.pathMTU > 0 {
		datagramBytes = min(datagramBytes, pathLimit(t, p.pathMTU))
	}
	return max(min(mtu, usableMTU(datagramBytes)), vnic.MTUMin)
}

// try stores the failure of an action for the report, or removes the stored failure after success.
// A failure does not end the agent, because the agent may lack the rights to change an
// administrator's device.
func (p *port) try(what string, err error) {
	if err != nil {
		p.problems[what] = err.Error()
		return
	}
	delete(p.problems, what)
}

// apply configures the device according to the manager's tables.
func (p *port) apply(datagramBytes int) {
	t := p.tables
	forwards := t != nil && t.Info.ConfigState == vnic.StateForwarding
	if mac := p.wantedMAC(); mac != 0 && mac != p.mac {
		err := p.dev.SetMAC(net.HardwareAddr(mac.Bytes()))
		p.try("address", err)
		p.mac = mac
	}
	if mtu := p.wantedMTU(datagramBytes); mtu != p.mtu {
		p.try("mtu", p.dev.SetMTU(mtu))
		p.mtu = mtu
		// The limit for large frames ensures that a split and encapsulated frame fits into one UDP
		// message of at most 65473 bytes.
		if p.dev.LargeTCP() {
			const perFrame = vnic.OverheadBytesMax + 14 + 4 + 60 + 60
			p.try("gso_max_size", p.dev.SetLargest(65473/(mtu+perFrame)*mtu))
		}
	}
	if forwards != p.carrier {
		p.carrier = forwards
		p.try("carrier", p.dev.SetCarrier(forwards))
		p.try("dormant", p.dev.SetDormant(!forwards))
	}
}

func (p *port) wantedMAC() vnic.MAC {
	if p.tables == nil {
		return 0
	}
	return p.tables.Info.BaseMAC
}

// look asks the kernel for the state and the addresses of the device.
func (p *port) look() (unicast, multicast []vnic.MAC, err error) {
	l, err := p.dev.Link()
	if err != nil {
		return nil, nil, err
	}
	p.up = l.Up
	for _, hw := range append(slices.Clone(l.Unicast), l.MAC) {
		if len(hw) == 6 {
			unicast = append(unicast, vnic.MACOf(hw))
		}
	}
	for _, hw := range l.Multicast {
		if len(hw) == 6 {
			multicast = append(multicast, vnic.MACOf(hw))
		}
	}
	return unicast, multicast, nil
}
