package call_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
)

// aheadMost is how much of a body may be on its way: a window of chunks, one that waits for its
// turn, and one at each end.
const aheadMost = 11 * 128 << 10

// counted counts what is read, or written.
type counted struct {
	io.Reader
	io.Writer
	bytes atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// A body of any size comes whole and in order, both ways at once, though neither side may hold more
// than a part of it.
func TestStream(t *testing.T) {
	client, server, peer := two(t, call.Config{RequestBytes: 2 << 20, AnswerBytes: 2 << 20})
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, r io.Reader, w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	for _, size := range []int64{0, 1, 128 << 10, 1<<20 + 7, 24 << 20} {
		sent, got := sha256.New(), sha256.New()
		from := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), size), sent)
		to := &counted{Writer: got}
		if err := client.CallStream(t.Context(), peer, 1, from, to); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if to.bytes.Load() != size || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			t.Errorf("%d bytes are answered with %d others", size, to.bytes.Load())
		}
	}
}

// Who does not read is waited for: no more than a window is on its way, in either direction; other
// calls go on meanwhile.
func TestStreamPauses(t *testing.T) {
	const size, settle = 8 << 20, 100 * time.Millisecond
	client, server, peer := two(t, call.Config{})
	read, write := make(chan struct{}), make(chan struct{})
	written := &counted{}
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, r io.Reader, w io.Writer) error {
		<-read
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
		written.Writer = w
		_, err := io.CopyN(written, endless{}, size)
		return err
	})
	server.HandleInline(2, func(_ *btl.Endpoint, _, a []byte) ([]byte, error) { return a, nil })
	from := &counted{Reader: io.LimitReader(endless{}, size)}
	to := &counted{Writer: writerFunc(func(p []byte) (int, error) {
		<-write
		return len(p), nil
	})}
	ended := make(chan error, 1)
	go func() { ended <- client.CallStream(t.Context(), peer, 1, from, to) }()
	for _, phase := range []struct {
		name string
		on   *counted
		open chan struct{}
	}{{"sent", from, read}, {"answered", written, write}} {
		for phase.on.bytes.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		for begun := time.Now(); time.Since(begun) < settle; {
			if _, err := client.Call(t.Context(), peer, 2, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := phase.on.bytes.Load(); n > aheadMost {
			t.Errorf("%d bytes are %s that nobody has read", n, phase.name)
		}
		close(phase.open)
	}
	if err := <-ended; err != nil || from.bytes.Load() != size || to.bytes.Load() != size {
		t.Errorf("%v, %d bytes sent, %d answered", err, from.bytes.Load(), to.bytes.Load())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A stream ends with its context at both sides, wherever it is; so does one whose Node closes.
func TestStreamEnds(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	entered, left := make(chan struct{}, 1), make(chan error, 1)
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, r io.Reader, _ io.Writer) error {
		entered <- struct{}{}
		_, err := io.Copy(io.Discard, r)
		left <- err
		return err
	})
	server.HandleStream(2, func(_ context.Context, _ *btl.Endpoint, _ io.Reader, w io.Writer) error {
		entered <- struct{}{}
		_, err := io.Copy(w, endless{})
		left <- err
		return err
	})
	for method := uint16(1); method <= 2; method++ {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- client.CallStream(ctx, peer, method, endless{}, nil) }()
		<-entered
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("method %d, cancelled: %v", method, err)
		}
		select {
		case err := <-left:
			if err == nil {
				t.Errorf("method %d: the handler has not noticed the end", method)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("method %d: the handler is not told of the end", method)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
		err := client.CallStream(ctx, peer, method, endless{}, nil)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("method %d, late: %v", method, err)
		}
		<-entered
		if err := <-left; err == nil {
			t.Errorf("method %d: the handler has learned of no deadline", method)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- client.CallStream(t.Context(), peer, 1, endless{}, nil) }()
	<-entered
	if err := server.Node.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a stream outlives its server's Node")
	}
	<-left
}

// What goes wrong at either side is told, behind what was written before it; who has read enough
// may answer without the rest.
func TestStreamErrors(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	server.HandleStream(1, func(_ context.Context, _ *btl.Endpoint, _ io.Reader, w io.Writer) error {
		_, err := io.WriteString(w, "a part")
		return errors.Join(err, errors.New("broken"))
	})
	server.HandleStream(2, func(_ context.Context, _ *btl.Endpoint, r io.Reader, w io.Writer) error {
		_, err := io.CopyN(w, r, 1<<20)
		return err
	})
	server.HandleStream(3, func(_ context.Context, _ *btl.Endpoint, r io.Reader, _ io.Writer) error {
		_, err := io.Copy(io.Discard, r)
		return err
	})
	var got bytes.Buffer
	err := client.CallStream(t.Context(), peer, 1, endless{}, &got)
	if want := call.RemoteError("broken"); !errors.Is(err, want) || got.String() != "a part" {
		t.Errorf("%q, then %v", got.String(), err)
	}
	got.Reset()
	if err := client.CallStream(t.Context(), peer, 2, endless{}, &got); err != nil ||
		got.Len() != 1<<20 {
		t.Errorf("%d bytes of an answer, then %v", got.Len(), err)
	}
	own := errors.New("own")
	if err := client.CallStream(t.Context(), peer, 3, io.MultiReader(
		bytes.NewReader(make([]byte, 1<<20)), readerFunc(func([]byte) (int, error) { return 0, own }),
	), nil); !errors.Is(err, own) {
		t.Errorf("what cannot be read: %v", err)
	}
	if err := client.CallStream(t.Context(), peer, 2, endless{},
		writerFunc(func([]byte) (int, error) { return 0, own })); !errors.Is(err, own) {
		t.Errorf("what cannot be written: %v", err)
	}
	if err := client.CallStream(t.Context(), peer, 9, nil, nil); !errors.Is(err, call.ErrMethod) {
		t.Errorf("no method: %v", err)
	}
	for _, junk := range [][]byte{
		nil, make([]byte, 15), make([]byte, 16), {2, 2, 0, 0, 15: 0}, {9, 15: 0},
	} {
		if _, err := client.Call(t.Context(), peer, 1, junk); err == nil {
			t.Errorf("%x is taken for a stream", junk)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// One peer has no more than so many streams open; the next one is told.
func TestStreamsBounded(t *testing.T) {
	const most = 256
	client, server, peer := two(t, call.Config{Concurrent: 1 << 13, RequestBytes: 1 << 30})
	leave := make(chan struct{})
	server.HandleStream(1, func(context.Context, *btl.Endpoint, io.Reader, io.Writer) error {
		<-leave
		return nil
	})
	ended := make(chan error, most)
	var begun atomic.Int32
	for range most {
		go func() {
			ended <- client.CallStream(t.Context(), peer, 1, readerFunc(func([]byte) (int, error) {
				begun.Add(1)
				return 0, io.EOF
			}), nil)
		}()
	}
	for begun.Load() < most {
		time.Sleep(time.Millisecond)
	}
	if err := client.CallStream(t.Context(), peer, 1, nil, nil); !errors.Is(err, call.ErrBusy) {
		t.Errorf("stream %d: %v", most+1, err)
	}
	close(leave)
	for range most {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := client.CallStream(t.Context(), peer, 1, nil, nil); err != nil {
		t.Errorf("when all are over: %v", err)
	}
}
