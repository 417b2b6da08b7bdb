package conn

import (
	"sync"
	"time"
)

// writeBuffer holds the bytes of small Writes that are not sent yet. The buffered bytes are sent
// when a call of any Conn of the Node owns the module, when the peer grants credit, or when the
// goroutine that the first buffered Write has started runs.
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
}

const (
	// bufferBytes is the maximum number of bytes that are written and not sent.
	bufferBytes = 64 << 10
	// smallBytesMax is the size of the largest Write that is buffered.
	smallBytesMax = 4 << 10
	// burstGapNs is the largest time between two Writes of one burst, in nanoseconds, and is about
	// the time of one send.
	burstGapNs = 10_000
	// bufferAgeNs is the age of buffered bytes, in nanoseconds, up to which another Write may be
	// buffered.
	bufferAgeNs = 50_000
)

var storages = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// started is the zero of the times of sinceStart.
var started = time.Now()

func sinceStart() int64 { return int64(time.Since(started)) }

// take tries to buffer a Write. The result taken of take reports whether the Write was buffered.
// The result first of take is true if the caller must add the Conn to the Node's list of Conns with
// buffered bytes. If the Write was not buffered, the caller must call ended when the Write has
// ended.
func (w *writeBuffer) take(b []byte, now int64) (taken, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut || w.direct || w.slow > 0 || len(b) > smallBytesMax || len(b) == 0 ||
		now-w.latest > burstGapNs || len(w.buf)+len(b) > bufferBytes ||
		len(w.buf) > 0 && now-w.oldest > bufferAgeNs {
		w.slow++
		return false, false
	}
	if w.storage == nil && len(w.buf) == 0 {
		w.storage, _ = storages.Get().(*[bufferBytes]byte)
		w.buf = w.storage[:0]
		w.oldest = now
	}
	w.buf = append(w.buf, b...)
	w.latest = now
	first = !w.listed
	w.listed = true
	return true, first
}

// ended records that a Write that was not buffered has ended.
func (w *writeBuffer) ended() {
	w.endedAt(sinceStart())
}

func (w *writeBuffer) endedAt(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow--
	w.latest = now
}

// unsent returns the buffered bytes to send next. The bytes that take returns stay in the
// buffer until advance is called.
func (w *writeBuffer) unsent() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf[w.sent:]
}

// advance removes n sent bytes from the buffer.
func (w *writeBuffer) advance(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent += n; w.sent == len(w.buf) {
		w.drop()
	}
}

// pack copies the unsent bytes to a smaller block of exactly their size, unless they need most of
// the present block. Therefore, if a peer grants no credit on many Conns, these Conns keep little
// more memory than their unsent bytes.
func (w *writeBuffer) pack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rest := w.buf[w.sent:]; w.storage != nil && len(rest) <= bufferBytes/2 {
		rest = append([]byte(nil), rest...)
		w.drop()
		w.buf = rest
	}
}

// drop discards all buffered bytes. The caller holds w.mu.
func (w *writeBuffer) drop() {
	if w.storage != nil {
		storages.Put(w.storage)
	}
	w.storage, w.buf, w.sent = nil, nil, 0
}

// unlist records that the Conn was removed from the Node's list of Conns with buffered bytes.
func (w *writeBuffer) unlist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = false
}

// setShut sets whether Writes must not be buffered. If unwanted is true, setShut drops the buffered
// bytes.
func (w *writeBuffer) setShut(shut, unwanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
	if unwanted {
		w.drop()
	}
}

// dirty is the list of a Node's Conns with buffered bytes.
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

// take returns the list, and replaces it by an empty one. The returned list is valid until the next
// call of take. Only the goroutine that drives the module may call take, or any goroutine after the
// Runner has ended.
func (d *dirty) take() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.taken)
	d.taken, d.conns = d.conns, d.taken[:0]
	return d.taken
}

// done returns true if no Conn has buffered bytes, and in this case records that the goroutine
// that sends buffered bytes ends.
func (d *dirty) done() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushing = len(d.conns) > 0
	return !d.flushing
}
