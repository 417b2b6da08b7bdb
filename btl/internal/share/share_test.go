package share

import "testing"

// What is shared: one after the other takes all that it may and keeps it. There is something for as
// many as half of an eighth, and a sole endpoint leaves that eighth.
func TestShares(t *testing.T) {
	for _, all := range []int{8, 16, 64, 100, 256, 1024, 4096} {
		reserve := all / NewcomersShare
		held := 0
		for MayHave(held, all-held, all, true) {
			held++
		}
		if held != all-reserve || MayAdd(0, all, all, true) != held {
			t.Errorf("a sole one takes %d of %d, or %d at once", held, all, MayAdd(0, all, all, true))
		}
		free, takers := all, 0
		for ; MayHave(0, free, all, false); takers++ {
			held = 0
			for MayHave(held, free, all, false) {
				if MayAdd(held, free, all, false) < 1 {
					t.Fatalf("%d of %d, %d free: one more, and not any more", held, all, free)
				}
				held, free = held+1, free-1
			}
			if n := MayAdd(held, free, all, false); n > 0 {
				t.Fatalf("%d of %d, %d free: not one more, and %d more", held, all, free, n)
			}
		}
		if free != 0 || takers <= reserve/2 {
			t.Errorf("of %d %d are free after %d have taken what they may", all, free, takers)
		}
		t.Logf("%d are used up by %d", all, takers)
	}
}
