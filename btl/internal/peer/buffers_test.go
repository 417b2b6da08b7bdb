package peer

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/reliability"
)

// TestPathUncoalesced: it is noted of each packet whether another one to its peer left beside it.
func TestPathUncoalesced(t *testing.T) {
	r := newRig(t, 3, nil)
	a, b, st := r.connect(0, 1), r.connect(0, 2), r.stations[0]
	r.steps(30, 10*time.Millisecond)
	for _, tc := range []struct {
		to   []*Endpoint
		want int
	}{{[]*Endpoint{a}, 1}, {[]*Endpoint{a, b}, 2}, {[]*Endpoint{a, a}, 0}, {[]*Endpoint{a, a, b}, 1}} {
		c, uncoalesced := &st.Port.Data, 0
		for _, ep := range tc.to { // an empty datagram, from a free send buffer of its own
			c.Put(fabric.Buf(st.Buffers.FreeSegs[len(c.Batch)]), 0, ep.dataAddr)
		}
		c.Post()
		st.Buffers.SettleSends()
		for i := range tc.to {
			if st.Port.Uncoalesced[fabric.Buf(st.Buffers.FreeSegs[i])] {
				uncoalesced++
			}
		}
		if uncoalesced != tc.want {
			t.Errorf("%d of %d packets count as sent uncoalesced, want %d", uncoalesced, len(tc.to), tc.want)
		}
	}
}

// A packet that the fabric could not take yet waits without its region when that is closed.
func TestAnswerWaitsWithoutRegion(t *testing.T) {
	const mtu = 6000
	r := newRig(t, 2, func(cfg *rigConfig) {
		cfg.net.MTUBytes, cfg.net.InjectBytes, cfg.ports.DataBytes = mtu, mtu, mtu
	})
	ep, st := r.connect(0, 1), r.stations[0]
	r.steps(30, 10*time.Millisecond)
	ep.UseSize(mtu) // as behind a search for the path MTU
	r.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	memory := make([]byte, 50_000)
	for i := range memory {
		memory[i] = byte(i*7 + i>>8)
	}
	region := new(Region)
	st.Remote.Expose(region, memory, remote.Read, nil, 1)
	ep.Memory()
	st.Sender.SendGetReply(ep, region, 5, &frag.Get{Answer: 9, SizeBytes: uint32(len(memory))})
	gathered := func(s SendSegment) bool { return s.gatherLen > 0 }
	for range 100 {
		if slices.ContainsFunc(st.Buffers.segs, gathered) {
			break
		}
		st.Sender.Serve()
	}
	i := slices.IndexFunc(st.Buffers.segs, gathered)
	if i < 0 {
		t.Fatal("the answer is not read in place")
	}
	s := st.Buffers.segs[i]
	want := bytes.Clone(memory[s.gatherAt:][:s.gatherLen])
	st.Buffers.putSegment(&st.Port.Data, reliability.Token(fabric.Buf(i)), ep.dataAddr)
	st.Endings.Withdraw(region)
	clear(memory) // by its owner
	p := &st.Port.Data.Batch[len(st.Port.Data.Batch)-1]
	b := st.Port.Arena.Bytes(p.Buf)[:p.Len]
	if p.Region != 0 || p.RegionLen != 0 || p.Len != s.bytes || !bytes.HasSuffix(b, want) {
		t.Errorf("%+v waits, of %d bytes", *p, s.bytes)
	}
}
