package fabrictest

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
)

func checkClosed(t *testing.T, q *port, to fabric.Addr) {
	t.Helper()
	var out [4]fabric.Completion
	send := []fabric.Send{{To: to, Len: 8}}
	for range 2 {
		if n, err := q.ep.Post(send); n != 0 || !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("Post after Close: %d, %v, want ErrClosed", n, err)
		}
		if n, err := q.ep.Poll(out[:]); n != 0 || !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("Poll after Close: %d, %v, want ErrClosed", n, err)
		}
		if n, err := q.ep.Recv([]fabric.Buf{0}); n != 0 || !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("Recv after Close: %d, %v, want ErrClosed", n, err)
		}
		q.ep.Caps()
		q.ep.Name()
		closeAgain(t, "endpoint", q.ep.Close())
	}
}

func closeAgain(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("closing the %s again: %v, want nil or ErrClosed", what, err)
	}
}

func testCloseEndpoint(t *testing.T, f *Fixture) {
	p, other := newParty(t, f, fabric.DomainConfig{}), newPort(t, f)
	q, sibling := p.open(f.Endpoint), p.open(f.Endpoint)
	to := p.insert(other)
	toQ := other.insert(q)
	if err := q.ep.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	checkClosed(t, q, to)
	other.tolerant = true
	other.stock(2)
	for range 3 {
		if _, err := other.post([]fabric.Send{other.load(toQ, pattern(1, 64))}); err != nil {
			t.Logf("Post to a closed endpoint: %v", err)
		}
		other.poll(batchMax)
	}
	other.tolerant = false
	sibling.send(to, []byte("sibling"))
	other.expect([]byte("sibling"))
}

func testCloseDomain(t *testing.T, f *Fixture) {
	p, other := newParty(t, f, fabric.DomainConfig{}), newPort(t, f)
	q, closedEarlier := p.open(f.Endpoint), p.open(f.Endpoint)
	to := p.insert(other)
	q.stock(3)
	if err := closedEarlier.ep.Close(); err != nil {
		t.Fatalf("Close of an endpoint: %v", err)
	}
	if err := p.dom.Close(); err != nil {
		t.Fatalf("Close of the domain: %v", err)
	}
	checkClosed(t, q, to)
	checkClosed(t, closedEarlier, to)
	for range 2 {
		_, openErr := p.dom.OpenEndpoint(f.Endpoint)
		_, insertErr := p.dom.Insert(other.ep.Name())
		for _, call := range []struct {
			name string
			err  error
		}{
			{"OpenEndpoint", openErr}, {"Insert", insertErr}, {"Remove", p.dom.Remove(to)},
		} {
			if !errors.Is(call.err, fabric.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed", call.name, call.err)
			}
		}
		_, err := p.dom.RegisterRegion(make([]byte, 16))
		lacking := !q.caps.Gather && errors.Is(err, fabric.ErrNotSupported)
		if !errors.Is(err, fabric.ErrClosed) && !lacking {
			t.Errorf("RegisterRegion after Close: %v, want ErrClosed", err)
		}
		if err := p.dom.DeregisterRegion(1); err == nil {
			t.Error("DeregisterRegion after Close succeeds")
		}
		if w, ok := p.dom.(fabric.Waiter); ok {
			w.Wake()
			if err := w.Wait(time.Millisecond); !errors.Is(err, fabric.ErrClosed) {
				t.Errorf("Wait after Close: %v, want ErrClosed", err)
			}
		}
		p.dom.Info()
		closeAgain(t, "domain", p.dom.Close())
	}
}

// testCloseDomainHeld closes a domain while another goroutine holds and reads the arena.
func testCloseDomainHeld(t *testing.T, f *Fixture) {
	p := newParty(t, f, fabric.DomainConfig{})
	p.open(f.Endpoint)
	arena := p.dom.Arena()
	held := arena.Bytes(1)
	copy(held, "held")
	arena.Hold()
	arena.Hold()
	done, end := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if string(held[:4]) != "held" {
				t.Errorf("%q is held", held[:4])
				return
			}
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	if err := p.dom.Close(); err != nil {
		t.Errorf("Close of the domain: %v", err)
	}
	arena.Drop()
	close(end)
	<-done
	arena.Drop()
}

// testCloseWithPostedBuffers closes an endpoint while receive buffers are posted and completions of
// sends have not been polled.
func testCloseWithPostedBuffers(t *testing.T, f *Fixture) {
	p, other := newParty(t, f, fabric.DomainConfig{Buffers: 12}), newPort(t, f)
	other.tolerant = true // one send in each round goes to an endpoint that closes
	to := p.insert(other)
	if room := other.burstRoom(); room < 2 {
		t.Skipf("%s: holds %d datagrams unread", f.Name, room)
	}
	for i := range uint64(5) {
		q := p.open(f.Endpoint)
		q.stock(min(8, q.caps.RxDepth))
		other.stock(3)
		want := [][]byte{pattern(i, 10), pattern(i+100, q.caps.MTUBytes)}
		q.send(to, want[0])
		if _, err := q.post([]fabric.Send{q.load(to, want[1])}); err != nil {
			t.Fatalf("Post: %v", err)
		}
		other.expect(want...)
		other.send(other.insert(q), []byte("arrives in a posted buffer, is never polled"))
		if err := q.ep.Close(); err != nil {
			t.Fatalf("Close with buffers posted: %v", err)
		}
		p.reclaim(q)

		next := p.open(f.Endpoint)
		next.stock(min(8, next.caps.RxDepth))
		answer := pattern(i+200, 44)
		other.send(other.insert(next), answer)
		next.expect(answer)
		if err := next.ep.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		p.reclaim(next)
		other.settle()
		for n, c := range other.spoiled {
			if n > 0 || c.Op != fabric.OpSend {
				t.Fatalf("failed besides the send to the endpoint that closed: %+v", c)
			}
		}
		other.spoiled = nil
		if got := len(p.free); got != 12 {
			t.Fatalf("%d of 12 buffers free after Close", got)
		}
	}
}

func (p *party) reclaim(q *port) {
	for b, o := range p.owner {
		if o.port == q {
			p.owner[b] = owner{}
			p.give(fabric.Buf(b))
		}
	}
}

func testReopenEndpoint(t *testing.T, f *Fixture) {
	p, other := newParty(t, f, fabric.DomainConfig{}), newPort(t, f)
	to := p.insert(other)
	for i := range uint64(10) {
		q := p.open(f.Endpoint)
		q.stock(2)
		other.stock(1)
		there, here := pattern(i, 60), pattern(^i, 70)
		q.send(to, there)
		other.expect(there)
		back := other.insert(q)
		other.send(back, here)
		q.expect(here)
		q.settle()
		if err := other.dom.Remove(back); err != nil {
			t.Fatal(err)
		}
		if err := q.ep.Close(); err != nil {
			t.Fatal(err)
		}
		p.reclaim(q)
	}
}

// testReopenDomain closes and opens a client domain many times, while one server domain stays open,
// like the test "rdm_multi_client" in fabtests (libfabric's test suite).
func testReopenDomain(t *testing.T, f *Fixture) {
	server := newPort(t, f)
	for i := range uint64(10) {
		client := newPort(t, f)
		client.stock(1)
		server.stock(1)
		there, here := pattern(i, 60), pattern(^i, 70)
		client.send(client.insert(server), there)
		server.expect(there)
		server.send(server.insert(client), here)
		client.expect(here)
		if err := client.dom.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
