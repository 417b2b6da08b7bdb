//go:build linux

package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"gobtl/internal/mono"
	"gobtl/vnic"
	"gobtl/vnic/tap"
)

// ownersRemembered is the time for which another host counts as an owner of an IP address after its
// latest packet from that address.
const ownersRemembered = time.Minute

// owners detects that another host uses an IP address of a port's device. The receiving threads
// call hear, and the control thread calls check.
type owners struct {
	own   atomic.Pointer[[]netip.Addr]
	other atomic.Pointer[owner] // the latest conflicting claim
}

// owner is another host that uses an IP address of a port's device.
type owner struct {
	ip  netip.Addr
	mac vnic.MAC
	lid uint32
	at  mono.Time
}

// hear records that a frame from the host with the given LID uses one of the device's IP addresses
// as its source. Frames of a VLAN are ignored, because the device's own addresses are those without
// a VLAN.
func (o *owners) hear(now mono.Time, lid uint32, f []byte, i *vnic.FrameInfo) {
	if i.Tagged && i.VLAN != 0 {
		return
	}
	said, mac, ok := vnic.Owner(f, i)
	if !ok {
		return
	}
	ip, _ := netip.AddrFromSlice(said)
	if own := o.own.Load(); own != nil && slices.Contains(*own, ip) {
		o.other.Store(&owner{ip: ip, mac: mac, lid: lid, at: now})
	}
}

// check stores the present addresses of the device, and returns an error if another host uses one
// of these addresses.
func (o *owners) check(now mono.Time, addrs []tap.Addr) error {
	own := make([]netip.Addr, len(addrs))
	refused := ""
	for n, a := range addrs {
		own[n] = a.IP
		if a.Refused {
			refused = fmt.Sprintf("the kernel does not use %v, because another host has it", a.IP)
		}
	}
	o.own.Store(&own)
	other := o.other.Load()
	switch {
	case other != nil && slices.Contains(own, other.ip) && now.Sub(other.at) < ownersRemembered:
		return fmt.Errorf("%v is also the address of %v, at LID %d", other.ip, other.mac, other.lid)
	case refused != "":
		return errors.New(refused)
	}
	return nil
}

// checkOwners records and logs that another host uses an IP address of a port's device. Each
// conflict is logged once.
func (a *Agent) checkOwners(now mono.Time, p *port) {
	const key = "ip address"
	addrs, err := p.dev.Addrs()
	if err == nil {
		err = p.owners.check(now, addrs)
	}
	was := p.problems[key]
	p.try(key, err)
	if err != nil && p.problems[key] != was {
		a.notef("port %d (%s): %v", p.num, p.dev.Name(), err)
	}
}
