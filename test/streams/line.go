package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/test/netns"
)

// line is a simulated long-distance line with the same properties in both directions. Packets wait
// in a queue, and a packet that finds the queue full is dropped.
type line struct {
	bitsPerSecond float64
	delay         time.Duration // one way
	queueBytes    int
	loss          float64 // a share of the packets, at random
}

// packet is a packet in flight.
type packet struct {
	data []byte
	due  time.Time
}

const (
	lineDevice = "line0"
	// packetsMax is the maximum number of packets in flight in one direction, which is more than
	// any line here needs.
	packetsMax = 1 << 14
)

func lineAddress(side int) string { return fmt.Sprintf("10.98.0.%d", side) }

// playLine joins two hosts by a line, until the network is removed.
func playLine(s *stand, a, b *netns.Host, mtuBytes int, l line) error {
	var devices [2]*os.File
	for i, h := range []*netns.Host{a, b} {
		var err error
		h.Do(func() { devices[i], err = openTUN(lineDevice) })
		if err != nil {
			return err
		}
		s.Cleanup(func() { devices[i].Close() })
		h.IP(fmt.Sprintf("addr add %s/24 dev %s", lineAddress(i+1), lineDevice),
			fmt.Sprintf("link set %s mtu %d txqueuelen 10000 up", lineDevice, mtuBytes))
	}
	go l.play(devices[0], devices[1], mtuBytes)
	go l.play(devices[1], devices[0], mtuBytes)
	return nil
}

// openTUN makes a TUN device in the network namespace of the calling thread.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("device %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil
}

// play forwards packets in one direction until a device is closed.
func (l *line) play(from, to *os.File, mtuBytes int) {
	onWay := make(chan packet, packetsMax)
	var over atomic.Bool
	defer close(onWay)
	go func() {
		for p := range onWay {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				over.Store(true)
			}
		}
	}()
	var free time.Time // when the line has sent what waits
	for !over.Load() {
		data := make([]byte, mtuBytes)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		now := time.Now()
		if free.Before(now) {
			free = now
		}
		waits := free.Sub(now).Seconds() * l.bitsPerSecond / 8
		if waits+float64(n) > float64(l.queueBytes) || rand.Float64() < l.loss {
			continue
		}
		free = free.Add(time.Duration(float64(n) * 8 / l.bitsPerSecond * 1e9))
		select {
		case onWay <- packet{data[:n], free.Add(l.delay)}:
		default: // More is on its way than a line holds: a tail drop, as the queue's.
		}
	}
}
