//go:build linux

package vnic

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAddressMoves has an agent begin before its device has an address: it waits. Then the address
// of the network below changes: the agent says so and binds anew, and the interface of its port
// stays, with its address.
func TestAddressMoves(t *testing.T) {
	l := newLab(t, 1700)
	l.write(blue("", "a", "b"))
	l.manager()
	l.agent("b")
	l.hosts["a"].IP("addr flush dev eth0")
	l.agent("a")
	l.eventually("the agent waits for an address", func() bool {
		return strings.Contains(l.procs["a"].out.String(), "waiting for an address")
	})
	l.hosts["a"].IP("addr add 10.77.0.1/24 dev eth0")
	for i, h := range names[:2] {
		l.settled(h)
		l.hosts[h].IP("addr add 10.88.0."+string(rune('1'+i))+"/24 dev vnic1", "link set vnic1 up")
		l.forwarding(h, 1)
	}
	l.ping("a", "10.88.0.2")
	for _, address := range []string{"10.77.0.11", "10.77.0.12"} {
		l.hosts["a"].IP("addr flush dev eth0", "addr add "+address+"/24 dev eth0")
		l.eventually("the agent binds anew", func() bool {
			return strings.Contains(l.procs["a"].out.String(), "host a on "+address)
		})
		l.eventually("the port forwards again", func() bool {
			p := l.port("a", 1)
			_, err := l.try("a", "ping", "-c", "1", "-W", "1", "-q", "10.88.0.2")
			return p != nil && p.State == "forwarding" && err == nil
		})
		l.ping("b", "10.88.0.1")
	}
	if !strings.Contains(l.procs["a"].out.String(), "the address of the network below is gone") {
		t.Error("the agent does not say why")
	}
	l.stop("a", 15)
	if out, err := l.try("a", "ip", "link", "show", "vnic1"); err == nil {
		t.Errorf("the interface is still there:\n%s", out)
	}
}

// TestInterfacesGo ends an agent whose network has no address at the moment, in several ways. The
// interface of its port is gone with the agent.
func TestInterfacesGo(t *testing.T) {
	for _, c := range []struct {
		name string
		sig  syscall.Signal
		anew bool // the agent ends after it was bound anew, without its manager, and lost that address
	}{
		{"ended", syscall.SIGTERM, false},
		{"killed", syscall.SIGKILL, false},
		{"ended after a second loss", syscall.SIGTERM, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, 1700)
			l.write(blue("", "a", "b"))
			l.manager()
			l.agent("a")
			l.settled("a")
			a := l.hosts["a"]
			a.IP("addr add 10.88.0.1/24 dev vnic1", "link set vnic1 up")
			l.forwarding("a", 1)
			says := func(text string, times int) {
				l.eventually("the agent says "+text, func() bool {
					return strings.Count(l.procs["a"].out.String(), text) == times
				})
			}
			a.IP("addr flush dev eth0")
			says("waiting for an address", 1)
			if c.anew {
				l.stop("m", syscall.SIGTERM)
				a.IP("addr add 10.77.0.11/24 dev eth0")
				says("host a on 10.77.0.11", 1)
				a.IP("addr flush dev eth0")
				says("waiting for an address", 2)
			}
			if out, err := l.try("a", "ip", "-4", "-br", "addr", "show", "vnic1"); err != nil ||
				!strings.Contains(out, "10.88.0.1/24") {
				t.Errorf("while the agent waits: %v\n%s", err, out)
			}
			l.stop("a", c.sig)
			if out, err := l.try("a", "ip", "link", "show", "vnic1"); err == nil {
				t.Errorf("the interface is still there:\n%s", out)
			}
		})
	}
}

// TestGivenDeviceMoves: an agent with a device that was handed over keeps the device when the
// address of the network below changes.
func TestGivenDeviceMoves(t *testing.T) {
	l := newLab(t, 1700)
	l.write(blue("", "a", "b"))
	l.manager()
	l.agent("b")
	var device *os.File
	a := l.hosts["a"]
	a.Do(func() {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Error(err)
			return
		}
		device = os.NewFile(uintptr(fd), "tun")
		ifr, err := unix.NewIfreq("given0")
		if err == nil {
			ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
		}
		if err != nil {
			t.Error(err)
		}
	})
	cmd := l.command("a", l.agentArgs("a", "--fd", "1=3")...)
	cmd.ExtraFiles = []*os.File{device}
	l.start("a", cmd)
	device.Close()
	l.settled("a")
	l.settled("b")
	a.IP("addr add 10.88.0.1/24 dev given0", "link set given0 up")
	l.hosts["b"].IP("addr add 10.88.0.2/24 dev vnic1", "link set vnic1 up")
	l.forwarding("a", 1)
	l.forwarding("b", 1)
	l.ping("a", "10.88.0.2")
	a.IP("addr flush dev eth0", "addr add 10.77.0.11/24 dev eth0")
	l.eventually("the agent binds anew", func() bool {
		return strings.Contains(l.procs["a"].out.String(), "host a on 10.77.0.11")
	})
	l.eventually("the port forwards again", func() bool {
		_, err := l.try("a", "ping", "-c", "1", "-W", "1", "-q", "10.88.0.2")
		return err == nil
	})
}
