package bounded

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// runOutbox starts an outbox to a peer. The returned function waits for the end of Run.
func runOutbox(t *testing.T, bytesMax int, limit time.Duration) (*Outbox, net.Conn, func()) {
	t.Helper()
	mine, theirs := net.Pipe()
	o := NewOutbox(mine, bytesMax, limit)
	ended := make(chan struct{})
	go func() {
		o.Run()
		_ = mine.Close()
		close(ended)
	}()
	t.Cleanup(func() { _ = theirs.Close() })
	_ = theirs.SetDeadline(time.Now().Add(patience))
	return o, theirs, func() {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("Run goes on")
		}
	}
}

// TestOutbox checks that data arrives in order, and that Close comes after the queued data.
func TestOutbox(t *testing.T) {
	o, peer, ended := runOutbox(t, 1000, patience)
	for _, text := range []string{"one ", "two ", "three"} {
		o.Put([]byte(text))
	}
	o.Close(patience)
	o.Put([]byte("late"))
	if all, err := io.ReadAll(peer); err != nil || string(all) != "one two three" {
		t.Errorf("%q, %v", all, err)
	}
	ended()
	if err := o.Err(); err != nil {
		t.Error(err)
	}
}

// TestOutboxUntaken checks the three ways in which a peer that reads nothing ends: too much data
// waits for it, one Write takes too long, and its time after Close is over. Put returns at once.
func TestOutboxUntaken(t *testing.T) {
	for name, do := range map[string]func(o *Outbox){
		"full": func(o *Outbox) {
			for range 3 { // the first may be under way
				o.Put([]byte(strings.Repeat("x", 700)))
			}
		},
		"slow":   func(o *Outbox) { o.limit = time.Millisecond; o.Put([]byte("x")) },
		"closed": func(o *Outbox) { o.Put([]byte("x")); o.Close(time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			o, _, ended := runOutbox(t, 1000, time.Hour)
			do(o)
			ended()
			if err := o.Err(); !errors.Is(err, ErrUntaken) {
				t.Errorf("%v, want ErrUntaken", err)
			}
			o.Put([]byte("late"))
			o.Close(patience)
		})
	}
}

// TestOutboxGone checks that the error of a connection is not taken for a peer that does not read.
func TestOutboxGone(t *testing.T) {
	o, peer, ended := runOutbox(t, 1000, time.Hour)
	_ = peer.Close()
	o.Put([]byte("x"))
	ended()
	if err := o.Err(); err == nil || errors.Is(err, ErrUntaken) {
		t.Errorf("%v", err)
	}
}
