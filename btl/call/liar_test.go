package call_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// streamAnswerMost is the size of the largest answer to a pull of a stream.
const streamAnswerMost = 1 + 128<<10

// liar makes a server whose method 1 answers each call of a stream as the function "answer" says.
// The arguments of this function are the kind of the call, from 1 (open) to 4 (end), and the number
// of the push or pull.
func liar(t *testing.T, answer func(kind, number byte) []byte) (client *side, peer *btl.Endpoint) {
	t.Helper()
	net := mem.New(mem.Config{})
	server := open(t, net, call.Config{AnswerBytes: 8 << 30})
	client = open(t, net, call.Config{})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	server.Handle(1, func(_ context.Context, _ *btl.Endpoint, q []byte) ([]byte, error) {
		return answer(q[0], q[4]), nil
	})
	return client, peer
}

// A server that answers each pull of a stream by as much as a message may have ends the stream, and
// the client keeps none of these answers.
func TestStreamChunksOfServer(t *testing.T) {
	lie := make([]byte, 8<<20)
	client, peer := liar(t, func(kind, _ byte) []byte {
		if kind == 3 {
			return lie
		}
		return nil
	})
	taken := 0
	err := client.CallStream(t.Context(), peer, 1, nil, writerFunc(func(p []byte) (int, error) {
		taken = len(p)
		return 0, errors.New("enough")
	}))
	if !errors.Is(err, call.ErrAnswerSize) || taken != 0 {
		t.Errorf("%v, a chunk of %d bytes is taken", err, taken)
	}
}

// The largest chunk of a stream is taken, and a byte more is not, of any call of the stream.
func TestStreamChunkBound(t *testing.T) {
	for kind := byte(1); kind <= 3; kind++ {
		for _, more := range []int{0, 1} {
			client, peer := liar(t, func(k, number byte) []byte {
				switch {
				case k == kind && number == 0:
					return make([]byte, streamAnswerMost+more)
				case k == 3:
					time.Sleep(100 * time.Millisecond) // the pushes are answered first
					return []byte{1}
				}
				return nil
			})
			var got bytes.Buffer
			err := client.CallStream(t.Context(), peer, 1, strings.NewReader("x"), &got)
			if more == 0 && err != nil || more > 0 && !errors.Is(err, call.ErrAnswerSize) {
				t.Errorf("kind %d, %d bytes too many: %v", kind, more, err)
			}
			if want := streamAnswerMost - 1; kind == 3 && more == 0 && got.Len() != want {
				t.Errorf("%d bytes, want %d", got.Len(), want)
			}
		}
	}
}

// The text of a server's error is shortened, and printed as one printable line. Programs get the
// shortened text as it is.
func TestTextOfServer(t *testing.T) {
	net := mem.New(mem.Config{})
	server, client := open(t, net, call.Config{}), open(t, net, call.Config{})
	peer, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	server.Handle(1, func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
		return nil, errors.New(text)
	})
	ask := func() (remote call.RemoteError) {
		t.Helper()
		if _, err := client.Call(t.Context(), peer, 1, nil); !errors.As(err, &remote) {
			t.Fatal(err)
		}
		return remote
	}
	text = "no\x1b[2J such\nkey"
	if e := ask(); string(e) != text || e.Error() != "call: remote: no [2J such key" {
		t.Errorf("%q, printed as %q", string(e), e.Error())
	}
	text = strings.Repeat("x", 4<<10)
	if e := ask(); string(e) != text || len(e.Error()) > 400 {
		t.Errorf("%d bytes, %d printed", len(e), len(e.Error()))
	}
	text = "x" + strings.Repeat("ü", 1<<20)
	if e := ask(); !strings.HasPrefix(text, string(e)) || !utf8.ValidString(string(e)) ||
		len(e) > 4<<10 || len(e) < 4<<10-1 {
		t.Errorf("%d bytes", len(e))
	}
}
