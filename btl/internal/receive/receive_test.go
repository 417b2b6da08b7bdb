package receive

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
)

// TestDrops: each packet that cannot be for anybody is counted once, by its reason, and its buffer
// is back.
func TestDrops(t *testing.T) {
	unknown := make([]byte, frag.HeaderBytes(frag.KindFrag, 0)+3)
	head := frag.Header{Kind: frag.KindFrag, Conn: 12345, Tag: 1, Seq: 1, PayloadLen: 3}
	head.Encode(unknown)
	foreign := bytes.Clone(unknown)
	foreign[1] ^= 0x70 // the version
	for _, c := range []struct {
		name   string
		packet []byte
		comp   fabric.Completion
		want   stats.Counter
	}{
		{"empty", nil, fabric.Completion{}, stats.CntDropMalformed},
		{"too short", unknown[:9], fabric.Completion{}, stats.CntDropMalformed},
		{"of nobody", unknown, fabric.Completion{}, stats.CntDropConn},
		{"of another version", foreign, fabric.Completion{}, stats.CntDropVersion},
		{"failed", unknown, fabric.Completion{Errno: 5}, stats.CntRecvErrors},
		{"cut by the fabric", unknown, fabric.Completion{Len: 1 << 20}, stats.CntDropTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			st := &r.stations[0]
			comp := c.comp
			comp.Op, comp.Buf = fabric.OpRecv, st.all.Port.FirstReceive()
			if comp.Len == 0 {
				comp.Len = uint32(copy(st.all.Port.Arena.Bytes(comp.Buf), c.packet))
			}
			st.Handle(&st.all.Port.Command, &comp)
			st.all.Port.Command.PostReceives()
			if st.all.Count[c.want] != 1 || st.all.Count.Unaccounted() != 0 {
				t.Errorf("%d packets counted by %v, %d by none", st.all.Count[c.want], c.want,
					st.all.Count.Unaccounted())
			}
			if err := st.Check(false); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeliver: messages of one packet and of several get to the handler of their tag whole.
func TestDeliver(t *testing.T) {
	r := newRig(t)
	ep := r.connect()
	var got []byte
	var tag uint8
	r.stations[1].SetHandler(7, func(_ *peer.Endpoint, of uint8, data []byte) {
		got, tag = bytes.Clone(data), of
	})
	for _, size := range []int{0, 1, 700, 1300, 5000, 40_000} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i*11 + i>>8)
		}
		got, tag = nil, 0
		if err := r.send(ep, 7, data); err != nil || !bytes.Equal(got, data) || tag != 7 {
			t.Errorf("%d bytes: %v, %d arrived for tag %d", size, err, len(got), tag)
		}
	}
}

// TestRefuse: the sender learns why a message was refused, and later messages arrive.
func TestRefuse(t *testing.T) {
	r := newRig(t)
	ep, st := r.connect(), &r.stations[1]
	got := 0
	st.SetHandler(1, func(*peer.Endpoint, uint8, []byte) { got++ })
	st.Limit(1, 5000)
	for _, c := range []struct {
		name    string
		tag     uint8
		size    int
		want    error
		counter stats.Counter
	}{
		{"no handler", 2, 10, errs.ErrNoHandler, stats.CntDropNoHandler},
		{"no handler, several packets", 2, 9000, errs.ErrNoHandler, stats.CntDropNoHandler},
		{"too long", 1, 9000, errs.ErrUnwanted, stats.CntDropUnwanted},
	} {
		before := st.all.Count[c.counter]
		if err := r.send(ep, c.tag, make([]byte, c.size)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if st.all.Count[c.counter] == before {
			t.Errorf("%s: not counted", c.name)
		}
		if err := r.send(ep, 1, make([]byte, 4000)); err != nil {
			t.Errorf("behind %s: %v", c.name, err)
		}
	}
	if got != 3 {
		t.Errorf("%d messages arrived, want 3", got)
	}
	if err := errors.Join(st.CheckIdle(), r.stations[0].CheckIdle()); err != nil {
		t.Error(err)
	}
}

// TestFast: ReceiveFast delivers a message before the receive state is updated, at most one, and
// not at all for a Receiver that books first.
func TestFast(t *testing.T) {
	r := newRig(t)
	ep, st := r.connect(), &r.stations[1]
	got := 0
	st.SetHandler(1, func(*peer.Endpoint, uint8, []byte) { got++ })
	for _, first := range []bool{false, true} {
		st.BookFirst(first)
		before, was := got, st.all.Count[stats.CntFastReceives]
		err := r.stations[0].all.Sender.SendImmediate(ep, r.now, 1, []byte("fast"))
		if err != nil {
			t.Fatal(err)
		}
		r.stations[0].all.Buffers.PostAll()
		c := &st.all.Port.Command
		n, err := c.Poll(r.now, 1)
		if n != 1 || err != nil {
			t.Fatalf("%d completions, %v", n, err)
		}
		comp := &c.Completions[:n][0]
		if fast := st.ReceiveFast(c, comp); fast == first {
			t.Fatalf("books first: %v, received fast: %v", first, fast)
		} else if !fast {
			st.Handle(c, comp)
		}
		if got != before+1 || st.Deferred.Pending == first {
			t.Errorf("books first: %v, %d arrived, pending %v", first, got-before, st.Deferred.Pending)
		}
		st.FinishDeferred()
		c.PostReceives()
		if n := st.all.Count[stats.CntFastReceives] - was; (n == 1) == first || st.Deferred.Pending {
			t.Errorf("books first: %v, %d fast, pending %v", first, n, st.Deferred.Pending)
		}
		r.steps(20, time.Millisecond)
	}
}
