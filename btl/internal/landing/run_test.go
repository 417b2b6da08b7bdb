package landing

import (
	"maps"
	"slices"
	"testing"

	"gobtl/fabric"
	"gobtl/frag"
)

// TestRun: a run ends before the first packet that is anything but the next chunk in the next
// place. The header of the first packet stays as it is.
func TestRun(t *testing.T) {
	b := newBench(t)
	const room = testRoom
	head := func(c *fabric.Completion) []byte { return b.port.Arena.Bytes(c.Buf) }
	alters := map[string]func(c *fabric.Completion){
		"a send":           func(c *fabric.Completion) { c.Op = fabric.OpSend },
		"an error":         func(c *fabric.Completion) { c.Errno = 5 },
		"not landed":       func(c *fabric.Completion) { c.Landed, c.LandedOff = 0, 0 },
		"landed in part":   func(c *fabric.Completion) { c.Landed-- },
		"landed behind":    func(c *fabric.Completion) { c.LandedOff++ },
		"landed before":    func(c *fabric.Completion) { c.LandedOff -= uint32(room) },
		"longer":           func(c *fabric.Completion) { c.Len++ },
		"shorter":          func(c *fabric.Completion) { c.Len-- },
		"longer, landed":   func(c *fabric.Completion) { c.Len++; c.Landed++ },
		"another tag":      func(c *fabric.Completion) { head(c)[3]++ },
		"a flag":           func(c *fabric.Completion) { head(c)[2] |= byte(frag.FlagPut) },
		"an ACK":           func(c *fabric.Completion) { frag.SetAck(head(c), 5, 6, 7, false) },
		"another endpoint": func(c *fabric.Completion) { head(c)[4]++ },
		"another number":   func(c *fabric.Completion) { head(c)[12]++ },
		"another sequence": func(c *fabric.Completion) { head(c)[16]++ },
		"another fragment": func(c *fabric.Completion) { head(c)[32]++ },
		"another size":     func(c *fabric.Completion) { head(c)[36]++ },
		"another offset":   func(c *fabric.Completion) { head(c)[40]++ },
		"another first":    func(c *fabric.Completion) { head(c)[44]++ },
		"another grid":     func(c *fabric.Completion) { head(c)[46]++ },
		"a reserved bit":   func(c *fabric.Completion) { head(c)[31] = 1 },
	}
	const count = 10
	batch := func(size uint32) (frag.Header, []fabric.Completion) {
		h := frag.Header{
			Kind: frag.KindChunk, Flags: frag.FlagAck, Conn: 7, Seq: 1<<32 - 4, Tag: 1, FragID: 5,
			SizeBytes: size, OffsetBytes: uint32(room), PayloadLen: uint16(room), Credit: 1,
			Number: 1<<32 - 2, FirstBytes: uint16(room), ChunkBytes: uint16(room),
		}
		comps := make([]fabric.Completion, count)
		next := h
		for i := range comps {
			comps[i] = fabric.Completion{
				Op: fabric.OpRecv, Buf: b.net.free[i], Len: uint32(frag.ChunkHeaderBytes + room),
				Landed: uint32(room), LandedOff: uint32((3 + i) * room),
			}
			next.Encode(head(&comps[i]))
			next.Flags, next.Seq, next.Number = 0, next.Seq+1, next.Number+1
			next.OffsetBytes += uint32(room)
		}
		return h, comps
	}
	for _, name := range slices.Sorted(maps.Keys(alters)) {
		for at := 1; at < count; at++ {
			h, comps := batch(uint32(1000 * room))
			alters[name](&comps[at])
			first := h
			if n := b.plan.Run(&first, comps); n != at-1 || first != h {
				t.Errorf("%s at place %d: %d follow", name, at, n)
			}
		}
	}
	for _, c := range []struct{ chunks, comps, want int }{
		{1000, count, count - 1},
		{1000, 1, 0},
		{1000, 2, 1},
		{2, count, 0},
		{3, count, 1},
		{count, count, count - 2},
		{count + 1, count, count - 1},
	} {
		for _, rest := range []int{0, 1, room - 1} {
			h, comps := batch(uint32(c.chunks*room + rest))
			if n := b.plan.Run(&h, comps[:c.comps]); n != c.want {
				t.Errorf("%d of %d chunks, and %d bytes: %d follow, want %d", c.comps, c.chunks, rest, n,
					c.want)
			}
		}
	}
}
