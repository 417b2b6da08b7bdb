//go:build linux

package shm

import "time"

// ReadyFd implements fabric.Readier. ReadyFd returns the epoll descriptor that watches all
// descriptors of the domain.
func (d *domain) ReadyFd() (int, error) {
	d.sleeper.still()
	return d.loop.epoll, nil
}

// ArmReady implements fabric.Readier.
func (d *domain) ArmReady() time.Duration {
	if !d.Arm() {
		return 0
	}
	d.sleeper.still()
	return d.sleeper.most
}

// DisarmReady implements fabric.Readier.
func (d *domain) DisarmReady() {
	if d.closed || !d.sleeper.sleeping.Load() {
		return
	}
	d.sleeper.sleeping.Store(false)
	d.sayAsleep(awake)
	if d.loop.tend() {
		d.hush()
	}
}
