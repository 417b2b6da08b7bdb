//go:build linux

package vnic

import (
	enc "encoding/binary"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gobtl/test/netns"
	"gobtl/vnic"
)

var (
	be     = enc.BigEndian
	native = enc.NativeEndian
)

// tapOn opens a raw socket on a device of a host: all frames in both directions.
func tapOn(t *testing.T, h *netns.Host, dev string) int {
	t.Helper()
	fd := -1
	h.Do(func() {
		const all = unix.ETH_P_ALL<<8&0xFF00 | unix.ETH_P_ALL>>8
		var err error
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			t.Fatal(err)
		}
		index := deviceIndex(t, fd, dev)
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}); err != nil {
			t.Fatal(err)
		}
	})
	// Tags are taken out of frames unless they are asked for.
	_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	tv := unix.NsecToTimeval(50e6)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		t.Fatal(err)
	}
	return fd
}

func deviceIndex(t *testing.T, fd int, dev string) int {
	t.Helper()
	ifr, err := unix.NewIfreq(dev)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, ifr)
	}
	if err != nil {
		t.Fatalf("%s: %v", dev, err)
	}
	return int(ifr.Uint32())
}

// watch calls fn for every frame on a device until stop, which returns when fn is called no more.
func watch(t *testing.T, h *netns.Host, dev string, fn func(f []byte)) (stop func()) {
	t.Helper()
	fd := tapOn(t, h, dev)
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		buf, oob := make([]byte, 1<<17), make([]byte, 256)
		for {
			n, on, _, _, err := unix.Recvmsg(fd, buf, oob, 0)
			if err == nil && n >= 14 {
				fn(withTag(buf[:n], oob[:on]))
			}
			select {
			case <-done:
				if err != nil { // all that was there is read
					return
				}
			default:
			}
		}
	})
	var once sync.Once
	end := func() {
		once.Do(func() {
			close(done)
			wait.Wait()
			unix.Close(fd)
		})
	}
	t.Cleanup(end)
	return end
}

// withTag puts back a VLAN tag that the kernel has taken out.
func withTag(f, oob []byte) []byte {
	const statusTag = 1 << 4 // TP_STATUS_VLAN_VALID
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return f
	}
	for _, m := range msgs {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA ||
			len(m.Data) < 20 || native.Uint32(m.Data)&statusTag == 0 {
			continue
		}
		tagged := append([]byte(nil), f[:12]...)
		tagged = be.AppendUint16(tagged, 0x8100)
		tagged = be.AppendUint16(tagged, native.Uint16(m.Data[16:]))
		return append(tagged, f[12:]...)
	}
	return f
}

// send puts a frame onto a device.
func send(t *testing.T, h *netns.Host, dev string, f []byte) {
	t.Helper()
	fd := tapOn(t, h, dev)
	defer unix.Close(fd)
	if _, err := unix.Write(fd, f); err != nil {
		t.Fatalf("%s: %v", dev, err)
	}
}

// packets takes the encapsulated frames out of a frame of the wire below: an IPv4 UDP datagram, or
// several in one where the device cuts them up later.
func packets(f []byte, fn func(h vnic.Header, frame []byte, err error)) {
	if len(f) < 42 || be.Uint16(f[12:]) != 0x0800 || f[23] != 17 {
		return
	}
	p := f[14+int(f[14]&15)*4+8:]
	for len(p) > 0 {
		if len(p) < vnic.HeaderBytes || p[8] != 0x78 || p[7]&0xE0 != 0xC0 {
			return // another protocol: that of btl
		}
		var one []byte
		one, p = vnic.NextPacket(p)
		h, frame, err := vnic.Parse(one)
		fn(h, frame, err)
	}
}

// checksums checks an IPv4 frame's: that of IP, and that of TCP or UDP. other says that it has
// none.
func checksums(f []byte) (good, other bool) {
	at := 12
	if be.Uint16(f[at:]) == 0x8100 {
		at += 4
	}
	if be.Uint16(f[at:]) != 0x0800 {
		return false, true
	}
	ip := f[at+2:]
	ip = ip[:min(len(ip), int(be.Uint16(ip[2:])))]
	l4 := int(ip[0]&15) * 4
	if sum(ip[:l4], 0) != 0xFFFF {
		return false, false
	}
	proto := ip[9]
	if proto != 6 && proto != 17 || be.Uint16(ip[6:])&0x3FFF != 0 {
		return false, true
	}
	if proto == 17 && be.Uint16(ip[l4+6:]) == 0 {
		return false, true
	}
	pseudo := uint32(proto) + uint32(len(ip)-l4)
	for i := 12; i < 20; i += 2 {
		pseudo += uint32(be.Uint16(ip[i:]))
	}
	return sum(ip[l4:], pseudo) == 0xFFFF, false
}

func sum(b []byte, s uint32) uint16 {
	t := uint64(s)
	for i := 0; i < len(b); i += 2 {
		w := uint64(b[i]) << 8
		if i+1 < len(b) {
			w |= uint64(b[i+1])
		}
		t += w
	}
	for t>>16 != 0 {
		t = t&0xFFFF + t>>16
	}
	return uint16(t)
}
