package owed

import (
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/reliability"
)

func newLedger(t *testing.T, n int) (*Ledger[int], []*Debt[int], *reliability.Rules) {
	t.Helper()
	rules, err := reliability.Profile("adaptive")
	if err != nil {
		t.Fatal(err)
	}
	all := make([]*Debt[int], n)
	for i := range all {
		all[i] = &Debt[int]{Of: i}
		all[i].Init(0, 64)
	}
	return new(Ledger[int]), all, &rules
}

// check is what the owner does to check its endpoints and their lists.
func check(l *Ledger[int], all []*Debt[int], now Time) error {
	var tally Tally
	for _, d := range all {
		if err := d.Tally(&tally); err != nil {
			return err
		}
	}
	return l.Check(tally, now)
}

// Whatever is accepted, asked for and settled, the lists stay in the order of what is due, and hold
// those that owe.
func TestLedgerModel(t *testing.T) {
	for seed := range uint64(100) {
		l, all, rules := newLedger(t, 5)
		rnd := rand.New(rand.NewPCG(seed, 1))
		now := Time(time.Second)
		for range 200 {
			now = now.Add(time.Duration(rnd.IntN(20)) * time.Microsecond)
			d := all[rnd.IntN(len(all))]
			switch rnd.IntN(5) {
			case 0, 1:
				d.Accept(now, d.Next(), rules)
				l.Owe(d, now)
			case 2:
				d.AskAck(now, 0)
				l.Owe(d, now)
			case 3:
				l.Ripen(now, rules)
			default:
				if first := l.Soon.First; first != nil {
					l.settleOf(first)
				}
			}
			if err := check(l, all, now); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}

// settleOf is what the owner does when it sends an ACK.
func (l *Ledger[E]) settleOf(d *Debt[E]) {
	d.TakeAck(reliability.NewCredits(64))
	l.Settle(d)
}

// An ACK that is due now stands in front, and Check finds what does not belong on the lists.
func TestDueNow(t *testing.T) {
	l, all, rules := newLedger(t, 3)
	const now = Time(time.Second)
	for _, d := range all {
		d.Accept(now, d.Next(), rules)
		l.Owe(d, now)
	}
	all[2].AskAck(now, 0)
	l.Owe(all[2], now)
	if l.Soon.First.Of != 2 || l.Soon.First.Behind == nil || l.Len() != 3 || l.Later.First != nil {
		t.Errorf("%d is first of %d", l.Soon.First.Of, l.Len())
	}
	for name, spoil := range map[string]func(){
		"count":       func() { l.Soon.count++ },
		"not owed":    func() { all[0].Owed = false },
		"held":        func() { all[1].held = true },
		"another end": func() { l.Soon.last = all[1] },
	} {
		list, zero, one := l.Soon, *all[0], *all[1]
		if spoil(); check(l, all, now) == nil {
			t.Errorf("%s: not found", name)
		}
		l.Soon, *all[0], *all[1] = list, zero, one
	}
	if err := check(l, all, now); err != nil {
		t.Error(err)
	}
}

// However many passes receive nothing, they are one lull.
func TestLulls(t *testing.T) {
	var l Ledger[int]
	for _, nothing := range []bool{true, true, false, false, true, true, true, false, true} {
		l.NoteLull(nothing)
	}
	if l.Lulls != 3 {
		t.Errorf("%d lulls", l.Lulls)
	}
}
