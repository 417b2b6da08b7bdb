package fabric

import (
	"fmt"
	"sync/atomic"
)

// Arena describes the packet buffers of a Domain, which are slots of equal size in one block of
// memory. An Arena is a small value that may be copied. The methods of Arena need an addressable
// variable, as in a := domain.Arena() followed by a.Bytes(0).
type Arena struct {
	mem      []byte
	stride   int
	headroom int
	size     int
	count    int
	lease    *lease
}

// lease counts the references to the memory of an arena.
type lease struct {
	holders atomic.Int32
	free    func() error // set before the Domain releases its reference
}

// NewArena makes an Arena in the memory "mem", for a provider. The arena has "count" slots of
// "stride" bytes each. In each slot, the first "headroom" bytes hold the provider's packet prefix,
// and the next "size" bytes belong to the caller.
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

// Retire releases the Domain's reference to the arena's memory. Only providers whose arena is
// mapped memory (mmap) call Retire. If every Hold has been undone by a Drop, Retire calls the
// function "free", which unmaps the memory. If a Hold has not been undone yet, the Drop that undoes
// the last Hold calls "free" and ignores the error of "free".
func (a *Arena) Retire(free func() error) error {
	a.lease.free = free
	return a.lease.drop()
}

// Hold keeps the memory of the arena valid after the Domain is closed, until a Drop undoes the
// Hold. Only the goroutine that uses the Domain may call Hold, and only before the Domain is
// closed.
func (a *Arena) Hold() { a.lease.holders.Add(1) }

// Drop undoes one call of Hold, and is safe for concurrent use.
func (a *Arena) Drop() { _ = a.lease.drop() }

func (l *lease) drop() error {
	if l.holders.Add(-1) == 0 && l.free != nil {
		return l.free()
	}
	return nil
}

// Bytes returns the caller's part of a buffer, without the provider's packet prefix. The returned
// slice is valid until the Domain is closed, or, if Hold was called, until the last matching Drop.
func (a *Arena) Bytes(b Buf) []byte {
	lo := int(b)*a.stride + a.headroom
	return a.mem[lo : lo+a.size : lo+a.size]
}

// Len is the number of buffers. Valid values of Buf are 0 to Len()-1.
func (a *Arena) Len() int { return a.count }

// Size is the length of the slice that Bytes returns, which is the same for every buffer.
func (a *Arena) Size() int { return a.size }

// Shrink returns an arena with only the first n buffers of the arena "a". A provider that wraps
// another provider gives its callers the result of Shrink, and keeps the buffers with numbers of n
// or more for itself.
func (a Arena) Shrink(n int) Arena {
	if n < a.count {
		a.count = n
	}
	return a
}
