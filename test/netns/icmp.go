//go:build linux

package netns

import (
	"encoding/binary"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Received returns the number of packets that the port has received.
func (p Port) Received() (n uint64) {
	tb := p.Host.lab.tb
	tb.Helper()
	p.Host.Do(func() {
		table, err := os.ReadFile("/proc/thread-self/net/dev")
		if err != nil {
			tb.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line) // "eth0: bytes packets ..."
			if len(fields) > 2 && fields[0] == p.Dev+":" {
				if n, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
					tb.Fatal(err)
				}
			}
		}
	})
	return n
}

// udpPorts returns the local UDP ports of the host's IPv4 sockets.
func (h *Host) udpPorts() (ports []uint16) {
	h.lab.tb.Helper()
	h.Do(func() {
		table, err := os.ReadFile("/proc/thread-self/net/udp")
		if err != nil {
			h.lab.tb.Fatal(err)
		}
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line) // "sl: address:port ..."
			if len(fields) < 2 {
				continue
			}
			_, text, _ := strings.Cut(fields[1], ":")
			if port, err := strconv.ParseUint(text, 16, 16); err == nil {
				ports = append(ports, uint16(port))
			}
		}
	})
	return ports
}

// TooBig sends ICMP messages "fragmentation needed" from this host, with its own address, to the
// address "at" of the host victim: one for each UDP socket of the victim. The messages claim that a
// datagram from the victim's address "local" to the address "remote" was too large for mtuBytes.
func (h *Host) TooBig(victim *Host, at, local, remote netip.Addr, mtuBytes uint16) {
	tb := h.lab.tb
	tb.Helper()
	ports := victim.udpPorts()
	if len(ports) == 0 {
		tb.Fatalf("host %s has no UDP sockets", victim.Name)
	}
	h.Do(func() {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			tb.Fatalf("raw socket: %v", err)
		}
		defer unix.Close(fd)
		for _, port := range ports {
			to := &unix.SockaddrInet4{Addr: at.As4()}
			if err := unix.Sendto(fd, tooBig(local, remote, port, mtuBytes), 0, to); err != nil {
				tb.Fatalf("ICMP: %v", err)
			}
		}
	})
}

// tooBig returns an ICMP message of type 3 and code 4 (RFC 792, RFC 1191), which quotes the headers
// of a UDP datagram.
func tooBig(local, remote netip.Addr, port, mtuBytes uint16) []byte {
	const (
		discard = 9 // any destination port
		icmp    = 8 // bytes of the ICMP header, before the quoted IP header
		ip      = 20
		udp     = 8
	)
	be := binary.BigEndian
	m := make([]byte, icmp+ip+udp)
	m[0], m[1] = 3, 4
	be.PutUint16(m[6:], mtuBytes)
	q := m[icmp:]
	q[0] = 0x45
	be.PutUint16(q[2:], 1500)
	be.PutUint16(q[6:], 0x4000) // DF
	q[8], q[9] = 64, unix.IPPROTO_UDP
	copy(q[12:], local.AsSlice())
	copy(q[16:], remote.AsSlice())
	be.PutUint16(q[10:], checksum(q[:ip]))
	u := q[ip:]
	be.PutUint16(u, port)
	be.PutUint16(u[2:], discard)
	be.PutUint16(u[4:], 1500-ip)
	be.PutUint16(m[2:], checksum(m))
	return m
}

// checksum returns the Internet checksum of an even number of bytes (RFC 1071).
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
