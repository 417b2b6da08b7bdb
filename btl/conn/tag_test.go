package conn_test

import (
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// Each of the packages conn, call and queue refuses a tag that has a handler, and the handler that
// was there first keeps the tag.
func TestTagInUse(t *testing.T) {
	const handled, called, free = tag, tag + 1, tag + 2 // and the next tags
	var m *btl.Module
	opener := within(mem.New(mem.Config{}))
	_, info, err := opener(fabric.DomainConfig{})
	must(t, err)
	sizes, err := btl.Config{}.DomainConfig(info)
	must(t, err)
	domain, _, err := opener(sizes)
	must(t, err)
	m, err = btl.Open(domain, btl.Config{})
	must(t, err)
	must(t, m.Handle(handled, func(*btl.Endpoint, btl.Tag, []byte) {}))
	calls, err := call.New(m, call.Config{Tag: called})
	must(t, err)
	newConn := func(at btl.Tag) error { _, err := conn.New(m, conn.Config{Tag: at}); return err }
	newCall := func(at btl.Tag) error { _, err := call.New(m, call.Config{Tag: at}); return err }
	newQueue := func(at btl.Tag) error { _, err := queue.New(m, queue.Config{Tag: at}); return err }
	for i, c := range []struct {
		open func(at btl.Tag) error
		want error
	}{
		{newConn, conn.ErrConfig}, {newCall, call.ErrConfig}, {newQueue, queue.ErrConfig},
	} {
		for _, at := range []btl.Tag{handled, called} {
			if err := c.open(at); !errors.Is(err, c.want) || !errors.Is(err, btl.ErrTagTaken) {
				t.Errorf("tag %d: %v, want %v and ErrTagTaken", at, err, c.want)
			}
		}
		at := free + btl.Tag(i)
		must(t, m.Handle(at, func(*btl.Endpoint, btl.Tag, []byte) {}))
		must(t, m.Handle(at, nil))
		if err := c.open(at); err != nil {
			t.Errorf("a tag whose handler was removed: %v, want %v elsewhere", err, c.want)
		}
		for _, h := range []btl.Handler{nil, func(*btl.Endpoint, btl.Tag, []byte) {}} {
			if err := m.Handle(at, h); !errors.Is(err, btl.ErrTagTaken) {
				t.Errorf("Handle of the tag of a layer: %v, want ErrTagTaken", err)
			}
		}
		if err := m.HandlePulled(at); !errors.Is(err, btl.ErrTagTaken) {
			t.Errorf("HandlePulled of the tag of a layer: %v, want ErrTagTaken", err)
		}
	}
	must(t, calls.Start(runner.Config{}, nil).Close(t.Context()))
}
