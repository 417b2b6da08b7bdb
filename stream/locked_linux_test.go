package stream

import (
	"context"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockedBlocks maps blocks of memory one by one, and locks their pages. The driver of a device
// hands out host memory for the device in this way. Only the addresses are kept, as of memory that
// a program in C has allocated.
func lockedBlocks(t *testing.T, count, size int) (blocks [][]byte) {
	t.Helper()
	for range count {
		mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Munmap(mem); err != nil {
				t.Error(err)
			}
		})
		if err := unix.Mlock(mem); err != nil {
			t.Skipf("no locked memory: %v", err)
		}
		address := unsafe.Pointer(unsafe.SliceData(mem))
		blocks = append(blocks, unsafe.Slice((*byte)(address), size))
	}
	return blocks
}

// Messages go from and to page-locked memory that was not allocated by Go, block by block, in both
// modes. After the stream nothing holds the memory: it can be unmapped while the ports are open.
func TestLockedMemory(t *testing.T) {
	for _, mode := range []Mode{Reliable, Unreliable} {
		g := Geometry{MessageBytes: 8192, Regions: 4, RegionMessages: 8}
		a, b := openPort(t, PortConfig{}), openPort(t, PortConfig{})
		ring := func() *Ring {
			r, err := NewRing(g, lockedBlocks(t, g.Regions, g.RegionBytes())...)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		cfg := Config{Mode: mode, Messages: 1000, BitsPerSecond: 1e9}
		rx, err := b.Receive(ring(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		tx, err := a.Send(ring(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Connect(tx, rx.Identity()); err != nil {
			t.Fatal(err)
		}
		go produce(t, tx, cfg.Messages)
		_, got, wrong := consume(t, rx)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := rx.Wait(ctx); err != nil {
			t.Error("receiver:", err)
		}
		if err := tx.Wait(ctx); err != nil {
			t.Error("sender:", err)
		}
		if uint64(got) != cfg.Messages || wrong > 0 {
			t.Errorf("%v: %d messages, %d wrong", mode, got, wrong)
		}
	}
}
