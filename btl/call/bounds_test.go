package call_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// A peer that asks and takes no answers keeps no more goroutines and bytes than it may; each of its
// calls is answered when it takes answers again.
func TestAnswersNotTaken(t *testing.T) {
	const answerBytes, answersMax, requests = 100_000, 10, 1000 // as many as may be under way
	net := mem.New(mem.Config{})
	const patient = time.Minute // the client stands still until the server's goroutines are over
	client := openWith(t, net, call.Config{}, btl.Config{PeerTimeout: patient})
	server := openWith(t, net, call.Config{AnswerBytes: answersMax * answerBytes},
		btl.Config{FragmentsMax: 16, PeerTimeout: patient})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	var gate sync.RWMutex
	var entered, left atomic.Int64
	server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		entered.Add(1)
		defer left.Add(1)
		gate.RLock()
		defer gate.RUnlock()
		return make([]byte, answerBytes), nil
	})
	before := runtime.NumGoroutine()
	heap := heapBytes()
	// All have begun before anything comes back; the handlers end when the client stands still.
	gate.Lock()
	err = client.run.Do(t.Context(), func(m *btl.Module) error {
		begin, at := time.Now(), m.Now()
		for id := uint64(1); entered.Load() < requests && time.Since(begin) < patient; {
			now := at.Add(time.Since(begin))
			if id > requests { // some have not left yet
				runtime.Gosched()
			} else if err := sendRequest(peer, now, id); err == nil {
				id++
			} else if !errors.Is(err, btl.ErrAgain) {
				return err
			}
			if _, err := m.Progress(now); err != nil {
				return err
			}
		}
		gate.Unlock()
		await(t, "them to end, and to keep no more than they may", func() bool {
			return left.Load() == requests &&
				runtime.NumGoroutine()-before < 2*answersMax+20 &&
				int64(heapBytes()-heap) < 8*answersMax*answerBytes
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "an answer, when the client takes them again", func() bool {
		a, err := client.Call(t.Context(), peer, 1, nil)
		if err != nil && !errors.Is(err, call.ErrBusy) && !errors.Is(err, call.ErrAnswerRoom) {
			t.Errorf("afterwards: %v", err)
		}
		return err == nil && len(a) == answerBytes
	})
}

// sendRequest sends a request of method 1 as a foreign program would.
func sendRequest(peer *btl.Endpoint, now btl.Time, id uint64) error {
	f, err := peer.Alloc(tag, 16)
	if err != nil {
		return err
	}
	clear(f.Bytes())
	binary.LittleEndian.PutUint64(f.Bytes(), 1<<32+id)
	f.Bytes()[12], f.Bytes()[14] = 1, 1
	if _, err = peer.Send(now, f); err != nil {
		return errors.Join(err, peer.Free(f))
	}
	return nil
}

// await waits for something.
func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ready(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("still waiting for %s: %d goroutines, %d KiB", what, runtime.NumGoroutine(),
				heapBytes()>>10)
			return
		}
	}
}

// Requests under way are bounded in bytes. TestSharesByHost tests the bounds of hosts and of all.
func TestRequestBytes(t *testing.T) {
	const bound, size = 400_000, 100_000
	net := mem.New(mem.Config{})
	server := open(t, net, call.Config{RequestBytes: bound})
	entered, goOn := make(chan struct{}, 100), make(chan struct{})
	server.Handle(1, func(ctx context.Context, _ *btl.Endpoint, q []byte) ([]byte, error) {
		entered <- struct{}{}
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return q[:1], nil
	})
	const peers, perPeer, all = 9, bound / size, 8 * bound / size
	var ended sync.WaitGroup
	clients := make([]*side, peers)
	eps := make([]*btl.Endpoint, peers)
	for i := range peers {
		clients[i] = open(t, net, call.Config{})
		ep, err := clients[i].run.Connect(t.Context(), server.name)
		if err != nil {
			t.Fatal(err)
		}
		eps[i] = ep
	}
	for round := range 2 { // what has ended is not counted any more
		for i := range all {
			ended.Go(func() {
				c := i / perPeer
				a, err := clients[c].Call(t.Context(), eps[c], 1, bytes.Repeat([]byte{9}, size))
				if err != nil || !bytes.Equal(a, []byte{9}) {
					t.Errorf("round %d: a call within the bounds: %v", round, err)
				}
			})
			<-entered
			if i == perPeer-1 {
				_, err := clients[0].Call(t.Context(), eps[0], 1, make([]byte, size))
				if !errors.Is(err, call.ErrBusy) {
					t.Errorf("round %d: a call beyond the bound of a peer: %v", round, err)
				}
			}
		}
		for i, c := range []int{0, 3} {
			_, err := clients[c].Call(t.Context(), eps[c], 1, make([]byte, size))
			if !errors.Is(err, call.ErrBusy) {
				t.Errorf("round %d: call %d beyond the bounds: %v", round, i, err)
			}
		}
		_, err := clients[0].Call(t.Context(), eps[0], 1, make([]byte, bound+1))
		if !errors.Is(err, call.ErrRequestSize) {
			t.Errorf("a request larger than all of them may be: %v", err)
		}
		small, cancel := context.WithCancel(t.Context())
		ended.Go(func() {
			_, err := clients[peers-1].Call(small, eps[peers-1], 1, make([]byte, 1000))
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("a small call of a peer that has none under way: %v", err)
			}
		})
		<-entered
		cancel()
		for range all {
			goOn <- struct{}{}
		}
		ended.Wait()
	}
}
