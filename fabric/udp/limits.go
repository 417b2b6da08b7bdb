//go:build linux

package udp

import (
	"fmt"

	"gobtl/fabric"
)

// recvAttr tells people what the receive buffer of a socket is, for datagrams of mtu bytes, and
// what to do if it is less than was asked for; got is as the kernel tells it, which counts each
// byte twice. Asked is negative where nobody has.
func recvAttr(asked, got, mtu int) fabric.Attr {
	const perSecond, mega = 1000, 1e6 // times a millisecond
	datagrams := socketCapacity(got, mtu)
	value := fmt.Sprintf("%d bytes", got/2)
	if asked == 0 {
		asked = wantRecvBytes
	}
	short := got/2 < asked
	if short {
		value = fmt.Sprintf("%d of %d bytes asked for", got/2, asked)
	}
	value += fmt.Sprintf(", %d datagrams of %d bytes", datagrams, mtu)
	if short || asked < 0 {
		value += fmt.Sprintf(": at most %d MB/s of such over a path of a millisecond or more",
			int(float64(datagrams*mtu*perSecond)/mega))
	}
	if short {
		value += fmt.Sprintf("; for all of it: sysctl -w net.core.rmem_max=%d", asked)
	}
	return fabric.Attr{Name: "receive buffer", Value: value}
}

// tightest is the attribute of the endpoint whose buffer holds least, before there is one that of
// the Info.
func (d *domain) tightest(none fabric.Attr) fabric.Attr {
	least := -1
	for i, e := range d.endpoints {
		if least < 0 || e.sock.recvBytes < d.endpoints[least].sock.recvBytes {
			least = i
		}
	}
	if least < 0 {
		return none
	}
	e := d.endpoints[least]
	return recvAttr(e.recvAsked, e.sock.recvBytes, d.mtuBytes)
}
