package conn

import (
	"sync"
	"time"
)

// writeBuffer has the bytes of small Writes that are not sent yet. A Write soon after the previous
// one, as in a burst, is buffered without use of the module: see Write for the rules.
//
//	Write --> buf --> flushAll: when a call of any Conn of the Node has the module, when the peer
//	                  gives credit, or when the goroutine that the first Write has started runs
type writeBuffer struct {
	mu      sync.Mutex
	shut    bool  // nothing more may be written, or why is for a Write with the module to find out
	direct  bool  // SetNoDelay(true)
	slow    int   // Writes that wait for the module: what comes later must stay behind them
	listed  bool  // among the Node's dirty ones
	latest  int64 // when the latest Write was over, as of sinceStart
	oldest  int64 // when the first byte came
	sent    int   // bytes of buf that are sent
	buf     []byte
	storage *[bufferBytes]byte // of buf; nil if it is empty
}

const (
	// bufferBytes bounds what was written and is not sent.
	bufferBytes = 64 << 10
	// smallBytesMax is the largest Write that is buffered: up to that size a copy costs less than a
	// use of the module.
	smallBytesMax = 4 << 10
	// burstGapNs is the largest gap between two Writes of one burst: about the time that it takes
	// to send one.
	burstGapNs = 10_000
	// bufferAgeNs is the largest age of buffered bytes to which a further Write may be added.
	bufferAgeNs = 50_000
)

var storages = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// started is the beginning of this package's time.
var started = time.Now()

func sinceStart() int64 { return int64(time.Since(started)) }

// take buffers a Write, and says whether it did; first says that the Conn must be added to the
// Node's dirty list. After a Write that take did not buffer, ended must be called.
func (w *writeBuffer) take(b []byte, now int64) (taken, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut || w.direct || w.slow > 0 || len(b) > smallBytesMax || len(b) == 0 ||
		now-w.latest > burstGapNs || len(w.buf)+len(b) > bufferBytes ||
		len(w.buf) > 0 && now-w.oldest > bufferAgeNs {
		w.slow++
		return false, false
	}
	if w.storage == nil {
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

// ended is called when a Write that was not buffered has ended.
func (w *writeBuffer) ended() {
	w.endedAt(sinceStart())
}

func (w *writeBuffer) endedAt(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow--
	w.latest = now
}

// unsent is the buffered bytes to send next, which stay in the buffer until they are sent.
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

// drop discards all buffered bytes. The caller holds the lock.
func (w *writeBuffer) drop() {
	if w.storage != nil {
		storages.Put(w.storage)
	}
	w.storage, w.buf, w.sent = nil, nil, 0
}

// unlist notes that the Conn is off the Node's dirty list.
func (w *writeBuffer) unlist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = false
}

// setShut sets whether writes are shut, and, if unwanted, discards the buffered bytes.
func (w *writeBuffer) setShut(shut, unwanted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = shut
	if unwanted {
		w.drop()
	}
}

// dirty are the Conns of a Node with bytes in their buffers.
type dirty struct {
	mu       sync.Mutex
	conns    []*Conn
	taken    []*Conn // by the latest take, of whose user it is until the next one
	flushing bool    // a goroutine is on its way
}

// add adds a Conn, and says whether the flushing goroutine must be started.
func (d *dirty) add(c *Conn) (start bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	start = !d.flushing
	d.flushing = true
	return start
}

// take returns the list and replaces it by an empty one. The result is valid until the next call.
// Only the goroutine that drives the module calls take, or one after the Runner's end.
func (d *dirty) take() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.taken)
	d.taken, d.conns = d.conns, d.taken[:0]
	return d.taken
}

// done says whether the flushing goroutine has no work left, and notes its end if so.
func (d *dirty) done() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushing = len(d.conns) > 0
	return !d.flushing
}
