package inbound

import (
	"testing"

	"gobtl/internal/seq"
)

// A Bye is due when everything before it has arrived, and no packet may follow it, also where the
// numbers wrap.
func TestBye(t *testing.T) {
	var b Bye
	if b.Seen || b.Precedes(1) || b.Due(1<<31-1) {
		t.Error("a Bye that has not arrived has an effect")
	}
	n := ^seq.Num(0) // not a constant, because n + 1 wraps
	b.Came(n, 7)
	if !b.Seen || b.Code != 7 {
		t.Errorf("seen %v, code %d", b.Seen, b.Code)
	}
	for _, c := range []struct {
		n    seq.Num
		want bool
	}{{n - 1, false}, {n, false}, {n.Add(1), true}, {n.Add(2), true}} {
		if b.Precedes(c.n) != c.want || b.Due(c.n) != c.want {
			t.Errorf("packet %d follows the Bye: %v, due: %v", c.n, b.Precedes(c.n), b.Due(c.n))
		}
	}
}
