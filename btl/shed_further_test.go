package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// holder is a peer that sends the chunks of one message in order.
type holder struct {
	*script
	end          *Endpoint // at the module
	id, size, at uint32
}

// newHolder makes a holder whose message has nearly mostBytes, and a last chunk of 10 bytes.
func newHolder(l *lab, mostBytes uint32) *holder {
	h := &holder{script: l.newScript(0), id: 5}
	h.end = h.connect()
	h.size = (mostBytes/h.room()-1)*h.room() + lastBytes
	return h
}

const lastBytes = 10

// goOn sends the chunks up to an offset.
func (h *holder) goOn(to uint32) {
	for room := h.room(); h.at+room <= to; h.at += room {
		h.chunk(h.next, h.id, h.size, h.at, make([]byte, room))
		h.next++
		h.l.step(20 * time.Microsecond)
	}
}

// further is the beginning of a further message, in a Pack. If the argument "ends" is true, the
// last chunk of the first message is in front of it.
func (h *holder) further(ends bool) []byte {
	const n = lastBytes
	body := make([]byte, 2*(frag.RecordHeaderBytes+frag.PieceExtraBytes+n))
	room, at := uint16(h.room()), 0
	if ends {
		at = frag.PutPiece(body, 1, frag.Piece{
			FragID: h.id, SizeBytes: h.size, OffsetBytes: h.size - n, FirstBytes: room, ChunkBytes: room,
		}, make([]byte, n))
	}
	at += frag.PutPiece(body[at:], 1, frag.Piece{
		FragID: h.id + 1, SizeBytes: h.size, FirstBytes: n, ChunkBytes: room,
	}, make([]byte, n))
	return encode(frag.Header{Kind: frag.KindPack, Conn: h.conn, Seq: h.next}, body[:at])
}

// A peer holds memory for a message that does not go on, and repeats the beginning of a further
// message, for which there is no memory. Another peer, whose own message cannot go on for lack of
// memory, gets the memory of the first peer. A third peer, which goes on slowly in the reserve,
// keeps its memory.
func TestShedWhoBeginsFurther(t *testing.T) {
	for name, repeat := range map[string]func(*holder){
		"chunk": func(h *holder) {
			h.chunk(h.next, h.id+1, h.size, 0, make([]byte, h.room()))
		},
		"piece":      func(h *holder) { h.raw(1, h.further(false)) },
		"two pieces": func(h *holder) { h.raw(1, h.further(true)) },
	} {
		t.Run(name, func(t *testing.T) { shedsFurther(t, repeat) })
	}
}

func shedsFurther(t *testing.T, repeat func(*holder)) {
	const mib = 1 << 20
	cfg := smallConfig()
	cfg.PeerTimeout = shedTimeout
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 4*mib, 12*mib
	l := newLab(t, mem.Config{}, 1, cfg)
	m := l.mods[0]
	mustHandleTag(t, m, 1, func(*Endpoint, Tag, []byte) {})
	waits := newHolder(l, 4*mib)
	waits.goOn(mib)
	room := waits.room()
	bad := newHolder(l, 4*mib)
	bad.goOn(mib + 2*room) // it has a buffer of 4 MiB from here on
	filler := newHolder(l, 3*mib)
	filler.goOn(mib + 2*room)
	slow := newHolder(l, 4*mib)
	slow.goOn(room) // the only one that may use the reserve
	if got := m.all.Pool.ActiveBytes(); got <= 8*mib || bad.end.c.Asm.HasReserve() {
		t.Fatalf("%d bytes are in use: the test shows nothing", got)
	}
	for i := 0; i < 400 && waits.end.c.Asm.ActiveBytes() < 4*mib; i++ { // at most 10 PeerTimeouts
		slow.goOn(slow.at + room)
		if i%4 == 0 {
			waits.chunk(waits.next, waits.id, waits.size, waits.at, make([]byte, room))
			for _, h := range []*holder{bad, filler} {
				if h.end.Err() == nil {
					repeat(h)
				}
			}
		}
		l.step(5 * time.Millisecond)
	}
	if !errors.Is(bad.end.Err(), ErrStalled) || waits.end.Err() != nil || slow.end.Err() != nil {
		t.Errorf("bad: %v, waiting: %v, slow: %v", bad.end.Err(), waits.end.Err(), slow.end.Err())
	}
	if got := waits.end.c.Asm.ActiveBytes(); got != 4*mib {
		t.Errorf("the waiting peer has %d bytes", got)
	}
	for _, h := range []*holder{waits, bad, filler, slow} {
		h.end.Abort()
	}
}
