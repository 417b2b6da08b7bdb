package waiting

import (
	"math/big"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"gobtl/internal/mono"
)

// The variable "pollers" is the number of this process's threads that are waiting under the control
// of a Policy.
var pollers atomic.Int32

// Enter adds one to the number of this process's threads that are waiting under the control of a
// Policy. After its wait, the thread must call the function that Enter has returned, which
// subtracts one from the number of waiting threads.
func Enter() (leave func()) {
	pollers.Add(1)
	return func() { pollers.Add(-1) }
}

// A crowded process (see Thread.Crowded) checks Go's network poller once in netpollEvery yields.
const netpollEvery = 512

// The variable "yields" is the number of times that this process has yielded while it was crowded
// (see Thread.Crowded).
var yields atomic.Uint32

// Crowded implements Thread.
func (*OSThread) Crowded() bool { return int(pollers.Load()) >= runtime.GOMAXPROCS(0) }

// firstCPUs returns a set with as many CPUs as the process may use, beginning with CPU 0.
func firstCPUs() *big.Int {
	one := big.NewInt(1)
	return new(big.Int).Sub(new(big.Int).Lsh(one, uint(runtime.NumCPU())), one)
}

// Cede yields the CPU to the threads of all processes that wait for it. In a crowded process (see
// Thread.Crowded), Cede first lets waiting goroutines of the process run.
func Cede() {
	var t OSThread
	if t.Crowded() {
		cedeGoroutine()
	}
	t.Yield()
}

// cedeGoroutine lets the runnable goroutines of this process run. Once in netpollEvery calls,
// cedeGoroutine makes Go's scheduler wake those goroutines whose sockets are ready.
func cedeGoroutine() {
	if yields.Add(1)%netpollEvery == 0 {
		askNetpoller()
	} else {
		runtime.Gosched()
	}
}

// CedeBy works like Cede, and tells the policy the duration of the yield of the CPU. In the states
// Beside and Stolen, CedeBy does not yield the CPU to other threads of the operating system. The
// function "clock" must return the current time.
func CedeBy(p *Policy, clock func() mono.Time) {
	before := clock()
	if p.thread.Crowded() {
		cedeGoroutine()
	}
	if before >= p.apart {
		p.thread.Yield()
		after := clock()
		p.Yielded(after, after.Sub(before))
	}
}

// The variable "netpoller" holds a pipe with which a goroutine makes Go's scheduler check the
// network poller. By itself, Go's scheduler checks the network poller when it finds no goroutine to
// run, and otherwise every 10 ms.
var netpoller struct {
	mu          sync.Mutex // held while a goroutine asks
	read, write *os.File   // a pipe, which is never closed
	raw         syscall.RawConn
	sent        int // bytes in the pipe
	bytes       [1]byte
}

// askNetpoller writes a byte to a pipe, and parks the calling goroutine until the network poller
// reports the pipe as readable. When Go's scheduler finds no runnable goroutine, it checks the
// network poller, which wakes the goroutine that has called askNetpoller and all goroutines whose
// descriptors are ready. If a call of askNetpoller is already in progress on a different goroutine,
// or if the pipe cannot be created, askNetpoller does nothing.
func askNetpoller() {
	p := &netpoller
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if p.raw == nil {
		p.read, p.write, _ = os.Pipe()
		p.raw, _ = p.read.SyscallConn()
	}
	if p.raw != nil && p.raw.Read(answerNetpoller) == nil {
		_, _ = p.read.Read(p.bytes[:p.sent])
		p.sent = 0
	}
}

func answerNetpoller(uintptr) bool {
	if netpoller.sent > 0 {
		return true
	}
	netpoller.sent, _ = netpoller.write.Write(netpoller.bytes[:])
	return netpoller.sent == 0
}
