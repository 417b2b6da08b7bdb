//go:build linux

package udp

import (
	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

var _ fabric.Addresser = (*domain)(nil)

// ParseAddress implements fabric.Addresser. The host part of the argument of ParseAddress must be
// an IP address of this domain's IP version.
func (d *domain) ParseAddress(text string) (first, second []byte, err error) {
	return inet.ParseAddress(text, d.local.Version())
}

// FormatName implements fabric.Addresser.
func (d *domain) FormatName(name []byte) string { return inet.FormatName(name, d.local.Version()) }

// Host implements fabric.Addresser.
func (d *domain) Host(name []byte) []byte { return inet.Host(name) }

func scope(l *inet.Local) uint32 { return uint32(l.Index) }

func bindAddress(l *inet.Local) unix.Sockaddr {
	if l.Addr.Is4() {
		return &unix.SockaddrInet4{Port: int(l.Port), Addr: l.Addr.As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(l.Port), Addr: l.Addr.As16()}
	if l.Addr.IsLinkLocalUnicast() {
		sa.ZoneId = scope(l)
	}
	return sa
}
