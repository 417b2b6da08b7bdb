package owed

import (
	"errors"
	"fmt"

	"gobtl/internal/mono"
	"gobtl/reliability"
)

// Time is an instant in nanoseconds on the owner's axis.
type Time = mono.Time

// Debt is an endpoint's Receiver, and its place on the lists of owed ACKs. It is not copied while
// an ACK is owed.
type Debt[E any] struct {
	reliability.Receiver
	Of         E // the endpoint
	owed       bool
	held       bool // back: it stands in Ledger.later, else in Ledger.list
	prev, next *Debt[E]
}

// Owes says whether an ACK is owed.
func (d *Debt[E]) Owes() bool { return d.owed }

// Behind is the next Debt of its list, nil at the end.
func (d *Debt[E]) Behind() *Debt[E] { return d.next }

// Ledger is the endpoints that owe an ACK, ordered by due time.
type Ledger[E any] struct {
	list, later list[E]
	lulls       uint32 // how often a pass has received nothing after one that had
	lull        bool   // the latest one has received nothing
}

// NoteLull counts lulls: empty passes after one that received (reliability.Receiver.Pace).
func (l *Ledger[E]) NoteLull(nothing bool) {
	if nothing && !l.lull {
		l.lulls++
	}
	l.lull = nothing
}

// Lulls is how often a pass has received nothing after one that had.
func (l *Ledger[E]) Lulls() uint32 { return l.lulls }

// Len is the number of endpoints that owe an ACK.
func (l *Ledger[E]) Len() int { return l.list.count + l.later.count }

// First is the Debt that is due first, nil if there is none; Later is that of the ACKs of lone
// answers.
func (l *Ledger[E]) First() *Debt[E] { return l.list.first }

// Later is First of the ACKs of lone answers.
func (l *Ledger[E]) Later() *Debt[E] { return l.later.first }

// Owe puts an endpoint on a list of owed ACKs: at the end, as all delays on a list are equal, or at
// the front if the ACK is due at once.
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

// Settle takes an endpoint off its list of owed ACKs, because the ACK was sent or was dropped.
func (l *Ledger[E]) Settle(d *Debt[E]) {
	switch {
	case d.held:
		l.later.remove(d)
	case d.owed:
		l.list.remove(d)
	}
	d.owed, d.held = false, false
}

// ripeLooks bounds the endpoints that Ripen examines: if more owe an ACK, there is enough to do.
const ripeLooks = 8

// Ripen sends owed ACKs early, in an idle pass, if they cover at least a batch: the sender may have
// only that in flight, and wait. A smaller ACK that is delayed blocks no sender.
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

// Tally counts the endpoints that say that they are on the lists.
type Tally struct{ owing, held int }

// Tally adds an endpoint to t, and compares its place with what its Receiver says.
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

// Check proves that the lists hold exactly the living endpoints that owe an ACK, which t has
// counted, in the order in which they are due.
func (l *Ledger[E]) Check(t Tally, now Time) error {
	if err := l.list.check(t.owing, now); err != nil {
		return fmt.Errorf("list of ACKs: %w", err)
	}
	if err := l.later.check(t.held, now); err != nil {
		return fmt.Errorf("list of ACKs held back: %w", err)
	}
	return nil
}

// list is a list of Debts.
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

// check proves that as many living endpoints say that they are on the list as are there.
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
