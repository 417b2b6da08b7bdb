//go:build linux

package udp

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ReadyFd implements fabric.Readier. The domain has one epoll descriptor, which ReadyFd returns and
// on which Sleep waits.
func (d *domain) ReadyFd() (int, error) {
	s := &d.sleeper
	if !s.made && !s.open(d.bell.Fd()) {
		return -1, os.NewSyscallError("epoll_create1", unix.EMFILE)
	}
	s.still()
	return s.epoll, nil
}

// ArmReady implements fabric.Readier.
func (d *domain) ArmReady() time.Duration {
	if d.Arm() {
		d.sleeper.park.Still()
		return -1
	}
	return 0
}

// DisarmReady implements fabric.Readier.
func (d *domain) DisarmReady() {
	if d.sleeper.made {
		d.sleeper.disarm()
		d.bell.Hush()
	}
}
