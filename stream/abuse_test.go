package stream

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHeldWrong: what a program does wrong is an error, not a hang and not a race.
func TestHeldWrong(t *testing.T) {
	p := openPort(t, PortConfig{})
	ring := newRing(t, 100, 2, 3)
	tx, err := p.Send(ring, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Receive(ring, Config{}); !errors.Is(err, ErrConfig) {
		t.Errorf("a ring for two streams: %v", err)
	}
	full := newRing(t, 100, 2, 3)
	full.SetPopulated(1, true)
	if _, err := p.Receive(full, Config{}); !errors.Is(err, ErrConfig) {
		t.Errorf("a populated ring to receive into: %v", err)
	}
	if err := p.Connect(tx, tx.Identity()); !errors.Is(err, ErrIdentity) {
		t.Errorf("a sender as a receiver: %v", err)
	}
	for range 2 {
		if err := tx.Populate(3); err != nil {
			t.Errorf("populate: %v", err)
		}
	}
	if err := tx.Populate(3); !errors.Is(err, ErrOverrun) {
		t.Errorf("populate what is not free: %v", err)
	}
	if err := tx.Populate(4); !errors.Is(err, ErrConfig) {
		t.Errorf("populate too much: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := tx.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("next: %v", err)
	}
	for _, cfg := range []Config{
		{Messages: 1 << 63, First: 1},
		{Timeout: 1},
		{BitsPerSecond: 1},
		{Group: "239.1.1.1:5"},
		{Delay: -1},
		{Mode: 9},
		{Receivers: -1},
		{Unmonitored: true},
		{DatagramBytes: 24, Mode: Unreliable},
	} {
		if _, err := p.Send(newRing(t, 1, 1, 1), cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := tx.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("the sender of a closed port: %v", err)
	}
	if _, err := p.Send(newRing(t, 1, 1, 1), Config{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed port: %v", err)
	}
	if _, err := tx.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("next of a closed port: %v", err)
	}
	other := openPort(t, PortConfig{}) // the ring is free again
	if _, err := other.Receive(ring, Config{Unmonitored: true}); err != nil {
		t.Error(err)
	}
}

// TestIdentityText: every damage to an identity's text is noticed, or harmless.
func TestIdentityText(t *testing.T) {
	id := Identity{Role: RoleSender, Key: 7, Name: []byte("some name")}
	text := id.String()
	back, err := ParseIdentity("  " + text + "\r\n")
	if err != nil || back.String() != text {
		t.Fatalf("%v, %v", back, err)
	}
	for i := range len(text) {
		if _, err := ParseIdentity(text[:i]); err == nil && i < len(text)-1 &&
			i < strings.LastIndexByte(text, ':')+12 {
			t.Errorf("%q is accepted", text[:i])
		}
	}
	for _, s := range []string{
		"", "gobtl-stream/2:sender:AAAA", text + "!", strings.Repeat("x", 5000),
	} {
		if _, err := ParseIdentity(s); !errors.Is(err, ErrIdentity) {
			t.Errorf("%.30q: %v", s, err)
		}
	}
}

// TestMeetingStrangers: those who say nothing, or nonsense, keep nobody else waiting.
func TestMeetingStrangers(t *testing.T) {
	m, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 10 {
		silent, err := net.Dial("tcp", m.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	loud, err := net.Dial("tcp", m.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer loud.Close()
	if _, err := loud.Write([]byte(strings.Repeat("GET / HTTP/1.1", 1000))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	mine := Identity{Role: RoleReceiver, Key: 1, Name: []byte("r")}
	theirs := Identity{Role: RoleSender, Key: 2, Name: []byte("s")}
	got := make(chan error, 1)
	go func() {
		id, err := ExchangeAt(m.Addr().String())(ctx, theirs)
		if err == nil && id.Key != mine.Key {
			err = errors.New("another identity")
		}
		got <- err
	}()
	begin := time.Now()
	if id, err := m.Exchange(ctx, mine); err != nil || id.Key != theirs.Key {
		t.Errorf("%v, %v", id, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	if time.Since(begin) > patience/2 {
		t.Error("strangers have kept the peer waiting")
	}
}

// TestRingFile: a ring that is damaged, cut off or no ring is refused.
func TestRingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ring")
	g := Geometry{100, 3, 70}
	r, err := CreateRing(name, g)
	if err != nil {
		t.Fatal(err)
	}
	r.SetPopulated(2, true)
	copy(r.Message(2, 69), "here")
	second, err := OpenRing(name)
	if err != nil {
		t.Fatal(err)
	}
	if second.Geometry() != g || !second.Populated(2) || string(second.Message(2, 69)[:4]) != "here" {
		t.Errorf("%+v %v", second.Geometry(), second.Populated(2))
	}
	if err := errors.Join(r.Close(), second.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		at   int64
		data string
	}{{0, "x"}, {8, "\x02"}, {16, "\x00\x00\x00\x00\x00\x00\x00\xff"}, {24, "\xff\xff"}} {
		damage(t, name, c.at, c.data)
		if r, err := OpenRing(name); !errors.Is(err, ErrFile) {
			t.Errorf("damaged at %d: %v, %v", c.at, r, err)
		}
		if _, err := CreateRing(name, g); err != nil {
			t.Fatal(err)
		}
	}
}

func damage(t *testing.T, name string, at int64, data string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(data), at); err != nil {
		t.Fatal(err)
	}
}
