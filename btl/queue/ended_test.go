package queue

import (
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// A limit that is told too late to a peer that has ended leaves nothing behind.
func TestLimitOfEnded(t *testing.T) {
	net := mem.New(mem.Config{})
	infos, err := net.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	var queues [2]*Queue
	var runners [2]*btl.Runner
	var name []byte
	for i := range queues {
		var cfg btl.Config
		sizes, err := cfg.DomainConfig(infos[0])
		if err != nil {
			t.Fatal(err)
		}
		domain, err := net.Open(sizes)
		if err != nil {
			t.Fatal(err)
		}
		m, err := btl.Open(domain, cfg)
		if err != nil {
			t.Fatal(err)
		}
		name = m.Name()
		if queues[i], err = New(m, Config{Tag: 7}); err != nil {
			t.Fatal(err)
		}
		runners[i] = queues[i].Start(btl.RunnerConfig{}, nil)
		defer func() {
			if err := errors.Join(queues[i].Close(t.Context()), runners[i].Close(t.Context())); err != nil {
				t.Error(err)
			}
		}()
	}
	ended, err := runners[0].Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	abort := func(*btl.Module) error { ended.Abort(); return nil }
	if err := runners[0].Do(t.Context(), abort); err != nil {
		t.Fatal(err)
	}
	err = runners[0].Do(t.Context(), func(*btl.Module) error { return queues[0].sendLimit(ended) })
	if err == nil {
		t.Error("the peer has ended, and a limit is sent")
	}
	queues[0].mu.Lock()
	defer queues[0].mu.Unlock()
	if len(queues[0].from) != 0 {
		t.Errorf("%d peers are kept", len(queues[0].from))
	}
}
