package pml

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// A peer that picks its tags fills no list in which the messages of another one are searched.
func TestChosenTags(t *testing.T) {
	t.Parallel()
	_, layers := memLayers(t, 2, Config{})
	if a, b := layers[0].unexpected.seed, layers[1].unexpected.seed; a == 0 || a == b ||
		a != layers[0].posted.seed {
		t.Fatalf("seeds %#x and %#x", a, b)
	}
	good, bad := newPeer(1), newPeer(2)
	const tag, count, buckets = 5, 4096, 1 << 12
	place := func(seed uint64, peer *Peer, tag uint64) uint64 {
		return hash(seed, peer.index, tag) >> 32 % buckets
	}
	want := place(0, good, tag) // by the code alone
	for _, seed := range []uint64{layers[0].unexpected.seed, layers[1].unexpected.seed} {
		q := newUnexpected(seed, 0)
		for chosen, n := uint64(0), 0; n < count; chosen++ {
			if place(0, bad, chosen) == want {
				q.add(&Message{peer: bad, tag: chosen})
				n++
			}
		}
		q.add(&Message{peer: good, tag: tag})
		ahead := 0
		h := hash(seed, good.index, tag)
		for m := q.exact.first(h); m.peer != good; m = q.exact.after(m, h) {
			ahead++
		}
		if ahead > count/16 {
			t.Errorf("seed %#x: %d of %d messages of another peer are before the one", seed, ahead, count)
		}
	}
}

// A rank that knows the handle of a receive, and is not its sender, writes nothing there.
func TestReceiveOfAnother(t *testing.T) {
	t.Parallel()
	step, layers := memLayers(t, 3, Config{})
	good, bad, l := layers[0], layers[1], layers[2]
	toL, badToL := connected(t, step, good, l), connected(t, step, bad, l)
	const size = 300 << 10
	data, mem := make([]byte, size), make([]byte, size)
	for i := range data {
		data[i] = 1
	}
	var send, recv Request
	if err := l.Recv(step(), &recv, nil, 1, exactly, mem); err != nil {
		t.Fatal(err)
	}
	if err := good.Send(step(), &send, toL, 1, data, Standard); err != nil {
		t.Fatal(err)
	}
	for recv.region == nil && !recv.Done() {
		step()
	}
	if recv.region == nil {
		t.Fatal("the receive has ended before its handle is known")
	}
	f, err := badToL.ep.PreparePut(make([]byte, 64), recv.region.Handle(), 0)
	if err != nil {
		t.Fatal(err)
	}
	pending := errors.New("it has not ended")
	told := pending
	f.Signal, f.OnDone = true, func(_ *btl.Fragment, err error) { told = err }
	if _, err := badToL.ep.Send(step(), f); err != nil {
		t.Fatal(err)
	}
	for !recv.Done() || !send.Done() || told == pending { //nolint:errorlint // It is that one.
		step()
	}
	if !errors.Is(told, btl.ErrRemoteAccess) || recv.Err() != nil || send.Err() != nil {
		t.Errorf("the put of another: %v; the message: %v, %v", told, send.Err(), recv.Err())
	}
	for i, b := range mem {
		if b != 1 {
			t.Fatalf("byte %d is %d", i, b)
		}
	}
}
