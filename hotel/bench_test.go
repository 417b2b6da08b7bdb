package hotel

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

const benchStay = 100 * time.Millisecond

// BenchmarkCheckinCheckout measures a segment that is acknowledged at once.
func BenchmarkCheckinCheckout(b *testing.B) {
	h := mustNew(b, Config{Rooms: 4096})
	now := mono.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 100
		room, _ := h.Checkin(now, benchStay, 1)
		h.Checkout(room)
	}
}

// BenchmarkWindow measures the same with a full window in flight. Each round posts one segment and
// acknowledges the oldest segment.
func BenchmarkWindow(b *testing.B) {
	const inFlight = 4095
	h := mustNew(b, Config{Rooms: 4096})
	var ring [4096]Room
	now := mono.Time(0)
	for i := range inFlight {
		ring[i] = mustCheckin(b, h, now, benchStay, i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		now += 100
		ring[(i+inFlight)&4095], _ = h.Checkin(now, benchStay, i)
		if _, ok := h.Checkout(ring[i&4095]); !ok {
			b.Fatal("lost")
		}
	}
}

// BenchmarkEvictNothing measures the cost in every call of the progress loop.
func BenchmarkEvictNothing(b *testing.B) {
	h := mustNew(b, Config{Rooms: 4096})
	mustCheckin(b, h, 0, time.Hour, 1)
	now := mono.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 100
		if _, _, ok := h.Evict(now & (1<<40 - 1)); ok {
			b.Fatal("evicted")
		}
	}
}

// BenchmarkEvict measures a segment that times out.
func BenchmarkEvict(b *testing.B) {
	h := mustNew(b, Config{Rooms: 4096})
	now := mono.Time(0)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = h.Checkin(now, benchStay, 1)
		now = now.Add(benchStay + DefaultTickNs)
		if _, _, ok := h.Evict(now); !ok {
			b.Fatal("not evicted")
		}
	}
}

// BenchmarkDeadline measures the call before the loop sleeps. The earliest guest has left, and
// therefore the bitmap must be searched.
func BenchmarkDeadline(b *testing.B) {
	h := mustNew(b, Config{Rooms: 4096})
	now := mono.Time(0)
	mustCheckin(b, h, now, 2*benchStay, 1)
	b.ReportAllocs()
	for b.Loop() {
		room, _ := h.Checkin(now, time.Millisecond, 2)
		h.Checkout(room)
		if h.Deadline() == mono.Never {
			b.Fatal("empty")
		}
	}
}
