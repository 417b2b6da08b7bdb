package btl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"gobtl/fabric/mem"
)

// traffic is what goes one way between two modules, with a proof for every message: delivered once,
// whole and unaltered, and every accepted send ended once.
type traffic struct {
	tb    testing.TB
	rng   *rand.Rand
	tag   Tag
	block []byte // what messages are cut from
	sent  map[uint64]*parcel
	small [8]struct{ sent, delivered int } // messages without room for a number, by size
	next  uint64
	ended int
	due   int // callbacks to come
	got   int
}

type parcel struct {
	size      int
	delivered int
	ended     int
	done      bool // Send returned Done: no callback follows
	err       error
}

const blockBytes = 1 << 19

func newTraffic(tb testing.TB, seed uint64, tag Tag) *traffic {
	tr := &traffic{tb: tb, rng: newRand(seed), tag: tag, sent: map[uint64]*parcel{}}
	tr.block = make([]byte, blockBytes)
	for i := 0; i < len(tr.block); i += 8 {
		binary.LittleEndian.PutUint64(tr.block[i:], tr.rng.Uint64())
	}
	return tr
}

// write fills p with message id; from 8 bytes on the number is in it.
func (tr *traffic) write(p []byte, id uint64) {
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], id)
	if n := copy(p, head[:]); n < 8 {
		clear(p)
		return
	}
	copy(p[8:], tr.block[id*131%4096:])
}

// receive is the handler of the other side.
func (tr *traffic) receive(_ *Endpoint, tag Tag, data []byte) {
	tr.got++
	if tag != tr.tag {
		tr.tb.Errorf("message came to tag %d, not %d", tag, tr.tag)
	}
	if len(data) < 8 {
		tr.small[len(data)].delivered++
		if !bytes.Equal(data, make([]byte, len(data))) {
			tr.tb.Errorf("message of %d bytes is %x", len(data), data)
		}
		return
	}
	id := binary.LittleEndian.Uint64(data)
	p := tr.sent[id]
	if p == nil {
		tr.tb.Errorf("message %d was never sent", id)
		return
	}
	p.delivered++
	if p.delivered > 1 {
		tr.tb.Errorf("message %d of %d bytes was delivered %d times", id, p.size, p.delivered)
	}
	if len(data) != p.size || !bytes.Equal(data[8:], tr.block[id*131%4096:][:p.size-8]) {
		tr.tb.Errorf("message %d of %d bytes arrived altered, with %d bytes", id, p.size, len(data))
	}
}

// send sends one message of size bytes in one of the ways there are. false: no resources now.
func (tr *traffic) send(ep *Endpoint, size int) bool {
	id := tr.next
	switch tr.rng.IntN(4) {
	case 0:
		if size > ep.MaxTiny() || !ep.Connected() {
			break
		}
		data := make([]byte, size)
		tr.write(data, id)
		tr.begin(id, size)
		if err := ep.SendImmediate(ep.Now(), tr.tag, data); err != nil {
			return tr.refused(id, size, err)
		}
		clear(data)
		tr.parcel(id, size).done = true
		return true
	case 1:
		f, err := ep.Alloc(tr.tag, size)
		if err != nil {
			return tr.refused(id, size, err)
		}
		tr.write(f.Bytes(), id)
		return tr.post(ep, f, id, size, nil)
	}
	data := make([]byte, size)
	tr.write(data, id)
	f, err := ep.Prepare(tr.tag, data)
	if err != nil {
		return tr.refused(id, size, err)
	}
	return tr.post(ep, f, id, size, data)
}

// post sends f. The caller's memory is spoiled as soon as it is the caller's again.
func (tr *traffic) post(ep *Endpoint, f *Fragment, id uint64, size int, data []byte) bool {
	tr.begin(id, size)
	p := tr.parcel(id, size)
	f.Signal = tr.rng.IntN(2) == 0
	signal := f.Signal
	f.OnDone = func(_ *Fragment, err error) {
		clear(data)
		p.err = err
		tr.ended++
		if p.ended++; p.ended > 1 || p.done {
			tr.tb.Errorf("send %d ended %d times (done at once: %v)", id, p.ended, p.done)
		}
	}
	st, err := ep.Send(ep.Now(), f)
	if err != nil {
		if e := ep.Free(f); e != nil {
			tr.tb.Errorf("freeing a refused fragment: %v", e)
		}
		return tr.refused(id, size, err)
	}
	if st == Done {
		clear(data)
		if signal {
			tr.tb.Errorf("send %d returned Done although a signal was asked for", id)
		}
		p.done = true
	} else {
		tr.due++
	}
	return true
}

// begin enters a message before it is sent: a self-connected module may deliver it at once.
func (tr *traffic) begin(id uint64, size int) {
	tr.next++
	if size < 8 {
		tr.small[size].sent++
	}
	tr.sent[id] = &parcel{size: size}
}

func (tr *traffic) parcel(id uint64, _ int) *parcel { return tr.sent[id] }

func (tr *traffic) refused(id uint64, size int, err error) bool {
	if p := tr.sent[id]; p != nil {
		delete(tr.sent, id)
		if size < 8 {
			tr.small[size].sent--
		}
	}
	if !errors.Is(err, ErrAgain) {
		tr.tb.Errorf("send of %d bytes: %v", size, err)
	}
	return false
}

// finished says whether everything sent was delivered and every callback came.
func (tr *traffic) finished() bool { return tr.got == len(tr.sent) && tr.ended == tr.due }

// verify checks the whole account; every send must have succeeded.
func (tr *traffic) verify() {
	tr.tb.Helper()
	for id, p := range tr.sent {
		want := 1
		if p.done {
			want = 0
		}
		if p.ended != want || p.err != nil {
			tr.tb.Errorf("send %d of %d bytes ended %d times, want %d, with %v", id, p.size, p.ended, want,
				p.err)
		}
		if p.size >= 8 && p.delivered != 1 {
			tr.tb.Errorf("message %d of %d bytes was delivered %d times", id, p.size, p.delivered)
		}
	}
	for size, c := range tr.small {
		if c.sent != c.delivered {
			tr.tb.Errorf("%d messages of %d bytes sent, %d delivered", c.sent, size, c.delivered)
		}
	}
}

// drawSize draws a message size: mostly small, with the borders between the kinds of packets.
func drawSize(rng *rand.Rand, maxBytes int) int {
	borders := []int{0, 1, 7, 8, 743, 744, 745, 1431, 1432, 1433, 1447, 1448, 1449, 2864, 2865}
	switch rng.IntN(10) {
	case 0, 1, 2:
		return rng.IntN(64)
	case 3, 4, 5:
		return min(borders[rng.IntN(len(borders))], maxBytes)
	case 6, 7, 8:
		return rng.IntN(min(8000, maxBytes))
	}
	return rng.IntN(maxBytes + 1)
}

// chaos is a network that loses, doubles and reorders.
type chaos struct {
	loss, dup, hold float64
}

// chaos sets the network's filter; calm ends it. Packets held are released by chaosStep, so that
// younger ones overtake them.
func (l *lab) chaos(c chaos, seed uint64) {
	rng := newRand(seed)
	l.rng = newRand(seed + 1)
	l.net.SetFilter(func(_, _, _ []byte) mem.Verdict {
		p := rng.Float64()
		switch {
		case p < c.loss:
			return mem.Drop
		case p < c.loss+c.dup:
			return mem.Duplicate
		case p < c.loss+c.dup+c.hold:
			return mem.Hold
		}
		return mem.Deliver
	})
}

// cut makes the network lose everything.
func (l *lab) cut() {
	l.net.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop })
}

func (l *lab) calm() {
	l.net.SetFilter(nil)
	l.net.Release()
}

// chaosStep releases held packets now and then.
func (l *lab) chaosStep() {
	if l.rng.IntN(8) == 0 {
		l.net.Release()
	}
}
