package flush

import (
	"errors"
	"testing"

	"gobtl/internal/seq"
)

var errNot = errors.New("no")

// next takes out what is done, and returns the names of the calls.
func next(q *Queue[int], oldest seq.Num, awaited bool, told *[]string) string {
	*told = nil
	fences := ""
	for {
		d, ok := q.Next(oldest, awaited)
		if !ok {
			break
		}
		if d.Fence {
			fences += "|"
		} else {
			d.Fn(d.Err)
		}
	}
	for _, name := range *told {
		fences += name
	}
	return fences
}

// Calls complete in their order, when all that was queued before them has been sent and its numbers
// are acknowledged.
func TestOrder(t *testing.T) {
	var q Queue[int]
	var told []string
	tell := func(name string) func(error) {
		return func(err error) {
			if err != nil {
				name += "!"
			}
			told = append(told, name)
		}
	}
	q.Add(tell("a"), Tails[int]{7, 0}, 3, false)
	q.Add(tell("b"), Tails[int]{7, 9}, 3, false)
	q.Fence(Tails[int]{8, 9}, 3, false)
	if q.Len() != 3 || !q.Fenced() || !q.Behind(1) || q.Behind(0) || q.Set() != 1 {
		t.Fatalf("%d calls, fenced %v", q.Len(), q.Fenced())
	}
	if got := next(&q, 100, false, &told); got != "" {
		t.Errorf("%s before its fragment was sent", got)
	}
	if !q.Sent(7, 0, 5) { // a waits only for its number, b for 9 too
		t.Error("nobody asks for an acknowledgement of the first call")
	}
	if got := next(&q, 4, false, &told); got != "" {
		t.Errorf("%s before it is acknowledged", got)
	}
	if got := next(&q, 5, false, &told); got != "a" {
		t.Errorf("%q instead of the first", got)
	}
	q.Sent(9, 1, 6)
	if got := next(&q, 6, false, &told); got != "b" {
		t.Errorf("%q instead of the second", got)
	}
	q.Withdrawn(8, 0)
	if got := next(&q, 6, true, &told); got != "" || !q.Fenced() {
		t.Error("a fence is met while an answer is awaited")
	}
	if got := next(&q, 6, false, &told); got != "|" || q.Fenced() || q.Len() != 0 {
		t.Errorf("%q, %d calls are left", got, q.Len())
	}
}

// A refusal is told by the first flush that was called after the packet was sent, or by the next
// one; one in an open pack by both.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name          string
		sent, refused seq.Num
		open          bool
		first, second bool
	}{
		{"before the call", 5, 4, false, true, false},
		{"after the call", 5, 5, false, false, true},
		{"in the open pack", 5, 4, true, true, true},
		{"before the open pack", 5, 3, true, true, false},
	} {
		var q Queue[int]
		var got [2]error
		q.Add(func(err error) { got[0] = err }, Tails[int]{}, c.sent, c.open)
		q.Refused(c.refused, 2, errNot)
		q.Add(func(err error) { got[1] = err }, Tails[int]{}, c.sent+1, false)
		var told []string
		next(&q, 100, false, &told)
		if (got[0] != nil) != c.first || (got[1] != nil) != c.second {
			t.Errorf("%s: %v", c.name, got)
		}
		if n, last := q.Refusals(); n != 2 || !errors.Is(last, errNot) {
			t.Errorf("%s: %d refused, %v", c.name, n, last)
		}
	}
}

// A fragment that goes back to its queue is waited for again.
func TestAgain(t *testing.T) {
	var q Queue[int]
	var told []string
	q.Add(func(error) { told = append(told, "a") }, Tails[int]{0, 7}, 3, false)
	q.Sent(7, 1, 4)
	q.Again(7, 1, 3, 0)
	if got := next(&q, 100, false, &told); got != "" {
		t.Error("done though its fragment is queued again")
	}
	q.Sent(7, 1, 9)
	if got := next(&q, 9, false, &told); got != "a" {
		t.Error("not done")
	}
}

// An endless stream of calls takes no more room than those that wait.
func TestBounded(t *testing.T) {
	var q Queue[int]
	for i := range seq.Num(10000) {
		q.Add(func(error) {}, Tails[int]{}, i, false)
		if i > 2 {
			q.Fail()
		}
	}
	if cap(q.all()) > 64 || q.Len() != 3 {
		t.Errorf("room for %d calls, %d wait", cap(q.all()), q.Len())
	}
	for d, ok := q.Fail(); ok; d, ok = q.Fail() {
		if d.Fn == nil {
			t.Fatal("a call is lost")
		}
	}
}

// A nil Queue is empty, and Check finds what is forgotten.
func TestCheck(t *testing.T) {
	var none *Queue[int]
	queued := func(f int) bool { return f == 7 }
	if none.Len() != 0 || none.Fenced() || none.Behind(0) || none.Sent(1, 0, 1) ||
		none.Check(0, 0, false, queued) != nil {
		t.Error("a nil Queue is not empty")
	}
	for name, c := range map[string]struct {
		after Tails[int]
		sent  seq.Num
		bad   bool
	}{
		"waits for a fragment":        {Tails[int]{7, 0}, 3, false},
		"waits for one that is gone":  {Tails[int]{8, 0}, 3, true},
		"waits for a number":          {Tails[int]{}, 6, false},
		"is due":                      {Tails[int]{}, 5, true},
		"waits for what was not sent": {Tails[int]{7, 0}, 8, true},
	} {
		var q Queue[int]
		q.Add(func(error) {}, c.after, c.sent, false)
		if err := q.Check(5, 7, false, queued); (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}
