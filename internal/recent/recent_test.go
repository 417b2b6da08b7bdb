package recent

import "testing"

func TestSet(t *testing.T) {
	const most, more = 8, 3
	var s Set
	if s.Has(0) || s.Len() != 0 || s.Oldest() != 0 {
		t.Error("a zero Set is not empty")
	}
	for v := range uint64(most + more) {
		if !s.Add(v, most) || s.Add(v, most) {
			t.Errorf("value %d was not added once", v)
		}
	}
	if s.Len() != most || s.Added() != most+more || s.Oldest() != more {
		t.Errorf("%d values, %d added, the oldest is number %d", s.Len(), s.Added(), s.Oldest())
	}
	for v := range uint64(most + more) {
		if s.Has(v) != (v >= more) {
			t.Errorf("the set contains %d: %v", v, s.Has(v))
		}
		if v >= more && s.At(v) != v {
			t.Errorf("number %d is %d", v, s.At(v))
		}
	}
}
