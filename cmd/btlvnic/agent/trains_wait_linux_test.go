package agent

import (
	"bytes"
	"testing"
	"time"

	"gobtl/vnic"
	"gobtl/vnic/offload"
)

// frameOnce is a device with a single frame.
type frameOnce struct {
	fakeQueue
	frame []byte
}

func (q *frameOnce) Read(b []byte) (offload.Header, int, error) {
	n := copy(b, q.frame)
	q.frame = nil
	return offload.Header{}, n, nil
}

// TestTrainsOfOneFrame sends a frame to two hosts while the queue of trains is full. Meanwhile a
// receiver's thread reads a frame of another port, which must not get into the trains.
func TestTrainsOfOneFrame(t *testing.T) {
	a := newAgent(t)
	s := a.senders[0]
	other := []byte("another")
	q := &frameOnce{frame: bytes.Repeat(other, 20)}
	s.outlets = []*outlet{{
		port: &port{num: 2}, queue: q, out: vnic.NewEgress(nil, nil, nil, 1), mtuBytes: 1500,
	}}
	for range trainsWaiting {
		a.trains <- &train{}
	}
	o := &outlet{port: &port{num: 1}, out: vnic.NewEgress(nil, nil, nil, 1), mtuBytes: 1500}
	s.mu.Lock()
	n := copy(s.frame, bytes.Repeat([]byte("b"), 100))
	if err := s.splits.Begin(s.frame[:n], offload.Header{}); err != nil {
		t.Fatal(err)
	}
	tables := &vnic.Tables{Members: []uint32{2, 3}}
	tables.Info.EncapSLID = 1
	d := &vnic.Decision{Verdict: vnic.ToGroup, Header: vnic.Header{SLID: 1, VESW: 1}}
	done := make(chan struct{})
	go func() {
		s.trains(o, tables, d)
		s.mu.Unlock()
		close(done)
	}()
	for q.frame != nil {
		time.Sleep(time.Millisecond)
		a.receivers[0].twin.turn()
	}
	for i := range trainsWaiting + 2 {
		tr := <-a.trains
		if i < trainsWaiting {
			continue
		}
		if bytes.Contains(tr.mem, other) || !bytes.Contains(tr.mem, []byte("bbbb")) {
			t.Errorf("the train to %d has the frame of another port", tr.to)
		}
	}
	<-done
}
