package owed

import (
	"errors"
	"fmt"

	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Time is an instant on the module's clock, in nanoseconds.
type Time = mono.Time

// Debt contains an endpoint's Receiver, and the endpoint's links in a list of outstanding ACKs.
type Debt[E any] struct {
	reliability.Receiver
	Of           E // the endpoint
	Owed         bool
	held         bool // the Debt is in Ledger.Later, not in Ledger.Soon
	prev, Behind *Debt[E]
}

// Begin sets the endpoint of an empty Debt.
func (d *Debt[E]) Begin(of E) { d.Of = of }

// Take copies the Receiver of the given Debt into d.
func (d *Debt[E]) Take(from *Debt[E]) { d.Receiver = from.Receiver }

// Ledger contains the endpoints with outstanding ACKs, ordered by the times when the ACKs are due.
type Ledger[E any] struct {
	Soon, Later list[E]
	Lulls       uint32 // number of empty polls directly after a poll with packets
	lull        bool   // the latest poll was empty
}

// NoteLull records whether a poll has received no packet, and counts the lulls, which are empty
// polls directly after a poll with packets.
func (l *Ledger[E]) NoteLull(nothing bool) {
	if nothing && !l.lull {
		l.Lulls++
	}
	l.lull = nothing
}

// Len returns the number of endpoints with an outstanding ACK.
func (l *Ledger[E]) Len() int { return l.Soon.count + l.Later.count }

// Owe puts an endpoint at the end of a list of outstanding ACKs, or at the front if the ACK is due
// immediately.
func (l *Ledger[E]) Owe(d *Debt[E], now Time) {
	if d.held && !d.AckLater() {
		l.Settle(d)
	}
	switch {
	case d.held:
	case d.AckDue() <= now:
		l.Settle(d)
		l.Soon.pushFront(d)
	case d.Owed:
	case d.AckLater():
		d.held = true
		l.Later.pushBack(d)
	default:
		l.Soon.pushBack(d)
	}
	d.Owed = true
}

// Settle removes an endpoint from its list of outstanding ACKs. The caller must call Settle when
// the endpoint's ACK was sent or dropped.
func (l *Ledger[E]) Settle(d *Debt[E]) {
	switch {
	case d.held:
		l.Later.remove(d)
	case d.Owed:
		l.Soon.remove(d)
	}
	d.Owed, d.held = false, false
}

// ripeLooks is the maximum number of endpoints that one call of Ripen examines.
const ripeLooks = 8

// Ripen makes those outstanding ACKs due immediately that cover at least a batch of packets. The
// caller should call Ripen when a poll has received no packet. A sender that has one batch of
// packets in flight possibly waits for the ACK of the batch before it sends the next packets.
func (l *Ledger[E]) Ripen(now Time, rules *reliability.Rules) {
	d := l.Soon.First
	for n := 0; d != nil && n < ripeLooks; n++ {
		next := d.Behind
		if d.AckDue() > now && d.Ripe(rules) {
			d.AskAck(now, 0)
			l.Owe(d, now)
		}
		d = next
	}
}

// Tally contains, for each list of outstanding ACKs, the number of endpoints that should be on the
// list.
type Tally struct{ owing, held int }

// Tally counts an endpoint in t, and returns an error if the endpoint is on the wrong list for the
// state of its Receiver, and nil otherwise.
func (d *Debt[E]) Tally(t *Tally) error {
	switch {
	case d.held != d.AckLater() || d.held && !d.Owed:
		return fmt.Errorf("list of ACKs: one is owed: %v, on the list of those held back: %v, is to "+
			"be: %v", d.Owed, d.held, d.AckLater())
	case d.held:
		t.held++
	case d.Owed:
		t.owing++
	}
	return nil
}

// Check returns nil if each list has the number of endpoints in the Tally t, and the endpoints are
// in the order in which their ACKs are due, and otherwise an error.
func (l *Ledger[E]) Check(t Tally, now Time) error {
	if err := l.Soon.check(t.owing, now); err != nil {
		return fmt.Errorf("list of ACKs: %w", err)
	}
	if err := l.Later.check(t.held, now); err != nil {
		return fmt.Errorf("list of ACKs held back: %w", err)
	}
	return nil
}

// list is a doubly linked list of Debts.
type list[E any] struct {
	First, last *Debt[E]
	count       int
}

func (l *list[E]) pushBack(d *Debt[E]) {
	d.prev, d.Behind = l.last, nil
	if l.last == nil {
		l.First = d
	} else {
		l.last.Behind = d
	}
	l.last = d
	l.count++
}

func (l *list[E]) pushFront(d *Debt[E]) {
	d.prev, d.Behind = nil, l.First
	if l.First == nil {
		l.last = d
	} else {
		l.First.prev = d
	}
	l.First = d
	l.count++
}

func (l *list[E]) remove(d *Debt[E]) {
	if d.prev == nil {
		l.First = d.Behind
	} else {
		d.prev.Behind = d.Behind
	}
	if d.Behind == nil {
		l.last = d.prev
	} else {
		d.Behind.prev = d.prev
	}
	d.prev, d.Behind = nil, nil
	l.count--
}

func (l *list[E]) check(members int, now Time) error {
	due, n := now, 0
	var last *Debt[E]
	for d := l.First; d != nil && n <= l.count; d = d.Behind {
		n++
		if !d.Owed || d.prev != last {
			return errors.New("one that does not belong there")
		}
		at := max(d.AckDue(), now)
		if at < due {
			return fmt.Errorf("one due %d stands behind one due %d", at, due)
		}
		last, due = d, at
	}
	if n != l.count || n != members || l.last != last {
		return fmt.Errorf("%d members, %d counted, %d endpoints say so", n, l.count, members)
	}
	return nil
}
