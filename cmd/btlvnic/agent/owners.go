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

// ownersRemembered is how long another host counts as an owner of an IP address after it has said
// so. Kernels ask for their neighbours about twice a minute.
const ownersRemembered = time.Minute

// owners finds out that an IP address of a port's device is also the address of another host. The
// receiving threads call hear, the control thread calls check.
type owners struct {
	own   atomic.Pointer[[]netip.Addr]
	other atomic.Pointer[owner] // the latest that was heard
}

// owner is another host that says that an IP address is its own.
type owner struct {
	ip  netip.Addr
	mac vnic.MAC
	lid uint32
	at  mono.Time
}

// hear looks for such a host in a frame from the host with a LID.
func (o *owners) hear(now mono.Time, lid uint32, f []byte, i *vnic.FrameInfo) {
	said, mac, ok := vnic.Owner(f, i)
	if !ok {
		return
	}
	ip, _ := netip.AddrFromSlice(said)
	if own := o.own.Load(); own != nil && slices.Contains(*own, ip) {
		o.other.Store(&owner{ip: ip, mac: mac, lid: lid, at: now})
	}
}

// check takes the present addresses of the device, and returns an error if another host has one of
// them, too.
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

// checkOwners notes, and tells once, that another host has an IP address of a port's device.
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
