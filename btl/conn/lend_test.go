package conn_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// lossyPair is a pair over the loopback device that loses, doubles and reorders datagrams. A
// datagram holds a whole message there, so that large Writes lend their memory.
func lossyPair(t *testing.T) *pair {
	t.Helper()
	seed := testenv.Seed(t, 0)
	return newPair(t, func(cfg fabric.DomainConfig) (fabric.Domain, fabric.Info, error) {
		infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
		if err != nil || cfg == (fabric.DomainConfig{}) {
			return nil, infos[0], err
		}
		d, err := impair.Open(infos[0], impair.Reserve(cfg), impair.Faults{
			Seed: seed, Loss: .02, Dup: .02, Reorder: .1,
		})
		return d, infos[0], err
	}, conn.Config{}, btl.Config{})
}

// fillRandomly fills b with random bytes.
func fillRandomly(random *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(random.Uint32())
	}
}

// The memory of a Write belongs to the caller when Write has returned: what the caller puts there
// afterwards is never sent, though packets are lost and sent again. A Write with a deadline lends
// nothing.
func TestWriteMemory(t *testing.T) {
	p := lossyPair(t)
	c1, c2 := p.dial(t)
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 1))
	var want []byte
	write := func() {
		for range 12 {
			b := make([]byte, 100_000+random.IntN(1<<20))
			fillRandomly(random, b)
			want = append(want, b...)
			if n, err := c1.Write(b); n != len(b) || err != nil {
				t.Error(n, err)
			}
			clear(b)
		}
	}
	got := make(chan []byte, 1)
	go func() {
		all, err := io.ReadAll(c2)
		if err != nil {
			t.Error(err)
		}
		got <- all
	}()
	write()
	if p.client.Lent() == 0 {
		t.Error("no memory of a Write was lent")
	}
	must(t, c1.SetWriteDeadline(time.Now().Add(time.Hour)))
	write()
	if n := p.client.Lent(); n > 0 {
		t.Errorf("%d messages of Writes with a deadline were lent", n)
	}
	must(t, c1.CloseWrite())
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes are not the %d that were written", len(all), len(want))
	}
}

// A Write that a deadline ends early returns its memory too: all bytes that it has counted arrive
// as they were before.
func TestWriteMemoryAfterDeadline(t *testing.T) {
	p := lossyPair(t)
	random := rand.New(rand.NewPCG(testenv.Seed(t, 2), 2))
	cut := 0
	for range 20 {
		c1, c2 := p.dial(t)
		b := make([]byte, 4<<20)
		fillRandomly(random, b)
		want := bytes.Clone(b)
		pause, resume := random.IntN(1<<20), make(chan struct{})
		got := make(chan []byte, 1)
		go func() {
			head := make([]byte, pause)
			if _, err := io.ReadFull(c2, head); err != nil {
				t.Error(err)
			}
			if err := c1.SetWriteDeadline(time.Now()); err != nil {
				t.Error(err)
			}
			<-resume
			rest, err := io.ReadAll(c2)
			if err != nil {
				t.Error(err)
			}
			got <- append(head, rest...)
		}()
		n, err := c1.Write(b)
		clear(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(n, err)
		}
		if n < len(b) {
			cut++
		}
		must(t, c1.CloseWrite())
		close(resume)
		if all := <-got; !bytes.Equal(all, want[:n]) {
			t.Fatalf("%d bytes are not the %d that were written", len(all), n)
		}
		must(t, c1.Close())
		must(t, c2.Close())
	}
	if lent := p.client.Lent(); cut == 0 || lent == 0 {
		t.Errorf("%d Writes were cut, %d messages lent", cut, lent)
	}
}

// TestLentMessages counts the messages that are sent from the memory of Writes which begin before
// the peer can acknowledge anything. A Write of little more than one message lends nothing, because
// it would wait for the peer. A Write of many messages lends all but its last ones, although the
// messages of an earlier Write are in flight.
func TestLentMessages(t *testing.T) {
	network := mem.New(mem.Config{MTUBytes: 65507})
	const window = 8 << 20
	p := newPair(t, within(network), conn.Config{WindowBytes: window}, btl.Config{})
	c1, c2 := p.dial(t)
	exchange := func(b []byte) {
		t.Helper()
		got := make([]byte, len(b))
		if _, err := io.ReadFull(c2, got); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes arrive as others, or %v", len(b), err)
		}
	}
	random := rand.New(rand.NewPCG(testenv.Seed(t, 3), 3))
	large := make([]byte, 1<<20)
	fillRandomly(random, large)
	if _, err := c1.Write(large[:1]); err != nil { // after it the size of a message is known
		t.Fatal(err)
	}
	exchange(large[:1])
	for _, tc := range []struct{ bytes, writes, least, most int }{
		{64 << 10, 1, 0, 0},
		{256 << 10, 1, 0, 0},
		{1 << 20, 1, 12, 13},
		{1 << 20, 2, 24, 26},
	} {
		p.client.Lent()
		var conns []*conn.Conn
		var all [][]byte
		for range tc.writes {
			conns, all = append(conns, c1), append(all, large[:tc.bytes])
		}
		must(t, conn.WriteAll(conns, all))
		for range tc.writes {
			exchange(large[:tc.bytes])
		}
		must(t, p.client.run.Flush(t.Context(), p.ep))
		if n := p.client.Lent(); n < tc.least || n > tc.most {
			t.Errorf("%d Writes of %d bytes lend %d messages, want %d to %d", tc.writes, tc.bytes, n,
				tc.least, tc.most)
		}
	}
}
