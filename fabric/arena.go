package fabric

import (
	"fmt"
	"sync/atomic"
)

// Arena is the packet buffers of a Domain, which are equal slots of one block of memory outside the
// Go heap. An Arena is a small value to copy. Its methods need a variable: a := domain.Arena(), and
// then a.Bytes(0). So a packet costs no call through the Domain's interface, and no copy of the
// Arena.
type Arena struct {
	mem      []byte
	stride   int
	headroom int
	size     int
	count    int
	lease    *lease
}

// lease counts the references to an arena's memory. The Domain has one reference, and each Hold
// adds one.
type lease struct {
	holders atomic.Int32
	free    func() error // set before the Domain releases its reference
}

// NewArena makes an Arena of count slots of stride bytes in mem, for providers. In each slot,
// headroom bytes belong to the provider (its packet prefix) and size bytes belong to the caller.
func NewArena(mem []byte, count, stride, headroom, size int) (Arena, error) {
	if count <= 0 || headroom < 0 || size <= 0 || stride < headroom+size || len(mem) < count*stride {
		return Arena{}, fmt.Errorf(
			"fabric: arena of %d slots, stride %d, headroom %d, size %d in %d bytes",
			count, stride, headroom, size, len(mem))
	}
	a := Arena{
		mem: mem, stride: stride, headroom: headroom, size: size, count: count, lease: new(lease),
	}
	a.lease.holders.Store(1)
	return a, nil
}

// Retire releases the Domain's reference to the memory, for providers that map their memory. When
// the last reference is released, free is called to unmap the memory. If there are Holds, the last
// Drop calls free on any goroutine, and the error of free is lost.
func (a *Arena) Retire(free func() error) error {
	a.lease.free = free
	return a.lease.drop()
}

// Hold keeps the memory after its Domain closes, until Drop is called as often as Hold. Slices from
// Bytes stay valid until then. Only the goroutine that uses the Domain may call Hold, before the
// Domain closes.
func (a *Arena) Hold() { a.lease.holders.Add(1) }

// Drop ends a Hold. Any goroutine may call Drop.
func (a *Arena) Drop() { _ = a.lease.drop() }

func (l *lease) drop() error {
	if l.holders.Add(-1) == 0 && l.free != nil {
		return l.free()
	}
	return nil
}

// Bytes returns the caller's part of a buffer, valid until the Domain closes (see Hold).
func (a *Arena) Bytes(b Buf) []byte {
	lo := int(b)*a.stride + a.headroom
	return a.mem[lo : lo+a.size : lo+a.size]
}

// Len is the number of buffers. Valid Bufs are 0 to Len()-1.
func (a *Arena) Len() int { return a.count }

// Size is the number of bytes that Bytes returns.
func (a *Arena) Size() int { return a.size }

// Shrink returns an arena that shows only the first n buffers. A wrapping provider keeps the other
// buffers for itself.
func (a Arena) Shrink(n int) Arena {
	if n < a.count {
		a.count = n
	}
	return a
}
