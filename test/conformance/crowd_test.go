package conformance

import (
	"encoding/binary"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/internal/limits"
)

// Of testCrowd: what each of the nodes asks of each other one, and what it is answered.
const (
	crowdNodes   = 8
	crowdRounds  = 3
	crowdPuts    = 10 // that answer a get
	crowdBytes   = 20_000
	crowdPutSize = 2_000
	tagCrowdAsk  = btl.Tag(16)
	tagCrowdPut  = btl.Tag(17)
)

// crowdNode is one of the nodes of testCrowd.
type crowdNode struct {
	*node
	read, write *btl.Region
	queue       []func() error // what has had no room yet, the oldest first
	kept        []btl.Kept     // of every message, until the end
	into        [][]byte       // of the gets
	gets, puts  int            // that have ended
	full        int            // times that there was no room
	noticed     int
}

// testCrowd tries for a deadlock: everybody reads from everybody else, all at once and with few
// send buffers and descriptors; a handler answers each of these gets with ten puts; everybody keeps
// every message; and all the regions there may be are exposed. All of it ends, each put gives one
// notice, and what was full has room again.
func testCrowd(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	cfg := btl.Config{SendBuffers: 64, FragmentsMax: 32, RegionsMax: 2, KeptPackets: 4}
	cfg.SetLimits(limits.Limits{KeptBytesMax: -1})
	all := make([]*crowdNode, crowdNodes)
	for i := range all {
		all[i] = newCrowdNode(l, cfg)
	}
	eps := make([][crowdNodes]*btl.Endpoint, crowdNodes)
	for i := range all {
		for j := range all {
			if i != j {
				eps[i][j] = l.dial(all[i].node, all[j].node)
			}
		}
	}
	for i, n := range all {
		n.handle(tagCrowdAsk, n.answer(all))
		n.handle(tagCrowdPut, func(*btl.Endpoint, btl.Tag, []byte) { n.noticed++ })
		for range crowdRounds {
			for j, to := range all {
				if i != j {
					n.ask(eps[i][j], to.read.Handle())
				}
			}
		}
		n.work = n.pump
	}
	const each = (crowdNodes - 1) * crowdRounds
	l.until("everybody has all", func() bool {
		for _, n := range all {
			if n.gets < each || n.puts < each*crowdPuts || n.noticed < each*crowdPuts {
				return false
			}
		}
		return true
	})
	for i, n := range all {
		for _, b := range n.into {
			if !intact(b, crowdNodes) {
				t.Errorf("node %d has not read what is there", i)
			}
		}
		n.release(i, each)
	}
	l.settle()
}

// newCrowdNode adds a node that has exposed all the regions it may.
func newCrowdNode(l *lab, cfg btl.Config) *crowdNode {
	l.t.Helper()
	n := &crowdNode{node: l.add(cfg), kept: make([]btl.Kept, 0, crowdNodes*crowdRounds)}
	mem := make([]byte, crowdBytes)
	pattern(mem, crowdNodes)
	var err [3]error
	n.read, err[0] = n.mod.Expose(mem, btl.RemoteRead)
	n.write, err[1] = n.mod.Expose(make([]byte, crowdPutSize), btl.RemoteWrite|btl.RemoteNotify)
	_, err[2] = n.mod.Expose(mem, btl.RemoteRead)
	if err[0] != nil || err[1] != nil || !errors.Is(err[2], btl.ErrAgain) {
		l.t.Fatalf("regions: %v, want room for two", err)
	}
	return n
}

// release gives everything back, and proves that node i was full of regions only as long as that.
func (n *crowdNode) release(i, each int) {
	n.l.t.Helper()
	if n.full == 0 {
		n.l.t.Errorf("node %d never lacked room: nothing was tried", i)
	}
	if len(n.kept) != each || n.gets != each || n.noticed != each*crowdPuts {
		n.l.t.Errorf("node %d: %d messages, %d gets, %d notices", i, len(n.kept), n.gets, n.noticed)
	}
	for k := range n.kept {
		if b := n.kept[k].Bytes(); len(b) != 4 || binary.LittleEndian.Uint32(b) >= crowdNodes {
			n.l.t.Errorf("node %d: a kept message of %d bytes is not as it came", i, len(b))
		}
		n.kept[k].Release()
	}
	n.read.Close()
	again, err := n.mod.Expose(make([]byte, 8), btl.RemoteRead)
	if err != nil {
		n.l.t.Fatalf("node %d: no region after one was closed: %v", i, err)
	}
	again.Close()
}

// ask queues a get, and the message whose handler answers it.
func (n *crowdNode) ask(ep *btl.Endpoint, from btl.Handle) {
	into := make([]byte, crowdBytes)
	n.into = append(n.into, into)
	n.queue = append(n.queue, func() error {
		f, err := ep.PrepareGet(into, from, 0)
		return n.send(ep, f, err, &n.gets)
	}, func() error {
		f, err := ep.Alloc(tagCrowdAsk, 4)
		if err == nil {
			binary.LittleEndian.PutUint32(f.Bytes(), uint32(n.id))
		}
		return n.send(ep, f, err, nil)
	})
}

// answer is the handler of a node that answers with puts, now or when there is room.
func (n *crowdNode) answer(all []*crowdNode) btl.Handler {
	mem := make([]byte, crowdPutSize)
	return func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		target := all[binary.LittleEndian.Uint32(data)].write.Handle()
		n.kept = append(n.kept, btl.Kept{})
		if err := n.mod.Keep(&n.kept[len(n.kept)-1], data); err != nil {
			n.l.t.Error(err)
		}
		for range crowdPuts {
			n.queue = append(n.queue, func() error {
				f, err := ep.PreparePutNotice(mem, target, 0, tagCrowdPut, nil)
				return n.send(ep, f, err, &n.puts)
			})
		}
		n.pump()
	}
}

// send sends what was prepared, if it was; its end is counted.
func (n *crowdNode) send(ep *btl.Endpoint, f *btl.Fragment, err error, ended *int) error {
	if err != nil {
		return err
	}
	if ended != nil {
		f.Signal = true
		f.OnDone = func(_ *btl.Fragment, err error) {
			if *ended++; err != nil {
				n.l.t.Error(err)
			}
		}
	}
	_, err = ep.Send(ep.Now(), f)
	return err
}

// pump sends what there is room for. What has none goes behind the rest, so that a peer that has no
// room keeps nobody else waiting.
func (n *crowdNode) pump() {
	for range len(n.queue) {
		try := n.queue[0]
		n.queue = n.queue[1:]
		switch err := try(); {
		case errors.Is(err, btl.ErrAgain):
			n.full++
			n.queue = append(n.queue, try)
		case err != nil:
			n.l.t.Error(err)
		}
	}
}
