//go:build linux

package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The values of a ring's sleep flags: each tells how the other side, which clears the flag, must
// wake the sleeper.
const (
	awake    = 0
	onSocket = 1 // by a knock on the socket; and so for all that is not named here
	onFutex  = 2 // by the futex that the word is
)

const (
	// napMost is for how long a Wait naps before it sleeps on the descriptors: events that only
	// descriptors report, of peers that come and go, are delayed by that.
	napMost = 200 * time.Microsecond
	// napWords is the largest number of flags in a nap: each costs a tenth of a microsecond, and
	// with more of them the descriptors are as fast.
	napWords = 8
	// napTend is how many naps there are between two looks at the descriptors.
	napTend = 16
)

// The values of napper.bell.
const (
	bellSilent  = 0
	bellListens = 1 // a nap goes on
	bellRung    = 2
)

// napper makes Wait sleep on the rings' flags by futex, as long as wake-ups mostly come soon: a
// byte through a socket costs twice as much.
type napper struct {
	pays bool // the latest sleep on the descriptors, or nap, has ended before napMost
	off  bool // this system has no such call
	most time.Duration
	bell atomic.Uint32 // by it Wake ends a nap
	ends uint          // naps that peers, or Wake, have ended

	// One instant by Go's clock and by the system's, which counts the same nanoseconds.
	begin   time.Time
	beginNs int64
	words   [napWords + 1]futexWait
	until   [2]int64 // seconds and nanoseconds, on all systems
}

// futexWait is the kernel's struct futex_waitv.
type futexWait struct {
	value    uint64
	address  uint64
	flags    uint32
	reserved uint32
}

const (
	futexWake   = 1
	futex32     = 2   // a word of 32 bits
	futexInside = 128 // of this process alone
)

func (p *napper) open() {
	var ts unix.Timespec
	p.off = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil
	p.most, p.begin, p.beginNs = napMost, time.Now(), ts.Nano()
}

// nap sleeps from now on for a short time (negative: no limit, but that of naps), and says whether
// the Wait is over, or what is left of its time.
func (d *domain) nap(now time.Time, timeout time.Duration) (left time.Duration, over bool) {
	p := &d.napper
	n := d.napOn()
	if n < 0 || !p.bell.CompareAndSwap(bellSilent, bellListens) {
		return timeout, false
	}
	d.sayAsleep(onFutex)
	ended, most := true, sooner(timeout, p.most)
	if !d.somethingToPoll() {
		ended = p.sleep(n, now, most)
	}
	d.sayAsleep(awake)
	switch {
	case !p.bell.CompareAndSwap(bellListens, bellSilent):
		return timeout, false // Wake was called: the bell rings, and has to be read
	case ended:
	case timeout < 0:
		return timeout, false
	default:
		return timeout - most, false
	}
	if p.ends++; p.ends%napTend == 0 {
		return timeout, !d.loop.tend() // or the bell has rung just now
	}
	return timeout, true
}

// hush ends the ringing of the bell.
func (d *domain) hush() {
	d.bell.Hush()
	d.napper.bell.Store(bellSilent)
}

// napOn collects the words that a nap is on, and says how many there are; negative: none, too many,
// or there is something to be tried again after a pause.
func (d *domain) napOn() (n int) {
	if d.retryPause() >= 0 {
		return -1
	}
	for _, e := range d.endpoints {
		if e == nil {
			continue
		}
		if n+len(e.rings)+len(e.stalled) > napWords {
			return -1
		}
		if len(e.posted) > 0 {
			for _, q := range e.rings {
				d.napper.words[n] = futexWait{onFutex, address(q.ring.sleeps()), futex32, 0}
				n++
			}
		}
		for _, l := range e.stalled {
			d.napper.words[n] = futexWait{onFutex, address(l.ring.wants()), futex32, 0}
			n++
		}
	}
	if n == 0 {
		return -1
	}
	bell := (*uint32)(unsafe.Pointer(&d.napper.bell))
	d.napper.words[n] = futexWait{bellListens, address(bell), futex32 | futexInside, 0}
	return n + 1
}

func address(word *uint32) uint64 { return uint64(uintptr(unsafe.Pointer(word))) }

// sleep waits until the first of the words is taken back, and says whether one was before the time
// was over.
func (p *napper) sleep(words int, now time.Time, most time.Duration) bool {
	const second = int64(time.Second)
	at := p.beginNs + int64(now.Sub(p.begin)) + int64(most)
	p.until = [2]int64{at / second, at % second}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&p.words)),
		uintptr(words), 0, uintptr(unsafe.Pointer(&p.until)), unix.CLOCK_MONOTONIC, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR:
		return true
	case unix.ETIMEDOUT:
	default:
		p.off = true
	}
	return false
}

// ring ends a nap.
func (p *napper) ring() {
	if p.bell.Swap(bellRung) == bellListens {
		wakeFutex((*uint32)(unsafe.Pointer(&p.bell)), futexInside)
	}
}

// rouse wakes the peer at the other end of a ring, in the way that its flag says.
func rouse(fd int, word *uint32, how uint32) {
	if how == onFutex {
		wakeFutex(word, 0)
		return
	}
	knock(fd)
}

// wakeFutex wakes a sleeper on a word. The call returns at once, so Go's scheduler need not know.
func wakeFutex(word *uint32, flags uintptr) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake|flags, 1,
		0, 0, 0)
}
