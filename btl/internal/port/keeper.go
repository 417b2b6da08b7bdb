package port

import (
	"errors"
	"fmt"
	"unsafe"

	"gobtl/fabric"
)

// Keeper has the receive buffers in which the owner keeps received packets. A kept buffer is not
// posted again; a spare one is posted in its place. So kept packets take no resources from
// receiving. Without spare buffers nothing is kept.
//
//	posted --> in hand --Keep--> kept --LetGo, the last--> spare --> posted
type Keeper struct {
	arena *fabric.Arena
	first fabric.Buf   // the first receive buffer
	spare []fabric.Buf // receive buffers that are neither posted nor kept
	refs  []uint32     // of each receive buffer, how often it is kept
	kept  int          // buffers that are

	inHand fabric.Buf // of the packet that is being received: to be posted again
	taken  fabric.Buf // in whose place it is, once that is kept
	hasBuf bool       // there is one
	isKept bool       // taken is one
}

// init makes the last receive buffers of the arena the spare buffers.
func (k *Keeper) init(arena *fabric.Arena, first fabric.Buf, receives, spare int) {
	k.arena, k.first = arena, first
	k.refs = make([]uint32, receives+spare)
	k.spare = make([]fabric.Buf, 0, spare)
	for i := range spare {
		k.spare = append(k.spare, first+fabric.Buf(receives+i))
	}
}

// Hold notes the buffer of a packet that is being received, whose data may be kept until Held.
func (k *Keeper) Hold(b fabric.Buf) { k.inHand, k.hasBuf, k.isKept = b, true, false }

// Held is the buffer that is to be posted again, when the packet has been received.
func (k *Keeper) Held() fabric.Buf {
	k.hasBuf = false
	return k.inHand
}

// Keep keeps the buffer of the packet that is being received, if data lies in that buffer, until it
// is let go as often as it was kept.
func (k *Keeper) Keep(data []byte) (b fabric.Buf, ok bool) {
	if !k.hasBuf {
		return 0, false
	}
	if !k.isKept || !Within(data, k.arena.Bytes(k.taken)) { // else it is another record of a pack
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

// LetGo undoes a Keep. When a buffer is no longer kept it is spare again; or, if its packet is
// still being received, it will be posted again and its replacement is spare.
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

// Kept is the number of buffers that are kept.
func (k *Keeper) Kept() int { return k.kept }

// Outlive holds the arena once for each Keep that is not undone, so that its memory stays mapped
// when the Domain is closed: fabric.Arena.Drop undoes that.
func (k *Keeper) Outlive() {
	for _, n := range k.refs {
		for range n {
			k.arena.Hold()
		}
	}
}

// keeps says whether a receive buffer is kept.
func (k *Keeper) keeps(b fabric.Buf) bool {
	n := int(b - k.first)
	return n >= len(k.refs) || k.refs[n] != 0
}

// check verifies the kept buffers, and that no spare one is in use as seen says.
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

// Within says whether part is some of whole's memory.
func Within(part, whole []byte) bool {
	if len(part) == 0 || len(whole) == 0 {
		return false
	}
	lo, from := address(part), address(whole)
	return lo >= from && lo+uintptr(len(part)) <= from+uintptr(len(whole))
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
