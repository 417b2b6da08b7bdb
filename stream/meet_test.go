package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMeetingFull: as many as fit come and say nothing. Who says something is heard at once, in the
// place of the one that was silent for longest; the others keep theirs.
func TestMeetingFull(t *testing.T) {
	m, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	silent := make([]net.Conn, guestsMax)
	for i := range silent {
		if silent[i], err = net.Dial("tcp", m.Addr().String()); err != nil {
			t.Fatal(err)
		}
		defer silent[i].Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		id := Identity{Role: RoleSender, Key: 2, Name: []byte("s")}
		_, err := ExchangeAt(m.Addr().String())(ctx, id)
		got <- err
	}()
	_, err = m.Exchange(ctx, Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")})
	if err = errors.Join(err, <-got); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond)) // the read below tells
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			gone++
		}
	}
	if gone != 1 {
		t.Errorf("%d of %d that were silent were sent away, want the first one", gone, guestsMax)
	}
}

// TestStdIOOrder: the sender speaks first; a receiver asks, and says who it is when it knows its
// sender. Joined by two pipes they meet.
func TestStdIOOrder(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tx := Identity{Role: RoleSender, Key: 2, Name: []byte("s")}
	rx := Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")}
	fromTx, toRx := osPipe(t)
	fromRx, toTx := osPipe(t)
	got := make(chan error, 1)
	go func() {
		id, err := ExchangeStdIO(fromRx, toRx)(ctx, tx)
		if err == nil && id.Key != rx.Key {
			err = errors.New("another receiver")
		}
		got <- err
	}()
	var heard strings.Builder // by the sender, all of it
	id, err := ExchangeStdIO(fromTx, io.MultiWriter(&heard, toTx))(ctx, rx)
	if err = errors.Join(err, <-got); err != nil || id.Key != tx.Key {
		t.Fatalf("%v, %v", id, err)
	}
	if text := heard.String(); !strings.HasPrefix(text, "identity of the sender? ") ||
		strings.Count(text, rx.String()) != 1 {
		t.Errorf("the receiver says %q", text)
	}
	var first strings.Builder
	if _, err := ExchangeStdIO(strings.NewReader(""), &first)(ctx, tx); !errors.Is(err, ErrExchange) {
		t.Errorf("nobody answers: %v", err)
	}
	if !strings.HasPrefix(first.String(), "identity of this sender: ") {
		t.Errorf("the sender says %q first", first.String())
	}
}

// osPipe is a pipe that holds some text, as those between programs do.
func osPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}
