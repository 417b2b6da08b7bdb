package owed

import (
	"errors"
	"fmt"

	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Time is an instant in nanoseconds on the module's clock.
type Time = mono.Time

// Debt is an endpoint's Receiver, with its links in the lists of outstanding ACKs.
type Debt[E any] struct {
	reliability.Receiver
	Of         E // the endpoint
	owed       bool
	held       bool // the Debt is in Ledger.later, not in Ledger.list
	prev, next *Debt[E]
}

// Begin sets the endpoint of an empty Debt.
func (d *Debt[E]) Begin(of E) { d.Of = of }

// Take copies the Receiver of the given Debt into d.
func (d *Debt[E]) Take(from *Debt[E]) { d.Receiver = from.Receiver }

// Owes reports whether an ACK to the endpoint's peer is outstanding.
func (d *Debt[E]) Owes() bool { return d.owed }

// Behind returns the next Debt of the same list, or nil at the end.
func (d *Debt[E]) Behind() *Debt[E] { return d.next }

// Ledger holds the endpoints with outstanding ACKs, ordered by the times when the ACKs are due.
type Ledger[E any] struct {
	list, later list[E]
	lulls       uint32 // number of empty polls directly after a poll with packets
	lull        bool   // the latest poll was empty
}

// NoteLull records whether a poll has received no packet, and counts lulls, which are empty polls
// directly after a poll with packets.
func (l *Ledger[E]) NoteLull(nothing bool) {
	if nothing && !l.lull {
		l.lulls++
	}
	l.lull = nothing
}

// Lulls is the number of empty polls directly after a poll with packets.
func (l *Ledger[E]) Lulls() uint32 { return l.lulls }

// Len is the number of endpoints with an outstanding ACK.
func (l *Ledger[E]) Len() int { return l.list.count + l.later.count }

// First returns the Debt that is due first, without the ACKs for lone replies (see Later), or nil
// if there is no such Debt.
func (l *Ledger[E]) First() *Debt[E] { return l.list.first }

// Later returns the Debt that is due first among the ACKs for lone replies (packets whose ACK the
// peer may delay), or nil if there is no such Debt.
func (l *Ledger[E]) Later() *Debt[E] { return l.later.first }

// Owe puts an endpoint at the end of a list of outstanding ACKs, or at the front if the ACK is
// due at once.
func (l *Ledger[E]) Owe(d *Debt[E], now Time) {
	if d.held && !d.AckLater() {
		l.Settle(d)
	}
	switch {
	case d.held:
	case d.AckDue() <= now:
		l.Settle(d)
		l.list.pushFront(d)
	case d.owed:
	case d.AckLater():
		d.held = true
		l.later.pushBack(d)
	default:
		l.list.pushBack(d)
	}
	d.owed = true
}

// Settle removes an endpoint from its list of outstanding ACKs, because the ACK was sent or
// dropped.
func (l *Ledger[E]) Settle(d *Debt[E]) {
	switch {
	case d.held:
		l.later.remove(d)
	case d.owed:
		l.list.remove(d)
	}
	d.owed, d.held = false, false
}

// ripeLooks is the maximum number of endpoints that one call of Ripen examines.
const ripeLooks = 8

// Ripen makes those outstanding ACKs due now that cover at least a batch of packets. Ripen is
// called when a poll has received nothing. A sender with only one batch in flight waits for the ACK
// of the batch. For fewer packets than a batch, no sender waits for the ACK.
func (l *Ledger[E]) Ripen(now Time, rules *reliability.Rules) {
	d := l.list.first
	for n := 0; d != nil && n < ripeLooks; n++ {
		next := d.next
		if d.AckDue() > now && d.Ripe(rules) {
			d.AskAck(now, 0)
			l.Owe(d, now)
		}
		d = next
	}
}

// Tally counts the endpoints that should be on the lists of outstanding ACKs.
type Tally struct{ owing, held int }

// Tally adds an endpoint to t, and returns an error if the endpoint's list contradicts its
// Receiver.
func (d *Debt[E]) Tally(t *Tally) error {
	switch {
	case d.held != d.AckLater() || d.held && !d.owed:
		return fmt.Errorf("list of ACKs: one is owed: %v, on the list of those held back: %v, is to "+
			"be: %v", d.owed, d.held, d.AckLater())
	case d.held:
		t.held++
	case d.owed:
		t.owing++
	}
	return nil
}

// Check verifies that the lists hold exactly the endpoints that t has counted, in the order in
// which their ACKs are due.
func (l *Ledger[E]) Check(t Tally, now Time) error {
	if err := l.list.check(t.owing, now); err != nil {
		return fmt.Errorf("list of ACKs: %w", err)
	}
	if err := l.later.check(t.held, now); err != nil {
		return fmt.Errorf("list of ACKs held back: %w", err)
	}
	return nil
}

// list is a doubly linked list of Debts.
type list[E any] struct {
	first, last *Debt[E]
	count       int
}

func (l *list[E]) pushBack(d *Debt[E]) {
	d.prev, d.next = l.last, nil
	if l.last == nil {
		l.first = d
	} else {
		l.last.next = d
	}
	l.last = d
	l.count++
}

func (l *list[E]) pushFront(d *Debt[E]) {
	d.prev, d.next = nil, l.first
	if l.first == nil {
		l.last = d
	} else {
		l.first.prev = d
	}
	l.first = d
	l.count++
}

func (l *list[E]) remove(d *Debt[E]) {
	if d.prev == nil {
		l.first = d.next
	} else {
		d.prev.next = d.next
	}
	if d.next == nil {
		l.last = d.prev
	} else {
		d.next.prev = d.prev
	}
	d.prev, d.next = nil, nil
	l.count--
}

func (l *list[E]) check(members int, now Time) error {
	due, n := now, 0
	var last *Debt[E]
	for d := l.first; d != nil && n <= l.count; d = d.next {
		n++
		if !d.owed || d.prev != last {
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
