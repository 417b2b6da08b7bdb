package port

import (
	"fmt"
	"time"

	"gobtl/fabric"
)

// The type "addresses" contains the peer addresses that are inserted in the Domain. An unused
// address is removed only after the last sends to this address have completed, because the hardware
// can read the address until these sends have completed (see fabric.Caps.RemoveCancels).
type addresses struct {
	inserted int // addresses inserted and not removed
	Leaving  []leavingAddr
	answers  []fabric.Addr // each inserted for a single answer, oldest first
}

// AnswersMax is the maximum number of addresses that stay inserted for single answers to unknown
// senders.
const AnswersMax = 8

// CancelAfter is the time after which the removal of an unused address is allowed to cancel the
// remaining sends to this address. CancelAfter is long enough for a live peer to accept the packets
// of the remaining sends.
const CancelAfter = time.Second

// leavingAddr is an address that is removed as soon as the last sends to it have completed.
type leavingAddr struct {
	addr      fabric.Addr
	cmd, data lastSend
	cancelAt  Time // from this time on, Remove may cancel waiting sends
}

func (a *addresses) init() { a.answers = make([]fabric.Addr, 0, AnswersMax) }

// Insert makes a peer's address known to the fabric. The errors of Insert are those of the
// provider.
func (p *Port) Insert(name []byte) (fabric.Addr, error) {
	a, err := p.Dom.Insert(name)
	if err == nil {
		p.inserted++
	}
	return a, err
}

// Remove removes an address from the fabric immediately. The caller must not call Remove while a
// send to the address is in progress.
func (p *Port) Remove(a fabric.Addr) {
	p.inserted--
	_ = p.Dom.Remove(a)
}

// RemoveLater removes an address as soon as the last sends to this address have completed. From the
// time "cancelAt" on, the fabric is allowed to cancel the remaining sends to the address.
func (p *Port) RemoveLater(a fabric.Addr, cancelAt Time) {
	p.Leaving = append(p.Leaving, leavingAddr{a, p.Command.lastSend(a), p.Data.lastSend(a), cancelAt})
}

// RemoveLeft removes those unused addresses to which the last sends have completed. RemoveLeft
// detects the last completion by counting, which is exact if sends complete in the order in which
// they were posted. If sends complete in a different order, as in fabric/shm, RemoveLeft can remove
// an address too early or too late. No buffer is lost if an address is removed too early or too
// late.
func (p *Port) RemoveLeft(now Time) {
	cancels := p.Command.Caps.RemoveCancels && p.Data.Caps.RemoveCancels
	n := 0
	for i := range p.Leaving {
		l := &p.Leaving[i]
		cmd, data := p.Command.hasGone(&l.cmd, l.addr), p.Data.hasGone(&l.data, l.addr)
		if cmd && data || cancels && now >= l.cancelAt {
			p.Remove(l.addr)
			if cancels {
				p.forgetAnswers(l.addr)
			}
		} else {
			p.Leaving[n] = *l
			n++
		}
	}
	p.Leaving = p.Leaving[:n]
}

// GiveUp cancels the uncompleted sends to an address that waits for its removal. The caller must
// call GiveUp before it inserts the same address again, because only the last Remove of an address
// cancels sends. After GiveUp, the caller must call Refused and Done.
func (p *Port) GiveUp(now Time, name []byte) {
	if len(p.Leaving) == 0 || p.Command.Posted+p.Data.Posted == 0 ||
		!p.Command.Caps.RemoveCancels || !p.Data.Caps.RemoveCancels {
		return
	}
	p.Post(now) // a peer that still receives gets the last packets
	a, err := p.Insert(name)
	if err != nil {
		return
	}
	for i := range p.Leaving {
		if p.Leaving[i].addr == a {
			p.Leaving[i].cancelAt = 0
		}
	}
	p.RemoveLeft(now)
	p.Remove(a)
}

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

// TakeForAnswer takes a control buffer for a single answer to an unknown peer, and inserts the
// peer's address, which is the argument "name". If AnswersMax addresses are already inserted for
// single answers, TakeForAnswer removes the oldest of these addresses. The result "ok" of
// TakeForAnswer says whether a control buffer is available (see TakeControl), and the provider has
// accepted the address.
func (p *Port) TakeForAnswer(
	now Time, c *Channel, name []byte,
) (b fabric.Buf, to fabric.Addr, ok bool) {
	if c.Room() <= 0 || len(p.FreeCtl) == 0 {
		return 0, 0, false
	}
	to, err := p.Insert(name)
	if err != nil {
		return 0, 0, false
	}
	if b, ok = p.TakeControl(c, to); !ok {
		p.Remove(to)
		return 0, 0, false
	}
	p.keepForAnswer(now, to)
	return b, to, true
}

// keepForAnswer keeps an address inserted until AnswersMax more addresses were inserted for single
// answers.
func (p *Port) keepForAnswer(now Time, to fabric.Addr) {
	if len(p.answers) == cap(p.answers) {
		p.RemoveLater(p.answers[0], now.Add(CancelAfter))
		p.answers = p.answers[:copy(p.answers, p.answers[1:])]
	}
	p.answers = append(p.answers, to)
}

// Inserted returns the number of all inserted addresses, and the number of addresses that are
// inserted for single answers.
func (p *Port) Inserted() (all, answers int) { return p.inserted, len(p.answers) }

// CheckAddresses returns an error if the number of inserted addresses is wrong, and nil otherwise.
// The number of inserted addresses must be twice the number of endpoints, plus the addresses for
// single answers and the addresses that wait for their removal. The caller may call CheckAddresses
// even after the Domain is closed.
func (a *addresses) CheckAddresses(endpoints int) error {
	switch {
	case a.inserted != 2*endpoints+len(a.Leaving)+len(a.answers):
		return fmt.Errorf("%d addresses inserted by %d endpoints, %d leaving, %d for answers",
			a.inserted, endpoints, len(a.Leaving), len(a.answers))
	case len(a.answers) > AnswersMax:
		return fmt.Errorf("%d addresses for answers, at most %d", len(a.answers), AnswersMax)
	}
	return nil
}
