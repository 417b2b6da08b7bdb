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
	}
}

// The crowds of hosts, of which one endpoint takes all that it may and each other one its first
// item, leave items to hosts that hold none. Each endpoint of a crowd gets its first item while
// more than these items are free, however much its host holds.
func TestCrowdsLeaveItems(t *testing.T) {
	const peers = 1024 // of one host
	for _, all := range []int{16, 64, 100, 256, 1024, 4096} {
		for _, hosts := range []int{1, 2, 3} {
			sole, free := Sole{Host: hosts == 1}, all
			ofHosts := make([]Items, hosts)
			for i := range ofHosts {
				for held := int32(0); MayTake(held, ofHosts[i], free, all, sole); held++ {
					ofHosts[i].Take()
					free--
				}
			}
			left := all / NewcomersShare / 2
			for i := range ofHosts {
				got := 1
				for ; got < peers && MayTake(0, ofHosts[i], free, all, sole); got++ {
					ofHosts[i].Take()
					free--
				}
				if got < peers && free > left {
					t.Errorf("of %d, %d are free, and only %d endpoints of a host get one", all, free, got)
				}
			}
			further := 0
			for ; MayTake(0, 0, free, all, Sole{}); further++ {
				free--
			}
			if further < left {
				t.Errorf("of %d, the crowds of %d hosts leave one to %d hosts, want %d", all, hosts,
					further, left)
			}
		}
	}
}

// Each endpoint of a host may take as many items, one after the other, as are ample.
func TestAmple(t *testing.T) {
	ample := 0
	for _, all := range []int{1, 8, 16, 100, 128} {
		for free := range all + 1 {
			for ofHost := range all - free + 1 {
				for _, held := range []int{0, min(1, ofHost), ofHost} {
					for i := range Ample(Items(ofHost), free, all) {
						for _, sole := range []Sole{{}, {Host: true}, {Host: true, Endpoint: true}} {
							if !MayTake(int32(held+i), Items(ofHost+i), free-i, all, sole) {
								t.Fatalf("of %d, %d are free, held %d of %d: not %d more", all, free, held, ofHost,
									i+1)
							}
						}
						ample++
					}
				}
			}
		}
	}
	if ample == 0 {
		t.Error("never ample")
	}
}
