package hotel_test

import (
	"fmt"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
)

// A sender checks a segment in when it posts it. The acknowledgement checks it out; without one the
// hotel gives it back for retransmission.
func Example() {
	timers, err := hotel.New[string](hotel.Config{Rooms: 4096})
	if err != nil {
		fmt.Println(err)
		return
	}
	const timeout = 100 * time.Millisecond
	now := mono.Time(0)
	first, _ := timers.Checkin(now, timeout, "segment 1")
	_, _ = timers.Checkin(now.Add(time.Millisecond), timeout, "segment 2")

	segment, ok := timers.Checkout(first)
	fmt.Println("acknowledged:", segment, ok)

	now = timers.Deadline() // sleep until then
	fmt.Println("woken after", now.Sub(0).Round(time.Millisecond))
	for segment, _, ok := timers.Evict(now); ok; segment, _, ok = timers.Evict(now) {
		fmt.Println("retransmit:", segment)
	}
	fmt.Println("in the hotel:", timers.Len())
	// Output:
	// acknowledged: segment 1 true
	// woken after 101ms
	// retransmit: segment 2
	// in the hotel: 0
}
