package layers

import (
	"encoding/binary"
	"errors"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// handlers are the message handlers of a round. A side ignores the messages that the other side has
// no reason to send in this round.
func (p *btlPort) handlers(r *Round) map[btl.Tag]btl.Handler {
	handlers := make(map[btl.Tag]btl.Handler)
	for tag := tagData; tag <= tagLast; tag++ {
		handlers[tag] = func(*btl.Endpoint, btl.Tag, []byte) {}
	}
	switch {
	case r.Test == plan.TestNotice:
		handlers[tagNotice] = p.onNotice
	case plan.IsPingPong(r.Test) && r.Server:
		handlers[tagData], handlers[tagLoad] = p.onPing, p.onLoad
	case plan.IsPingPong(r.Test):
		handlers[tagData] = p.onPong
	case r.Test == plan.TestPutBW && r.Verify && r.Server:
		handlers[tagPut] = p.onPut
	case r.Test == plan.TestPutBW && r.Verify:
		handlers[tagPutSeen] = p.onPutSeen
	case !plan.IsRemote(r.Test):
		handlers[tagData], handlers[tagGo], handlers[tagFin] = p.onStreamData, p.onGo, p.onFin
		handlers[tagFinSeen], handlers[tagWindow] = p.onFinSeen, p.onWindow
	}
	return handlers
}

// arriving is the length of the longest message with a tag in a round, or 1 if that is 0, because a
// limit of 0 bytes means no limit.
func arriving(r *Round, tag btl.Tag) uint32 {
	longest := noteBytes
	if tag == tagData {
		longest = r.SizeBytes
	}
	if tag == tagLoad {
		longest = r.LoadBytes
	}
	return uint32(max(1, longest))
}

// noteBytes is the size of a control message, which has the round's number and two other numbers.
const noteBytes = 24

// tell sends a control message (note) of up to two numbers. If the control message cannot be sent
// now, it is queued, because it must not be lost. An error of tell is final.
func (p *btlPort) tell(tag btl.Tag, a, b uint64) error {
	var note [noteBytes]byte
	binary.LittleEndian.PutUint64(note[:], p.r.Number)
	binary.LittleEndian.PutUint64(note[8:], a)
	binary.LittleEndian.PutUint64(note[16:], b)
	now := clock()
	err := p.ep.SendImmediate(now, tag, note[:])
	if !errors.Is(err, btl.ErrAgain) {
		return err
	}
	f, err := p.ep.Alloc(tag, len(note))
	if err == nil {
		copy(f.Bytes(), note[:])
		if _, err = p.ep.Send(now, f); err != nil {
			_ = p.ep.Free(f)
		}
	}
	if errors.Is(err, btl.ErrAgain) {
		return p.owe(noteDue{tag: tag, a: a, b: b})
	}
	return err
}

// notesMore is the number of control messages that may be queued beyond one for each slot.
const notesMore = 16

// errUntaken means that the peer takes no control messages, and causes more and more of them.
var errUntaken = errors.New("the peer takes no control messages")

// owe queues a control message. A control message of a slot is queued by itself. All other numbers
// are absolute, and a later control message replaces a queued one with the same tag.
func (p *btlPort) owe(n noteDue) error {
	if n.tag != tagPut && n.tag != tagPutSeen {
		for i := range p.notes {
			if p.notes[i].tag == n.tag {
				p.notes[i] = n
				return nil
			}
		}
	}
	if len(p.notes) >= p.r.Window+notesMore {
		return errUntaken
	}
	p.notes = append(p.notes, n)
	return nil
}

// A noteDue is a control message that could not be sent yet.
type noteDue struct {
	tag  btl.Tag
	a, b uint64
}

// readNote decodes a control message that tell has sent. A control message of an earlier round is
// ignored.
func (p *btlPort) readNote(data []byte) (a, b uint64, ok bool) {
	if len(data) != noteBytes || binary.LittleEndian.Uint64(data) != p.r.Number {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:]), true
}
