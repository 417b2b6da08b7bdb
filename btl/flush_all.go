package btl

import (
	"errors"
	"fmt"
	"slices"
)

// wholeFlushes are the calls of Module.Flush that wait, the oldest first. A call is one flush of
// each endpoint, its parts; it is over when they are. As those of an endpoint end in the order of
// the calls, so do these.
type wholeFlushes struct {
	waiting fifo[wholeFlush]
	first   uint64   // the number of the first that waits, less one; numbers begin with 1
	lost    failures // endpoints that have ended with something under way: the next call tells
}

// wholeFlush is one call of Module.Flush.
type wholeFlush struct {
	fn      func(error)
	parts   int // that wait, and one while the call goes on
	counted int // by Check
	failed  failures
}

// failures are the ends of several endpoints, and what others have refused. As many of each as
// flushFailuresMax are told by name: peers that come and go do not hide what one that stays says.
type failures struct {
	ended, refused []error
	count          int
}

// flushFailuresMax bounds the endpoints of one kind that the error of a Module.Flush names.
const flushFailuresMax = 16

func (f *failures) add(ep *Endpoint, err error) {
	f.count++
	errs := &f.ended
	if ep.err == nil {
		errs = &f.refused
	}
	if len(*errs) < flushFailuresMax {
		*errs = append(*errs, fmt.Errorf("%s: %w", ep.RemoteName(), err))
	} else if access := errors.Is(err, ErrRemoteAccess); ep.err == nil &&
		access != errors.Is((*errs)[flushFailuresMax-1], ErrRemoteAccess) {
		// Of refusals there are two kinds, of which each is found.
		(*errs)[flushFailuresMax-2] = fmt.Errorf("%s: %w", ep.RemoteName(), err)
	}
}

// err returns all in one, nil if there are none.
func (f *failures) err() error {
	errs := slices.Concat(f.refused, f.ended)
	if more := f.count - len(errs); more > 0 {
		errs = append(errs, fmt.Errorf("and %d peers more", more))
	}
	return errors.Join(errs...)
}

// Flush calls fn, if it is not nil, from Progress when everything sent so far to whichever endpoint
// is acknowledged, or its endpoint has ended. The error is nil, or what Endpoint.Flush would have
// said of those endpoints for which that is not so, with their names: errors.Is finds each, of
// more than 16 that have ended as many. Also told are those that have ended since the latest call
// with something on its way, of which an OnDone may have told already. An owner that pulls gets a
// CompletionFlush without an endpoint. now is the present instant.
func (m *Module) Flush(now Time, fn func(error)) {
	m.at(now)
	if m.closed {
		if fn != nil {
			fn(ErrClosed)
		}
		return
	}
	w := &m.outbox.wholes
	w.waiting.push(wholeFlush{fn: fn, parts: 1, failed: w.lost})
	w.lost = failures{}
	number := w.first + uint64(w.waiting.len())
	for _, ep := range m.slots.Values() {
		if ep == nil || ep.err != nil || ep.state == stateAccepting {
			continue
		}
		w.get(number).parts++
		ep.flush(flush{whole: number})
	}
	w.get(number).parts--
	m.endWholes()
}

// get returns a call that waits.
func (w *wholeFlushes) get(number uint64) *wholeFlush {
	return &w.waiting.all()[number-w.first-1]
}

// endWholes tells of the calls whose parts are over.
func (m *Module) endWholes() {
	w := &m.outbox.wholes
	for w.waiting.len() > 0 && w.waiting.all()[0].parts == 0 {
		f, _ := w.waiting.pop()
		w.first++
		if f.fn != nil || m.outbox.pulled {
			m.outbox.noteFlush(nil, f.fn, f.failed.err())
		}
	}
}

// tellFlushed tells who waits for a flush that it is over.
func (ep *Endpoint) tellFlushed(f *flush, err error) {
	m := ep.m
	if f.whole == 0 {
		m.outbox.noteFlush(ep, f.fn, err)
		return
	}
	w := m.outbox.wholes.get(f.whole)
	if w.parts--; err != nil {
		w.failed.add(ep, err)
	}
	m.endWholes()
}

// noteLost books that an endpoint ends with something under way that no Module.Flush waits for.
func (ep *Endpoint) noteLost() {
	if ep.snd.InFlight() == 0 && !ep.pack.open() && ep.unheard.untold == nil &&
		!ep.small.queue.untold() && !ep.large.queue.untold() {
		return
	}
	waiting := ep.flushes.all()
	for i := range waiting {
		w := &waiting[i]
		if w.whole != 0 && w.sent == ep.sentUntil() && w.after == ep.lastQueued() {
			return
		}
	}
	ep.noteUntold(ep.err)
}

// untold says whether a fragment waits of whose end its sender is not told.
func (l *fragmentList) untold() bool {
	for f := l.first; f != nil; f = f.next {
		if f.OnDone == nil && !f.answer && !f.isBye() {
			return true
		}
	}
	return false
}

// noteUntold books that something which was taken over to be sent is lost. The next Flush says why:
// of the endpoint, or of all if that has ended.
func (ep *Endpoint) noteUntold(err error) {
	if ep.err == nil {
		ep.unheard.untold = err
		return
	}
	w := &ep.m.outbox.wholes
	if next := w.first + uint64(w.waiting.len()) + 1; ep.unheard.toldBy != next {
		ep.unheard.toldBy = next
		w.lost.add(ep, err)
	}
}

// checkWholes proves that the parts of each call are those that the endpoints have, and that none
// is forgotten.
func (m *Module) checkWholes(*checker) error {
	waiting := m.outbox.wholes.waiting.all()
	for i := range waiting {
		waiting[i].counted = 0
	}
	for _, ep := range m.slots.Values() {
		if ep == nil {
			continue
		}
		for _, f := range ep.flushes.all() {
			if n := f.whole; n <= m.outbox.wholes.first && n != 0 ||
				n > m.outbox.wholes.first+uint64(len(waiting)) {
				return fmt.Errorf("a flush is part of call %d, %d are over", n, m.outbox.wholes.first)
			} else if n != 0 {
				m.outbox.wholes.get(n).counted++
			}
		}
	}
	for i := range waiting {
		if w := &waiting[i]; w.parts != w.counted || i == 0 && w.parts == 0 {
			return fmt.Errorf("flush %d of all endpoints waits for %d parts of %d", i, w.parts,
				w.counted)
		}
	}
	return nil
}
