package conn_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// bursts writes a stream in Writes of all sizes, with a pause now and then, and returns it.
func bursts(t *testing.T, c *conn.Conn, random *rand.Rand) []byte {
	t.Helper()
	var all []byte
	for i := range 4000 {
		size := 1 + random.IntN(40)
		switch random.IntN(100) {
		case 0:
			size = random.IntN(200_000)
		case 1:
			size = random.IntN(5000)
		case 2:
			runtime.Gosched()
		case 3:
			must(t, c.SetNoDelay(random.IntN(2) == 0))
		}
		b := make([]byte, size)
		for k := range b {
			b[k] = byte(i + k)
		}
		if n, err := c.Write(b); n != size || err != nil {
			t.Error(n, err)
			return nil
		}
		all = append(all, b...)
	}
	return all
}

// What is written in bursts arrives in order, all of it, also if the Conn is closed at once, and
// over a network that loses packets and lets them overtake each other.
func TestBursts(t *testing.T) {
	seed := testenv.Seed(t, 0)
	p := overNetwork(t, conn.Config{WindowBytes: 64 << 10})
	for i := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, i))
		c1, c2 := p.dial(t)
		got := make(chan []byte, 1)
		go func() {
			all, err := io.ReadAll(c2)
			if err != nil {
				t.Error(err)
			}
			got <- all
		}()
		want := bursts(t, c1, random)
		if i%2 == 0 {
			must(t, c1.CloseWrite())
		} else {
			must(t, c1.Close())
		}
		if all := <-got; !bytes.Equal(all, want) {
			t.Fatalf("%d bytes are not the %d that were written", len(all), len(want))
		}
		_ = c1.Close()
		must(t, c2.Close())
	}
	eventually(t, "Conns to be over", func() bool {
		return p.client.Conns() == 0 && p.server.Conns() == 0
	})
}

// What a burst has left in the buffer leaves though its goroutine calls nothing any more, and the
// other side acknowledges nothing.
func TestBurstLeaves(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{}, btl.Config{})
	c1, c2 := p.dial(t)
	for round := range 20 {
		silent, goOn, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			over <- p.server.run.Do(t.Context(), func(*btl.Module) error {
				close(silent)
				<-goOn
				return nil
			})
		}()
		<-silent
		var want []byte
		for i := range 100 {
			b := []byte{byte(round), byte(i)}
			must2(t)(c1.Write(b))
			want = append(want, b...)
		}
		eventually(t, "the burst to leave", func() bool { return c1.Unsent() == 0 })
		close(goOn)
		must(t, <-over)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c2, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// A writer whose peer does not read is stopped, in a burst too: what is under way is the window and
// what the buffer holds. A deadline ends its wait, and all that a Write has told to be written can
// be read.
func TestBurstStops(t *testing.T) {
	const window, bufferBytes = 4096, 64 << 10
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: window}, btl.Config{})
	c1, c2 := p.dial(t)
	must(t, c1.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
	b, sum := make([]byte, 100), 0
	for {
		n, err := c1.Write(b)
		sum += n
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	if sum < window || sum > window+bufferBytes+len(b) {
		t.Errorf("%d bytes were written", sum)
	}
	if n, err := c1.Write(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(n, err)
	}
	must(t, c1.SetWriteDeadline(time.Time{}))
	must(t, c1.CloseWrite())
	if n, err := io.Copy(io.Discard, c2); int(n) != sum || err != nil {
		t.Errorf("%d of %d bytes, %v", n, sum, err)
	}
}

// A burst after the other side has stopped to read, or after an end, is an error at last.
func TestBurstEnds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, p *pair, c1, c2 *conn.Conn) error{
		"stop": func(t *testing.T, _ *pair, _, c2 *conn.Conn) error {
			must(t, c2.CloseRead())
			return conn.ErrStopped
		},
		"abort": func(t *testing.T, p *pair, _, _ *conn.Conn) error {
			abort(t, p)
			return btl.ErrClosed
		},
		"close": func(t *testing.T, _ *pair, c1, _ *conn.Conn) error {
			must(t, c1.Close())
			return os.ErrClosed
		},
	} {
		p := newPair(t, within(mem.New(mem.Config{})), conn.Config{}, btl.Config{})
		c1, c2 := p.dial(t)
		must2(t)(c1.Write([]byte("x")))
		want := end(t, p, c1, c2)
		var err error
		for began := time.Now(); err == nil && time.Since(began) < 30*time.Second; {
			_, err = c1.Write([]byte("x"))
		}
		if name == "close" && err == nil || name != "close" && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}
