//go:build linux

package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The constants in this block are the values of the sleep flags of a ring. The sleep flag of a ring
// tells the peer how to wake the sleeping process. The peer clears the sleep flag when it wakes the
// process.
const (
	awake    = 0
	onSocket = 1 // wake the process by a packet on the socket, as for any unknown value
	onFutex  = 2 // by the futex at the flag
)

const (
	// napMost is the longest futex sleep in a call of Wait. If the futex sleep ends without a wake-up,
	// Wait sleeps until an event on the domain's descriptors.
	napMost = 200 * time.Microsecond
	// napWords is the largest number of sleep flags on which one futex sleep waits. With more than
	// napWords sleep flags, a futex sleep has no advantage over a sleep on the descriptors, because
	// each sleep flag adds 0.1 us to a futex sleep.
	napWords = 8
	// After every napTend futex sleeps, Wait checks the domain's descriptors for events.
	napTend = 16
)

// The constants in this block are the values of the field "bell" of the type "napper".
const (
	bellSilent  = 0
	bellListens = 1 // a futex sleep is in progress
	bellRung    = 2
)

// The type "napper" makes Wait sleep in a futex call on the sleep flags of the rings, if the
// previous Wait took less than napMost. A wake-up by a packet on a socket takes twice as long as a
// wake-up by a futex.
type napper struct {
	pays bool // the latest sleep on the flags or descriptors ended before napMost
	off  bool // the system has no futex_waitv
	most time.Duration
	bell atomic.Uint32 // Wake ends a futex sleep through bell
	ends uint          // naps that peers or Wake have ended

	// The fields "begin" and "beginNs" are the same instant, read from Go's clock and from the
	// system's monotonic clock.
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
	futexInside = 128 // a word of this process only
)

func (p *napper) open() {
	var ts unix.Timespec
	p.off = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil
	p.most, p.begin, p.beginNs = napMost, time.Now(), ts.Nano()
}

// The method "nap" sleeps for a short time in a futex call on the sleep flags of the rings. A nap
// takes at most napMost, even if the timeout is negative (no limit). The result "left" is the
// remaining timeout. The result "over" of the method "nap" is true if the caller's Wait must
// return, and false if the caller's Wait must now sleep on the descriptors.
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
		return timeout, false // Wake was called, and its descriptor must be read
	case ended:
	case timeout < 0:
		return timeout, false
	default:
		return timeout - most, false
	}
	if p.ends++; p.ends%napTend == 0 {
		return timeout, !d.loop.tend() // not over if the bell has just rung
	}
	return timeout, true
}

// The method "hush" discards the event of an earlier call of Wake, so that this event does not end
// the next sleep.
func (d *domain) hush() {
	d.bell.Hush()
	d.napper.bell.Store(bellSilent)
}

// napOn collects the addresses of the sleep flags of the rings for a futex sleep, and returns the
// number of sleep flags. The result of napOn is negative if a futex sleep is not possible at
// present.
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

// The method "sleep" waits until a peer clears one of the sleep flags. The method "sleep" reports
// whether a sleep flag was cleared within the time "most".
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

// The method "ring" ends the futex sleep in progress.
func (p *napper) ring() {
	if p.bell.Swap(bellRung) == bellListens {
		wakeFutex((*uint32)(unsafe.Pointer(&p.bell)), futexInside)
	}
}

// The function "rouse" wakes the peer at the other end of a ring, in the way that the value of the
// peer's sleep flag requests.
func rouse(fd int, word *uint32, how uint32) {
	if how == onFutex {
		wakeFutex(word, 0)
		return
	}
	knock(fd)
}

// wakeFutex wakes a process that sleeps in a futex call on the given word. The system call of
// wakeFutex never blocks, and therefore wakeFutex makes the system call without informing Go's
// scheduler.
func wakeFutex(word *uint32, flags uintptr) {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake|flags, 1,
		0, 0, 0)
}
