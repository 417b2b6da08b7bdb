package conn

import (
	"sync"
	"sync/atomic"
	"time"
)

// writeBuffer contains the bytes of small Writes that are not sent yet. The first buffered Write
// starts a goroutine that sends the buffered bytes. A Read of any Conn of the Node sends the
// buffered bytes at once, and so does any call of the same Conn that is not a buffered Write.
type writeBuffer struct {
	mu      sync.Mutex
	shut    bool  // no Write is buffered: writing fails, or may fail
	direct  bool  // set by SetNoDelay(true)
	slow    int   // unbuffered Writes in progress, which go first
	listed  bool  // the Conn is in the Node's dirty list
	latest  int64 // when the latest Write ended, as of sinceStart
	oldest  int64 // when the first byte was buffered
	sent    int   // bytes of buf that were sent
	buf     []byte
	storage *[bufferBytes]byte // of buf; nil if buf is empty or packed
	budget  budget             // limits the memory of buf
	counted int                // memory of buf that budget counts
}

const (
	// bufferBytes is the maximum number of bytes in the write buffer of a Conn.
	bufferBytes = 64 << 10
	// smallBytesMax is the size of the largest Write that is buffered.
	smallBytesMax = 4 << 10
	// burstGapNs is the largest time between two Writes of one burst, in nanoseconds, and is about the
	// time that one send takes.
	burstGapNs = 10_000
	// A Write is not buffered if the first buffered byte is older than bufferAgeNs, in nanoseconds.
	bufferAgeNs = 50_000
)

var storages = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// The variable "started" is the instant from which sinceStart counts.
var started = time.Now()

func sinceStart() int64 { return int64(time.Since(started)) }

// The method "take" tries to buffer a Write. The result "taken" of the method "take" reports
// whether the Write was buffered. The result "first" reports whether the caller must add the Conn
// to the Node's list of Conns with buffered bytes. If the Write was not buffered, the caller must
// call the method "ended" at the end of the Write.
func (w *writeBuffer) take(b []byte, now int64) (taken, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut || w.direct || w.slow > 0 || len(b) > smallBytesMax || len(b) == 0 ||
		now-w.latest > burstGapNs || len(w.buf)+len(b) > bufferBytes ||
		len(w.buf) > 0 && now-w.oldest > bufferAgeNs ||
		cap(w.buf)-len(w.buf) < len(b) && !w.budget.allows(bufferBytes) {
		w.slow++
		return false, false
	}
	if w.storage == nil && len(w.buf) == 0 {
		w.storage, _ = storages.Get().(*[bufferBytes]byte)
		w.buf = w.storage[:0]
		w.oldest = now
	}
	if w.buf = append(w.buf, b...); cap(w.buf) != w.counted {
		w.count()
	}
	w.latest = now
	first = !w.listed
	w.listed = true
	return true, first
}

// The method "ended" records the end of a Write that was not buffered.
func (w *writeBuffer) ended() {
	w.endedAt(sinceStart())
}

func (w *writeBuffer) endedAt(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow--
	w.latest = now
}

// The method "unsent" returns the buffered bytes that are not sent yet. The unsent bytes stay in
// the buffer until the method "advance" removes them.
func (w *writeBuffer) unsent() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf[w.sent:]
}

// The method "advance" removes n sent bytes from the buffer.
func (w *writeBuffer) advance(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent += n; w.sent == len(w.buf) {
		w.drop()
	}
}

// The method "pack" copies the unsent bytes to a smaller block of exactly their size, unless they
// need more than half of the present block. Because of the method "pack", many Conns without credit
// need little more memory than their unsent bytes.
func (w *writeBuffer) pack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rest := w.buf[w.sent:]; w.storage != nil && len(rest) <= bufferBytes/2 {
		rest = append([]byte(nil), rest...)
		w.drop()
		w.buf = rest
		w.count()
	}
}

// The method "drop" discards all buffered bytes. The caller holds w.mu.
func (w *writeBuffer) drop() {
	if w.storage != nil {
		storages.Put(w.storage)
	}
	w.storage, w.buf, w.sent = nil, nil, 0
	w.count()
}

// The method "count" adds the latest change of the buffer's size to the memory that the budget
// counts. The caller holds w.mu.
func (w *writeBuffer) count() {
	w.budget.add(cap(w.buf) - w.counted)
	w.counted = cap(w.buf)
}

// unsentBytesMost is the maximum memory, in bytes, of all write buffers of a Node together. A Write
// that would exceed unsentBytesMost is not buffered, and waits for the peer's credit instead.
const unsentBytesMost = 64 << 20

// unsentBytes counts the memory of the write buffers of a Node.
type unsentBytes struct {
	bytes atomic.Int64
	most  int64
}

// The type "budget" limits the memory of the write buffers of the Conns with one host. The write
// buffers for one host can use about (unsentBytesMost-n)/2 bytes if the write buffers for all other
// hosts use n bytes. The zero value of the type "budget" has no limit.
type budget struct {
	host *atomic.Int64
	all  *unsentBytes
}

func (b *budget) add(bytes int) {
	if b.all != nil {
		b.host.Add(int64(bytes))
		b.all.bytes.Add(int64(bytes))
	}
}

// The method "allows" reports whether the limits allow a write buffer the given number of
// additional bytes.
func (b *budget) allows(bytes int64) bool {
	return b.all == nil || b.host.Load()+bytes <= b.all.most-b.all.bytes.Load()
}

// The method "unlist" records that the Conn was removed from the Node's list of Conns with buffered
// bytes.
func (w *writeBuffer) unlist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = false
}

// If the argument "shut" of setShut is true, later Writes are not buffered. If the argument
// "unwanted" is true, setShut drops the buffered bytes.
func (w *writeBuffer) setShut(shut, unwanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
	if unwanted {
		w.drop()
	}
}

// The type "dirty" is the list of a Node's Conns with buffered bytes.
type dirty struct {
	mu       sync.Mutex
	conns    []*Conn
	taken    []*Conn // result of the latest take, in use until the next take
	flushing bool    // the flushing goroutine is started or runs
}

func (d *dirty) add(c *Conn) (start bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	start = !d.flushing
	d.flushing = true
	return start
}

// The method "take" returns the list of Conns with buffered bytes, and replaces the list by an
// empty list. The result of the method "take" is valid until the next call of "take". Before the
// end of the Runner, only the goroutine that drives the module may call the method "take".
func (d *dirty) take() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.taken)
	d.taken, d.conns = d.conns, d.taken[:0]
	return d.taken
}

// The method "done" reports whether no Conn has buffered bytes, so that the goroutine that sends
// buffered bytes must end.
func (d *dirty) done() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushing = len(d.conns) > 0
	return !d.flushing
}
