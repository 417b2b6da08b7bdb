package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// fill writes 8 KiB in one burst to a peer that reads nothing and keeps 4 KiB unread. The bytes
// that the peer's window has no room for are left in the buffer. fill returns how many bytes it
// has written.
func fill(t *testing.T, c *conn.Conn) (sum int) {
	t.Helper()
	b := make([]byte, 64)
	for sum < 8<<10 {
		if !c.WriteInBurst(b) {
			t.Fatalf("a Write of a burst is not buffered after %d bytes", sum)
		}
		sum += len(b)
	}
	eventually(t, "the window to be full", func() bool { return c.Unsent() <= sum-4096 })
	return sum
}

// What was written before a Node closes arrives, though it had to wait for the reader then, with
// the end of the stream behind it.
func TestNodeCloseSendsAll(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 4096}, btl.Config{})
	c1, c2 := p.dial(t)
	want := fill(t, c1)
	must(t, c1.Close())
	ended := make(chan error, 1)
	go func() {
		ended <- errors.Join(p.client.Node.Close(t.Context()), p.client.run.Close(t.Context()))
	}()
	eventually(t, "Close to begin", func() bool {
		_, err := p.client.Dial(t.Context(), p.ep, "service")
		return err != nil
	})
	if got, err := io.Copy(io.Discard, c2); int(got) != want || err != nil {
		t.Errorf("%d of %d bytes, %v", got, want, err)
	}
	must(t, <-ended)
}

// The memory for small Writes of a Conn that is closed is given back: when the bytes have left, or
// when nobody wants them any more.
func TestClosedConnGivesBuffersBack(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 4096}, btl.Config{})
	read, _ := p.dial(t)
	unread, far := p.dial(t)
	fill(t, unread)
	for range 100 {
		_, err := read.Write(make([]byte, 8))
		must(t, err)
	}
	must(t, errors.Join(read.Close(), unread.Close()))
	eventually(t, "bytes to leave", func() bool { return !read.Buffers() })
	if !unread.Buffers() {
		t.Error("bytes that wait for their reader are lost")
	}
	must(t, far.Close())
	eventually(t, "bytes to be dropped", func() bool { return !unread.Buffers() })
}

// A peer that reads nothing does not keep a Node from closing.
func TestNodeCloseBesideUnread(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{WindowBytes: 4096}, btl.Config{})
	c1, _ := p.dial(t)
	fill(t, c1)
	must(t, p.client.Node.Close(context.Background()))
}

// A Node that closes ends the Dials that wait, though the peer does not answer them.
func TestNodeCloseEndsDials(t *testing.T) {
	with := within(mem.New(mem.Config{}))
	client := open(t, with, conn.Config{}, btl.Config{})
	server := open(t, with, conn.Config{Tag: tag + 1}, btl.Config{})
	ep, err := client.run.Connect(t.Context(), server.name)
	must(t, err)
	asked := make(chan struct{}, 1)
	must(t, server.run.Do(t.Context(), func(m *btl.Module) error {
		return m.Handle(tag, func(*btl.Endpoint, btl.Tag, []byte) { asked <- struct{}{} })
	}))
	ended := make(chan error, 1)
	go func() {
		c, err := client.Dial(t.Context(), ep, "service")
		if c != nil {
			err = errors.New("a Conn")
		}
		ended <- err
	}()
	<-asked
	must(t, client.Node.Close(t.Context()))
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// An error that only wraps io.EOF is an error for who copies into a Conn, or from one.
func TestCopyOfWrappedEnd(t *testing.T) {
	c1, _ := newPair(t, within(mem.New(mem.Config{})), conn.Config{}, btl.Config{}).dial(t)
	cut := fmt.Errorf("cut in the middle: %w", io.EOF)
	if n, err := c1.ReadFrom(brokenReader{cut}); n != 0 || !errors.Is(err, cut) {
		t.Error(n, err)
	}
}
