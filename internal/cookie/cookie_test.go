package cookie

import (
	"bytes"
	"testing"
)

// TestCookies checks that a cookie is valid only for its purpose and address, in its time period
// and in the next one.
func TestCookies(t *testing.T) {
	n := uint64(0)
	count := func() uint64 { n++; return n }
	j, other := New(count), New(count)
	what, addr := For{1, 2, 3}, []byte("address")
	good := bytes.Clone(j.Bake(1<<32-1, what, addr))
	for about, c := range map[string]struct {
		jar    *Jar
		now    uint32
		what   For
		addr   string
		cookie []byte
		want   bool
	}{
		"as it was baked":  {j, 1<<32 - 1, what, "address", good, true},
		"a time later":     {j, 0, what, "address", good, true},
		"two times later":  {j, 1, what, "address", good, false},
		"a time before":    {j, 1<<32 - 2, what, "address", good, false},
		"other channel":    {j, 0, For{0, 2, 3}, "address", good, false},
		"other life":       {j, 0, For{1, 9, 3}, "address", good, false},
		"other tag":        {j, 0, For{1, 2, 9}, "address", good, false},
		"other address":    {j, 0, what, "addresS", good, false},
		"longer address":   {j, 0, what, "address1", good, false},
		"other jar":        {other, 0, what, "address", good, false},
		"cut":              {j, 0, what, "address", good[:Bytes-1], false},
		"none":             {j, 0, what, "address", nil, false},
		"time made later":  {j, 0, what, "address", append([]byte{0, 0, 0, 0}, good[4:]...), false},
		"a bit is another": {j, 0, what, "address", append(bytes.Clone(good[:19]), good[19]^1), false},
	} {
		if got := c.jar.Good(c.now, c.what, []byte(c.addr), c.cookie); got != c.want {
			t.Errorf("%s: %v", about, got)
		}
	}
	if got := testing.AllocsPerRun(100, func() { j.Good(0, what, addr, good) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
