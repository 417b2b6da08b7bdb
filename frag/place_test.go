package frag

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A fragment that is begun in memory of others is put together there, whatever the order of its
// chunks, lands there, and takes nothing of the budgets.
func TestBeginIn(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	p := mustPool(t, PoolConfig{FragBytesMax: 10_000, BytesMax: 10_000})
	var a Assembler
	a.Init(p)
	const room, count = 100, 12
	mine := make([]byte, 1300)
	for id := range uint32(40) {
		whole := randomBytes(r, room*(count-1)+1+r.IntN(room))
		order := r.Perm(count)
		h, payload := chunkOf(id, whole, room, order[0])
		h.Tag = 9
		if !a.Begins(&h, len(payload)) || a.Begins(&h, len(payload)+1) {
			t.Fatal("the first chunk does not begin a fragment, or one of another size does")
		}
		a.BeginIn(&h, mine)
		if a.Begins(&h, len(payload)) || a.ActiveBytes() != 0 || p.ActiveBytes() != 0 {
			t.Fatalf("begins twice, or counts %d, %d bytes", a.ActiveBytes(), p.ActiveBytes())
		}
		for tag, mem := range a.AllPlaced() {
			if tag != 9 || len(mem) != len(whole) || &mem[0] != &mine[0] {
				t.Fatalf("placed: tag %d, %d bytes", tag, len(mem))
			}
		}
		landed := 0
		for i, n := range order {
			h, payload := chunkOf(id, whole, room, n)
			h.Tag = 9
			var msg *Message
			var err error
			if mem := a.Landing(id, h.OffsetBytes, len(payload)); i > 0 && len(mem) == len(payload) &&
				r.IntN(2) == 0 {
				copy(mem, payload)
				landed += len(payload)
				msg, err = a.AddLanded(&h, len(payload), 0)
			} else {
				msg, err = a.Add(&h, payload, false)
			}
			if err != nil || (msg != nil) != (i == count-1) || a.Check() != nil {
				t.Fatalf("chunk %d: %v, whole %v; %v", n, err, msg != nil, a.Check())
			}
			if msg != nil {
				if !msg.Placed() || &msg.Bytes[0] != &mine[0] || !bytes.Equal(msg.Bytes, whole) ||
					msg.CopiedBytes() != int64(len(whole)-landed) {
					t.Fatalf("placed %v, copied %d of %d", msg.Placed(), msg.CopiedBytes(), len(whole))
				}
				msg.Release()
			}
		}
	}
	if err := p.CheckIdle(); err != nil || p.IdleBytes() != 0 {
		t.Errorf("%d bytes idle: %v", p.IdleBytes(), err)
	}
}

// What is forgotten is given back; nothing begins that is too large, or has no slot.
func TestBeginInRefused(t *testing.T) {
	p := mustPool(t, PoolConfig{FragBytesMax: 1000, BytesMax: 1000})
	var a Assembler
	a.Init(p)
	whole := make([]byte, 1001)
	if h, b := chunkOf(1, whole, 100, 0); a.Begins(&h, len(b)) {
		t.Error("a fragment begins that is too large")
	}
	h, b := chunkOf(1, whole[:1000], 100, 3)
	a.BeginIn(&h, whole)
	if h, b := chunkOf(1+ActiveMax, whole[:1000], 100, 0); a.Begins(&h, len(b)) {
		t.Error("a fragment begins in the slot of another one")
	}
	if tag, mem := a.Forget(2); tag != 0 || mem != nil {
		t.Error("what is not there has memory")
	}
	if _, mem := a.Forget(1); len(mem) != 1000 || &mem[0] != &whole[0] || a.Active() != 0 {
		t.Errorf("%d bytes come back", len(mem))
	}
	if _, err := a.Add(&h, b, true); err != nil { // now in the pool
		t.Fatal(err)
	}
	if _, mem := a.Forget(1); mem != nil {
		t.Error("memory of the pool is given to somebody")
	}
}
