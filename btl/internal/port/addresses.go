package port

import (
	"fmt"
	"time"

	"gobtl/fabric"
)

// addresses counts the addresses of peers that are inserted in the Domain. An address that is no
// longer used is removed when its last sends have completed, as hardware may read it until then.
// See fabric.Caps.RemoveCancels.
type addresses struct {
	inserted int // and not removed
	leaving  []leavingAddr
	answers  []fabric.Addr // inserted for one answer each, the oldest first
}

// AnswersMax bounds the addresses that stay inserted for the answers to strangers.
const AnswersMax = 8

// CancelAfter is how long the sends to an address that was left may wait where Remove can cancel
// them. A live peer accepts them in that time; a dead one never does.
const CancelAfter = time.Second

// leavingAddr is an address that is to be removed.
type leavingAddr struct {
	addr      fabric.Addr
	cmd, data lastSend
	cancelAt  Time // from then on Remove may cancel what still waits, if it can
}

func (a *addresses) init() { a.answers = make([]fabric.Addr, 0, AnswersMax) }

// Insert makes a peer's address known to the fabric.
func (p *Port) Insert(name []byte) (fabric.Addr, error) {
	a, err := p.Dom.Insert(name)
	if err == nil {
		p.inserted++
	}
	return a, err
}

// Remove undoes an Insert at once. Nothing may be under way to the address.
func (p *Port) Remove(a fabric.Addr) {
	p.inserted--
	// An error could only mean that the address is unknown, which is what is wanted.
	_ = p.Dom.Remove(a)
}

// Leave removes an address when its last sends have completed; from cancelAt on the fabric may
// cancel them.
func (p *Port) Leave(a fabric.Addr, cancelAt Time) {
	p.leaving = append(p.leaving, leavingAddr{a, p.Command.lastSend(a), p.Data.lastSend(a), cancelAt})
}

// Leaving is the number of addresses that wait for their removal.
func (p *Port) Leaving() int { return len(p.leaving) }

// RemoveLeft removes the addresses whose last sends have completed. It counts completions, which is
// exact where the sends of a queue complete in order. A fabric in which one send can wait while
// later ones to other peers complete (fabric/shm) allows an address to leave too early or too late:
// on Remove it gives back what a peer that stands still would keep.
func (p *Port) RemoveLeft(now Time) {
	cancels := p.Command.caps.RemoveCancels && p.Data.caps.RemoveCancels
	n := 0
	for i := range p.leaving {
		l := &p.leaving[i]
		cmd, data := p.Command.hasGone(&l.cmd, l.addr), p.Data.hasGone(&l.data, l.addr)
		if cmd && data || cancels && now >= l.cancelAt {
			p.Remove(l.addr)
			if cancels {
				p.forgetAnswers(l.addr)
			}
		} else {
			p.leaving[n] = *l
			n++
		}
	}
	p.leaving = p.leaving[:n]
}

// GiveUp ends the sends that wait in the fabric for an address that was left, before its owner
// inserts it again: after that a Remove would no longer be the last one, and would cancel nothing.
// Call Refused and Done afterwards.
func (p *Port) GiveUp(now Time, name []byte) {
	if len(p.leaving) == 0 || p.Command.posted+p.Data.posted == 0 ||
		!p.Command.caps.RemoveCancels || !p.Data.caps.RemoveCancels {
		return
	}
	p.Post() // a peer that does take something gets the last packets
	a, err := p.Insert(name)
	if err != nil {
		return
	}
	for i := range p.leaving {
		if p.leaving[i].addr == a {
			p.leaving[i].cancelAt = 0
		}
	}
	p.RemoveLeft(now)
	p.Remove(a)
}

// forgetAnswers removes an address that is kept for answers, too: else the fabric would not let go
// of what is under way to it.
func (p *Port) forgetAnswers(to fabric.Addr) {
	kept := p.answers[:0]
	for _, a := range p.answers {
		if a != to {
			kept = append(kept, a)
		} else {
			p.Remove(a)
		}
	}
	p.answers = kept
}

// InsertForAnswer inserts the address of an unknown peer for a single answer. The oldest of
// AnswersMax such addresses leaves when another one comes.
func (p *Port) InsertForAnswer(now Time, name []byte) (fabric.Addr, error) {
	to, err := p.Insert(name)
	if err != nil {
		return 0, err
	}
	if len(p.answers) == cap(p.answers) {
		p.Leave(p.answers[0], now.Add(CancelAfter))
		p.answers = p.answers[:copy(p.answers, p.answers[1:])]
	}
	p.answers = append(p.answers, to)
	return to, nil
}

// Inserted is the number of addresses that are inserted, and how many of them for answers.
func (p *Port) Inserted() (all, answers int) { return p.inserted, len(p.answers) }

// CheckAddresses compares the addresses that are inserted with those of so many endpoints, and
// others. It holds also after the Domain is closed.
func (a *addresses) CheckAddresses(endpoints int) error {
	switch {
	case a.inserted != 2*endpoints+len(a.leaving)+len(a.answers):
		return fmt.Errorf("%d addresses inserted by %d endpoints, %d leaving, %d for answers",
			a.inserted, endpoints, len(a.leaving), len(a.answers))
	case len(a.answers) > AnswersMax:
		return fmt.Errorf("%d addresses for answers, at most %d", len(a.answers), AnswersMax)
	}
	return nil
}
