package conn

import (
	"sync"
	"time"
)

// writeBuffer has the bytes of small Writes that are not sent yet. A Write that comes soon after
// the one before, as in a burst, is taken over without the module: Write has the rules.
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
	// smallBytesMax is the largest Write that is taken over: a copy costs less than the module then.
	smallBytesMax = 4 << 10
	// burstGapNs is how soon after the one before a Write comes that is of one burst with it: about
	// the time that it takes to send one.
	burstGapNs = 10_000
	// bufferAgeNs is how old bytes may be when one more Write is taken over behind them.
	bufferAgeNs = 50_000
)

var storages = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// started is the beginning of this package's time.
var started = time.Now()

func sinceStart() int64 { return int64(time.Since(started)) }

// take takes over a Write that comes now, and says whether it has; first says that the Node has to
// be told. ended tells it the end of a Write that it has not taken over.
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

// ended is told that a Write which was not taken over has ended.
func (w *writeBuffer) ended() {
	w.endedAt(sinceStart())
}

func (w *writeBuffer) endedAt(now int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow--
	w.latest = now
}

// unsent is what is to be sent next. Its bytes stay where they are until they are sent.
func (w *writeBuffer) unsent() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf[w.sent:]
}

// advance is told that n bytes are sent.
func (w *writeBuffer) advance(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent += n; w.sent == len(w.buf) {
		w.drop()
	}
}

// drop forgets all bytes. The lock is held.
func (w *writeBuffer) drop() {
	if w.storage != nil {
		storages.Put(w.storage)
	}
	w.storage, w.buf, w.sent = nil, nil, 0
}

// unlist takes the Conn off the Node's list.
func (w *writeBuffer) unlist() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = false
}

// setShut says whether nothing more may be written, and whether nobody wants what was.
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

// add adds a Conn, and says whether a goroutine has to be started.
func (d *dirty) add(c *Conn) (start bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	start = !d.flushing
	d.flushing = true
	return start
}

// take takes the list, with an empty one left behind. It is valid until the next call, which the
// goroutine that drives the module makes, or one behind its end.
func (d *dirty) take() []*Conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.taken)
	d.taken, d.conns = d.conns, d.taken[:0]
	return d.taken
}

// done says whether there is nothing left for the goroutine, whose end that is.
func (d *dirty) done() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushing = len(d.conns) > 0
	return !d.flushing
}
