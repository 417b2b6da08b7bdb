//go:build unix

package stream

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl"
)

// TestLongLetter: a control message longer than the longest letter or notice is refused before
// memory is allocated for it.
func TestLongLetter(t *testing.T) {
	for _, tag := range []btl.Tag{tagLetter, tagNotice} {
		w := newSimWorld(t, 6, 1)
		r := w.rogue(t, "rogue")
		r.connect(w.rx[0].m.Name())
		f, err := r.ep.Prepare(tag, make([]byte, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		var got error
		done := false
		f.Signal, f.OnDone = true, func(_ *btl.Fragment, err error) { got, done = err, true }
		if _, err := r.ep.Send(w.nw.Now(), f); err != nil {
			t.Fatal(err)
		}
		r.node.Kick()
		w.until(time.Minute, func() bool { return done })
		if !errors.Is(got, btl.ErrUnwanted) {
			t.Errorf("tag %d: %v", tag, got)
		}
	}
}
