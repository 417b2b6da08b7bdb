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

// port is a port of a switch on this host. The control thread owns it; what others use is named.
type port struct {
	num uint8
	dev *tap.Device

	learnMu sync.Mutex // of the next two
	fdb     vnic.FDB
	near    vnic.Neighbours

	outlets []*outlet // one for each sender, whose lock guards it
	inlets  []*inlet  // one for each receiver, likewise; the last is the control thread's

	dump     atomic.Pointer[dump]
	refusals atomic.Uint64 // large frames that the kernel refused
	pathMTU  atomic.Int64  // packet bytes that the path was found to carry; 0: as the fabric says

	owners owners // of the device's IP addresses

	trainsLost vnic.Counts // what did not leave by btl

	tables   *vnic.Tables
	up       bool // the interface is up
	carrier  bool
	mtu      int // as it was announced
	mac      vnic.MAC
	problems map[string]string // by what failed: for people
}

// usableMTU is the largest MTU of the interface whose frames a datagram of some bytes carries.
func usableMTU(datagramBytes int) int {
	const ethernet = 14 + 4
	return datagramBytes&^7 - vnic.OverheadBytesMax + 7 - ethernet
}

// plateaus are sizes of datagrams that paths have: known MTUs less what UDP and IPv6 take.
var plateaus = []int{65487, 31952, 16336, 8952, 8118, 4304, 1952, 1452, 1444, 1352, 1232, 528}

// plateau is the next size to try when one was too large.
func plateau(tooLarge int) int {
	for _, p := range plateaus {
		if p < tooLarge {
			return p
		}
	}
	return plateaus[len(plateaus)-1]
}

// narrow notes that a path carries no more than some bytes, and says whether that is news.
func (p *port) narrow(packetBytes int) bool {
	for {
		was := p.pathMTU.Load()
		if was != 0 && was <= int64(packetBytes) {
			return false
		}
		if p.pathMTU.CompareAndSwap(was, int64(packetBytes)) {
			return true
		}
	}
}

// wantedMTU returns the planned MTU of the interface.
func (p *port) wantedMTU(datagramBytes int) int {
	t := p.tables
	if t == nil {
		return vnic.MTUDefault
	}
	mtu := int(t.Info.EthMTU)
	if t.Options.Carrier == vnic.CarrierFragment || t.Options.Cut {
		return mtu
	}
	if path := int(p.pathMTU.Load()); path > 0 {
		datagramBytes = min(datagramBytes, path)
	}
	return max(min(mtu, usableMTU(datagramBytes)), vnic.MTUMin)
}

// try records a failure for the report, and continues, because the agent may lack the rights for a
// device of the administrator.
func (p *port) try(what string, err error) {
	if err != nil {
		p.problems[what] = err.Error()
		return
	}
	delete(p.problems, what)
}

// apply configures the device according to the tables.
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
		// One message of UDP stays whole up to 65473 bytes: large frames are to fit when they are cut up.
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

// look asks the kernel for what may have changed on the device.
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
