package stream

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric"
	_ "gobtl/fabric/udp"
)

// patience bounds what must happen on any machine.
const patience = 30 * time.Second

// openPort opens a port on the loopback.
func openPort(t testing.TB, cfg PortConfig) *Port {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		t.Fatalf("no loopback: %v", err)
	}
	p, err := Open(infos[0], cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func newRing(t testing.TB, messageBytes, regions, messages int) *Ring {
	t.Helper()
	r, err := NewRing(Geometry{messageBytes, regions, messages}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fillMessage is the content of a message by its ordinal.
func fillMessage(b []byte, ordinal uint64) {
	for i := range b {
		b[i] = byte(ordinal*7 + uint64(i)*13 + ordinal>>8)
	}
}

// consume reads regions until the stream ends, and checks every message.
func consume(t testing.TB, r *Receiver) (regions, messages, wrong int) {
	want := make([]byte, r.ring.geo.MessageBytes)
	for region := range r.Completed() {
		regions++
		for k := range region.Messages {
			ordinal, ok := r.ring.Transferred(region.Index, k)
			got := r.ring.Message(region.Index, k)
			if !ok {
				clear(want)
			} else {
				messages++
				fillMessage(want, ordinal)
			}
			if !bytes.Equal(got, want) || ordinal != region.First+uint64(k) {
				wrong++
			}
		}
		r.Release(region)
	}
	return regions, messages, wrong
}

// produce sends a number of messages and ends the stream.
func produce(t testing.TB, s *Sender, messages uint64) {
	g := s.ring.geo
	next := s.cfg.First
	for end := next + messages; next < end; {
		region, err := s.Next(t.Context())
		if err != nil {
			t.Errorf("next: %v", err)
			return
		}
		n := int(min(uint64(g.RegionMessages), end-next))
		for k := range n {
			fillMessage(region.Bytes[k*g.MessageBytes:][:g.MessageBytes], next+uint64(k))
		}
		next += uint64(n)
		if err := s.Populate(n); err != nil {
			t.Errorf("populate: %v", err)
			return
		}
	}
	s.Finish()
}

func TestPort(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		for _, size := range []int{1, 8192, 100_000} {
			for _, messages := range []uint64{1, 31, 1000} {
				t.Run(fmt.Sprintf("%v/%d/%d", mode, size, messages), func(t *testing.T) {
					a, b := openPort(t, PortConfig{}), openPort(t, PortConfig{})
					cfg := Config{Mode: mode, Messages: messages, First: 1<<32 - 20}
					rx, err := b.Receive(newRing(t, size, 3, 7), cfg)
					if err != nil {
						t.Fatal(err)
					}
					if mode == Unreliable {
						cfg.BitsPerSecond = 2e9
					}
					tx, err := a.Send(newRing(t, size, 4, 5), cfg)
					if err != nil {
						t.Fatal(err)
					}
					if err := a.Connect(tx, rx.Identity()); err != nil {
						t.Fatal(err)
					}
					go produce(t, tx, messages)
					_, got, wrong := consume(t, rx)
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					if err := rx.Wait(ctx); err != nil {
						t.Error("receiver:", err)
					}
					if err := tx.Wait(ctx); err != nil {
						t.Error("sender:", err)
					}
					st := rx.Stats()
					if uint64(got) != messages || wrong > 0 || st.Received != messages || st.Missing != 0 {
						t.Errorf("%d messages, %d wrong, of %d; %+v", got, wrong, messages, st)
					}
					if s := tx.Stats(); s.Sent != messages {
						t.Errorf("sender: %+v", s)
					}
				})
			}
		}
	}
}
