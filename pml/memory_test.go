package pml

import "testing"

// TestMemoryCounts checks that the memory counts the bytes of the messages that it holds, that it
// charges each of them to its sender exactly once, and that a message without an own copy costs
// nothing.
func TestMemoryCounts(t *testing.T) {
	_, layers := memLayers(t, 1, Config{})
	l, p := layers[0], newPeer(1)
	p.l, p.host = l, &host{}
	y, data := &l.memory, []byte("twelve bytes")
	expect := func(what string, messages, bytes int) {
		t.Helper()
		if held := int64(messages) * (messageBytes + 16); y.bytes != bytes || p.held != held {
			t.Errorf("%s: %d bytes, %d of the peer, want %d and %d", what, y.bytes, p.held, bytes, held)
		}
	}
	kept := y.keep(&Message{peer: p, eager: true}, data)
	expect("one is kept", 1, len(data))
	lent := y.lend(&Message{peer: p, eager: true}, data)
	expect("another one is lent", 1, len(data))
	y.own(kept)
	y.own(lent)
	expect("both are kept", 2, 2*len(data))
	data[0] = 'T'
	if string(kept.data) != "twelve bytes" || string(lent.data) != "twelve bytes" {
		t.Errorf("the copies are %q and %q", kept.data, lent.data)
	}
	y.spend(kept)
	y.spend(kept)
	if expect("one is spent", 1, len(data)); !kept.gone || kept.data != nil {
		t.Error("a spent message is there")
	}
	y.release(lent)
	expect("none is kept", 0, 0)
	y.release(y.lend(&Message{peer: p}, data))
	expect("one was lent", 0, 0)
	if y.get() != lent {
		t.Error("a released Message is not reused")
	}
}
