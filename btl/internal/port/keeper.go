package port

import (
	"errors"
	"fmt"
	"unsafe"

	"gobtl/fabric"
)

// Keeper manages the receive buffers of packets that handlers keep. If no spare buffer is left, a
// handler cannot keep a packet.
//
//	posted --> in hand --Keep--> kept --LetGo, the last--> spare --> posted
type Keeper struct {
	arena *fabric.Arena
	first fabric.Buf   // the first receive buffer
	spare []fabric.Buf // receive buffers that are neither posted nor kept
	refs  []uint32     // for each receive buffer, how often it is kept
	kept  int          // number of kept buffers

	inHand fabric.Buf // buffer to post again after the current packet
	taken  fabric.Buf // the kept buffer that inHand replaces
	hasBuf bool       // a packet is being received
	isKept bool       // taken is valid
}

// init reserves the last receive buffers of the arena as spare buffers.
func (k *Keeper) init(arena *fabric.Arena, first fabric.Buf, receives, spare int) {
	k.arena, k.first = arena, first
	k.refs = make([]uint32, receives+spare)
	k.spare = make([]fabric.Buf, 0, spare)
	for i := range spare {
		k.spare = append(k.spare, first+fabric.Buf(receives+i))
	}
}

// Hold records the buffer of the packet that is being received. Between Hold and Held, a handler
// can keep the packet.
func (k *Keeper) Hold(b fabric.Buf) { k.inHand, k.hasBuf, k.isKept = b, true, false }

// Held ends the reception of a packet, and returns the buffer that must be posted again.
func (k *Keeper) Held() fabric.Buf {
	k.hasBuf = false
	return k.inHand
}

// Keep keeps the buffer of the packet that is being received, so that the buffer is not posted
// again. The result "ok" of Keep says whether the buffer is kept, which requires that the argument
// "data" is in the packet's buffer, and that a spare buffer is left. A buffer stays kept until
// LetGo was called as often as Keep.
func (k *Keeper) Keep(data []byte) (b fabric.Buf, ok bool) {
	if !k.hasBuf {
		return 0, false
	}
	if !k.isKept || !Within(data, k.arena.Bytes(k.taken)) { // otherwise the buffer is already kept
		n := len(k.spare)
		if n == 0 || k.isKept || !Within(data, k.arena.Bytes(k.inHand)) {
			return 0, false
		}
		k.taken, k.inHand, k.isKept = k.inHand, k.spare[n-1], true
		k.spare = k.spare[:n-1]
		k.kept++
	}
	k.refs[k.taken-k.first]++
	return k.taken, true
}

// LetGo undoes one call of Keep for buffer b. When LetGo was called as often as Keep, buffer b
// becomes a spare buffer. If a handler keeps the packet that is being received, and releases it
// before Held is called, Held returns the packet's own buffer, and the buffer that would have
// replaced it becomes a spare buffer again.
func (k *Keeper) LetGo(b fabric.Buf) {
	r := &k.refs[b-k.first]
	if *r--; *r > 0 {
		return
	}
	k.kept--
	if k.hasBuf && k.isKept && k.taken == b {
		b, k.inHand, k.isKept = k.inHand, b, false
	}
	k.spare = append(k.spare, b)
}

// Kept returns the number of buffers that are kept.
func (k *Keeper) Kept() int { return k.kept }

// Outlive keeps the arena's memory mapped after the Domain is closed. For each call of Keep that
// LetGo has not undone, Outlive calls fabric.Arena.Hold, which the caller must undo by
// fabric.Arena.Drop.
func (k *Keeper) Outlive() {
	for _, n := range k.refs {
		for range n {
			k.arena.Hold()
		}
	}
}

// keeps reports whether a receive buffer is kept.
func (k *Keeper) keeps(b fabric.Buf) bool {
	n := int(b - k.first)
	return n >= len(k.refs) || k.refs[n] != 0
}

// check returns an error if the counts of kept buffers are wrong, or if a spare buffer is in use,
// and nil otherwise. The slice "seen" marks the buffers in use.
func (k *Keeper) check(seen []bool) error {
	kept := 0
	for _, n := range k.refs {
		if n > 0 {
			kept++
		}
	}
	if k.hasBuf {
		return errors.New("a packet is in hand outside of a poll")
	}
	if kept != k.kept || kept+len(k.spare) != cap(k.spare) {
		return fmt.Errorf("%d packets kept, %d counted, %d of %d spare", kept, k.kept, len(k.spare),
			cap(k.spare))
	}
	for i, b := range k.spare {
		if b < k.first || int(b-k.first) >= len(k.refs) || k.refs[b-k.first] != 0 || seen[b] {
			return fmt.Errorf("spare receive buffer %d is %d, and that is in use", i, b)
		}
		seen[b] = true
	}
	return nil
}

// Within reports whether the memory of the slice "part" is completely inside the memory of the
// slice "whole".
func Within(part, whole []byte) bool {
	if len(part) == 0 || len(whole) == 0 {
		return false
	}
	lo, from := address(part), address(whole)
	return lo >= from && lo+uintptr(len(part)) <= from+uintptr(len(whole))
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
