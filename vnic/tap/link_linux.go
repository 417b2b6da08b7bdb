package tap

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Link is the state of a device in the kernel.
type Link struct {
	Up         bool
	MTU        int
	MAC        net.HardwareAddr
	Unicast    []net.HardwareAddr // further unicast addresses of the interface
	Multicast  []net.HardwareAddr
	GSOMaxSize uint32
}

// operUp is the kernel's IF_OPER_UP.
const (
	operUp      = 6
	linkDefault = 0
	linkDormant = 1
)

// Link asks the kernel for the state of the interface. If this network namespace has no interface
// with the name of the device, the error of Link wraps ErrMoved.
func (d *Device) Link() (Link, error) {
	name := d.Name()
	link, err := netlink.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return Link{}, fmt.Errorf("%w: %s", ErrMoved, name)
	}
	if err != nil {
		return Link{}, fmt.Errorf("tap: %s: %w", name, err)
	}
	a := link.Attrs()
	l := Link{
		Up: a.Flags&net.FlagUp != 0, MTU: a.MTU, MAC: a.HardwareAddr, GSOMaxSize: a.GSOMaxSize,
	}
	near, err := netlink.NeighList(a.Index, unix.AF_BRIDGE)
	if err == nil { // "bridge fdb add ADDRESS dev NAME self"
		for _, n := range near {
			own := n.Flags&unix.NTF_SELF != 0 && n.MasterIndex == 0
			if own && n.HardwareAddr != nil && n.HardwareAddr[0]&1 == 0 {
				l.Unicast = append(l.Unicast, n.HardwareAddr)
			}
		}
	}
	l.Multicast, err = multicastOf(name)
	return l, err
}

// Addr is an IP address of a device.
type Addr struct {
	IP netip.Addr
	// Refused is true if a different host already uses the address (IPv6 duplicate address detection).
	// The kernel does not use an address whose field Refused is true.
	Refused bool
}

// Addrs returns the IP addresses of the interface, and of the bridge to which the interface
// belongs.
func (d *Device) Addrs() ([]Addr, error) {
	link, err := netlink.LinkByName(d.Name())
	if err != nil {
		return nil, fmt.Errorf("tap: %s: %w", d.Name(), err)
	}
	links := []netlink.Link{link}
	if master := link.Attrs().MasterIndex; master != 0 {
		if bridge, err := netlink.LinkByIndex(master); err == nil {
			links = append(links, bridge)
		}
	}
	var all []Addr
	for _, link := range links {
		list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return nil, fmt.Errorf("tap: %s: addresses: %w", d.Name(), err)
		}
		for _, a := range list {
			if ip, ok := netip.AddrFromSlice(a.IP); ok {
				refused := a.Flags&unix.IFA_F_DADFAILED != 0
				all = append(all, Addr{IP: ip.Unmap(), Refused: refused})
			}
		}
	}
	return all, nil
}

func multicastOf(name string) ([]net.HardwareAddr, error) {
	f, err := os.Open("/proc/thread-self/net/dev_mcast")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []net.HardwareAddr
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text()) // index, name, users, global users, address
		if len(fields) != 5 || fields[1] != name || len(fields[4]) != 12 {
			continue
		}
		var hw [6]byte
		if _, err := fmt.Sscanf(fields[4], "%02x%02x%02x%02x%02x%02x", &hw[0], &hw[1], &hw[2], &hw[3],
			&hw[4], &hw[5]); err == nil {
			all = append(all, hw[:])
		}
	}
	return all, nil
}

// SetMTU sets the MTU of the interface.
func (d *Device) SetMTU(mtu int) error {
	return d.change("mtu", func(l netlink.Link) error { return netlink.LinkSetMTU(l, mtu) })
}

// SetMAC sets the MAC address of the interface.
func (d *Device) SetMAC(mac net.HardwareAddr) error {
	return d.change("address", func(l netlink.Link) error {
		return netlink.LinkSetHardwareAddr(l, mac)
	})
}

// SetLargest sets the largest size, in bytes, of the large frames that the kernel builds.
func (d *Device) SetLargest(bytes int) error {
	return d.change("gso_max_size", func(l netlink.Link) error {
		return errors.Join(netlink.LinkSetGSOMaxSize(l, bytes), netlink.LinkSetGSOIPv4MaxSize(l, bytes))
	})
}

// SetDormant sets or clears the dormant state. In the dormant state, the interface is up but waits
// until the manager has configured the port.
func (d *Device) SetDormant(on bool) error {
	return d.change("dormant", func(l netlink.Link) error {
		req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(l.Attrs().Index)
		req.AddData(msg)
		mode := []byte{linkDefault}
		if on {
			mode = []byte{linkDormant}
		} else {
			req.AddData(nl.NewRtAttr(unix.IFLA_OPERSTATE, []byte{operUp}))
		}
		req.AddData(nl.NewRtAttr(unix.IFLA_LINKMODE, mode))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

func (d *Device) change(what string, fn func(netlink.Link) error) error {
	name := d.Name()
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = fn(link)
	}
	if err != nil {
		return fmt.Errorf("tap: %s: %s: %w", name, what, err)
	}
	return nil
}
