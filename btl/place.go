package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/seq"
)

// For a large fragment the owner may be asked, when the first of it comes, where it shall go: into
// memory of the owner's, where all that follows lands as elsewhere, into the pool, as without
// having been asked, or nowhere. What is refused fails at its sender with the first chunk's Nack;
// its other chunks, which are on their way, are taken as nothing.
//
//	first chunk --> ask --> in memory of the owner's --> whole: Handler
//	                 |                               \-> never will be: OnAbandoned
//	                 +----> in the pool
//	                 +----> refused: ErrUnwanted at the sender

// Announced is what is known of a large fragment of which the first packet has come.
type Announced struct {
	Tag         Tag
	SizeBytes   int    // of the whole fragment
	OffsetBytes int    // where Data belongs in it: 0, unless an earlier packet comes later
	Data        []byte // what has come of it, valid during the call
}

// Place says where a large fragment is to go. The zero value leaves it to the pool.
type Place struct {
	mem     []byte
	refused bool
}

// PlaceIn has a fragment put together at the beginning of mem. If mem is shorter than the fragment
// it is not used at all, and the fragment goes to the pool: the handler's data tell.
func PlaceIn(mem []byte) Place { return Place{mem: mem} }

// PlaceRefused refuses a fragment: its send ends with ErrUnwanted.
func PlaceRefused() Place { return Place{refused: true} }

// placing is whom the module asks where large fragments shall go, by tag.
type placing [TagMax + 1]func(*Endpoint, Announced) Place

// OnAnnounced registers the function that is asked where fragments of a tag shall go that are
// larger than a packet (Limits.SegmentBytes), when the first of their packets comes, whichever that
// is; nil removes it. Smaller ones go to the handler at once, and so does, through the pool, one
// whose first packet to arrive is shared with others (Config.MixBytes of the sender). The function
// may do what a Handler may, at the same places of Progress.
//
// Memory that it gives with PlaceIn is the module's from then on. It is the owner's again when the
// tag's Handler is called, whose data are its beginning, or when OnAbandoned says so; until then
// its content is undefined. Its bytes count in no limit of the module's, so the owner bounds what
// peers can make him give. A fragment may be announced again: one that found no room in the pool,
// and one that is sent again as a whole over a reliable fabric. Errors: ErrTag.
func (m *Module) OnAnnounced(tag Tag, fn func(*Endpoint, Announced) Place) error {
	if tag > TagMax {
		return fmt.Errorf("%w: %d (the last is %d)", ErrTag, tag, TagMax)
	}
	m.placing[tag] = fn
	return nil
}

// OnAbandoned registers the function that is told when memory that was given by PlaceIn is the
// owner's again without a fragment: its sender has given it up, or the endpoint has ended. It is
// called from Progress, before what OnEndpoint is told of that end; and from Close.
func (m *Module) OnAbandoned(fn func(ep *Endpoint, tag Tag, mem []byte)) {
	m.outbox.onAbandoned = fn
}

// forgetFragment throws away what has arrived of a fragment.
func (ep *Endpoint) forgetFragment(fragID uint32) {
	tag, mem := ep.asm.Forget(fragID)
	ep.m.outbox.abandon(ep, tag, mem)
}

// dropFragments throws away all that has arrived of unfinished fragments.
func (ep *Endpoint) dropFragments() {
	for tag, mem := range ep.asm.AllPlaced() {
		ep.m.outbox.abandon(ep, tag, mem)
	}
	ep.asm.Drop()
}

// place asks the owner where a fragment is to go of which the first chunk has come, if he wants to
// be asked. False means that the chunk is not to be taken.
func (m *Module) place(in *arrival) bool {
	ep, h := in.ep, &in.Header
	ask := m.placing[h.Tag]
	if ask == nil || !ep.asm.Begins(h, len(in.payload)) {
		return true
	}
	to := ask(ep, Announced{
		Tag: Tag(h.Tag), SizeBytes: int(h.SizeBytes), OffsetBytes: int(h.OffsetBytes),
		Data: in.payload,
	})
	fits := uint64(len(to.mem)) >= uint64(h.SizeBytes)
	gone := ep.state != stateConnected // by what was called
	if (gone || m.handlers[h.Tag] == nil) && fits {
		m.outbox.abandon(ep, h.Tag, to.mem)
	}
	switch {
	case gone:
		return m.drop(CntDropState)
	case m.handlers[h.Tag] == nil:
		m.refuse(in, frag.NackNoHandler)
		return m.drop(CntDropNoHandler)
	case to.refused:
		m.drop(CntDropUnwanted)
		m.refuseFragment(in)
		return false
	case fits:
		ep.asm.BeginIn(h, to.mem)
	}
	return true
}

// refuseFragment refuses a fragment of which the first chunk has come.
func (m *Module) refuseFragment(in *arrival) {
	ep := in.ep
	if ep.counted {
		m.refuseCounted(ep, &in.Header, ep.unwantedReason())
		return
	}
	ep.forgetUnwanted()
	ep.unwanted = append(ep.unwanted, unwanted{seq: in.Seq, fragID: in.FragID})
	m.sendNack(ep, in.Seq, ep.unwantedReason(), 0)
}

// unwantedReason is that of a Nack: a peer that knows no operations would not understand the right
// one.
func (ep *Endpoint) unwantedReason() uint8 {
	if ep.operates {
		return frag.NackRight
	}
	return frag.NackNoHandler
}

// unwanted is a fragment that the owner has refused, and which of its chunks tells the peer so. The
// others, with numbers of the same window, count as received; so there are no more than numbers.
type unwanted struct {
	seq    seq.Num
	fragID uint32
}

// isUnwanted says whether a chunk is of a fragment that the owner has refused, and deals with it.
func (m *Module) isUnwanted(in *arrival) bool {
	ep := in.ep
	ep.forgetUnwanted()
	for i := range ep.unwanted {
		switch u := &ep.unwanted[i]; {
		case u.fragID != in.FragID:
		case u.seq == in.Seq: // again
			m.drop(CntDropUnwanted)
			m.sendNack(ep, in.Seq, ep.unwantedReason(), 0)
			return true
		default:
			m.accepted(ep, &in.Header)
			m.checkBye(ep)
			return true
		}
	}
	return false
}

// forgetUnwanted removes those of which no chunk can come any more: the sender stopped sending them
// when it heard of the refusal, and until then the window stood still.
func (ep *Endpoint) forgetUnwanted() {
	n := 0
	for _, u := range ep.unwanted {
		if !u.seq.Add(ep.rcv.Size()).Before(ep.rcv.Next()) {
			ep.unwanted[n] = u
			n++
		}
	}
	ep.unwanted = ep.unwanted[:n]
}

// countPlaced counts a fragment that is whole, if it stands in the owner's memory.
func (m *Module) countPlaced(msg *frag.Message) {
	if msg.Placed() {
		m.stats.counters[CntPlaced]++
		m.stats.counters[CntPlacedCopiedBytes] += uint64(msg.CopiedBytes())
	}
}
