//go:build linux

package udp

import (
	"fmt"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

// recvAttr returns an Attr that describes the receive buffer of a socket for datagrams of "mtu"
// bytes. If the receive buffer is smaller than requested, the text of the Attr tells the user how
// to enlarge the buffer. The argument "got" is the buffer size that the kernel reports, which is
// twice the granted size. The argument "asked" of recvAttr is the requested size, or negative if
// the caller has requested no size.
func recvAttr(asked, got, mtu int) fabric.Attr {
	const perSecond, mega = 1000, 1e6 // perSecond is the number of milliseconds in a second
	datagrams := inet.Capacity(got, mtu)
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

// sendAttr returns an Attr that describes the send buffer of a socket. If the send buffer is
// smaller than requested, the text of the Attr tells the user how to enlarge the buffer. The
// argument "got" is the buffer size that the kernel reports, which is twice the granted size.
func sendAttr(got int) fabric.Attr {
	value := fmt.Sprintf("%d bytes", got/2)
	if got/2 < wantSendBytes {
		value = fmt.Sprintf("%d of %d bytes asked for: a long train waits for the device in parts; "+
			"for all of it: sysctl -w net.core.wmem_max=%d", got/2, wantSendBytes, wantSendBytes)
	}
	return fabric.Attr{Name: "send buffer", Value: value}
}

// setAttr replaces the value of the attribute that has the same name as the argument "a".
func setAttr(attrs []fabric.Attr, a fabric.Attr) {
	for i := range attrs {
		if attrs[i].Name == a.Name {
			attrs[i] = a
			return
		}
	}
}

// The method "tightest" returns the attribute that describes the smallest receive buffer among the
// domain's endpoints. The second result of the method "tightest" is false if the domain has no
// endpoint, and otherwise true.
func (d *domain) tightest() (fabric.Attr, bool) {
	least := -1
	for i, e := range d.endpoints {
		if least < 0 || e.sock.recvBytes < d.endpoints[least].sock.recvBytes {
			least = i
		}
	}
	if least < 0 {
		return fabric.Attr{}, false
	}
	e := d.endpoints[least]
	return recvAttr(e.recvAsked, e.sock.recvBytes, d.mtuBytes), true
}
