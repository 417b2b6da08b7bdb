package queue_test

import (
	"testing"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/fabric/mem"
)

// A limit that is told too late to a peer that has ended leaves nothing behind.
func TestLimitOfEnded(t *testing.T) {
	net := mem.New(mem.Config{})
	a, b := open(t, net, queue.Config{}), open(t, net, queue.Config{})
	ended, err := a.run.Connect(t.Context(), b.name)
	if err != nil {
		t.Fatal(err)
	}
	abort := func(*btl.Module) error { ended.Abort(); return nil }
	if err := a.run.Do(t.Context(), abort); err != nil {
		t.Fatal(err)
	}
	err = a.run.Do(t.Context(), func(*btl.Module) error { return a.SendLimit(ended) })
	if err == nil {
		t.Error("the peer has ended, and a limit is sent")
	}
	if n := a.Senders(); n != 0 {
		t.Errorf("%d peers are kept", n)
	}
}
