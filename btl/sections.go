package btl

import (
	"fmt"

	"gobtl/frag"
)

// An operation on several places of the peer's memory is a fragment that is sent as several: one of
// its own for each section, and besides the one that the owner has, the whole. A section is a put
// or a get like any other: a packet, or chunks with a number of their own, for what lands is
// expected behind the bytes that came before. It has no OnDone. The whole counts those that are
// under way in Fragment.out, like packets that are not acknowledged, and so ends with the last.
//
//	puts, gets          sections only; the whole is never queued
//	puts with a notice  the sections stand one behind the other among the large fragments, and
//	                    behind them the whole, which is their notice: they share the number of its
//	                    operation, so that the target counts the bytes of all of them
//
// The descriptors of sections are given back together with that of the whole.

// SectionsMax is how many sections an operation may have, or a quarter of Config.FragmentsMax, less
// one, if that is fewer.
const SectionsMax = 64

// Section is a part of an operation: memory of this side, and where it belongs in a region of the
// peer. Each may be in another region.
type Section struct {
	Mem    []byte
	Target Handle
	Offset uint64
}

// PreparePutSections is PreparePut for several places of one or several regions of the peer, in one
// operation: it ends when all sections have. OnDone with nil means that all bytes are in place.
// With ErrRemoteAccess the error is that of a section that was refused, the first to be told of, an
// *AccessError with its handle, offset and size; the others may be in place, wholly or in part. The
// memory of all must not change until OnDone; the slice is the caller's at once. Where sections
// overlap, either's bytes may be there in the end. Cancel takes all of them back, or none. Errors
// as for PreparePut, of each section; ErrTooLarge also if they are more than SectionsMax, or longer
// than a fragment together; ErrConfig if there are none, or an empty one.
func (ep *Endpoint) PreparePutSections(sections []Section) (*Fragment, error) {
	return ep.prepareSections(sections, func(s *Section) (*Fragment, error) {
		return ep.PreparePut(s.Mem, s.Target, s.Offset)
	})
}

// PreparePutSectionsNotice is PreparePutSections with one notice for all: as that of
// PreparePutNotice it comes when, and only when, the bytes of every section are in place. All
// regions need RemoteWrite and RemoteNotify. If a section is refused there is no notice, whatever
// became of the others.
func (ep *Endpoint) PreparePutSectionsNotice(sections []Section, tag Tag, says []byte) (
	*Fragment, error,
) {
	if err := ep.mayNotify(tag, says); err != nil {
		return nil, err
	}
	f, err := ep.PreparePutSections(sections)
	if err != nil {
		return nil, err
	}
	m := ep.m
	f.put, f.cursor = true, f.size
	f.handle, f.offset = sections[0].Target, sections[0].Offset
	o := m.takeOp(f, frag.OpPart)
	o.tag, o.says = uint8(tag), uint8(copy(o.body[:], says))
	for _, part := range f.group.parts {
		m.takeOp(part, frag.OpPart)
	}
	return f, nil
}

// PrepareGetSections is PrepareGet for several pieces of memory, from several places of one or
// several regions of the peer: OnDone with nil means that all bytes are there. An error is as for
// PreparePutSections; what others there are as for PrepareGet. Each section counts as an operation
// that waits for an answer.
func (ep *Endpoint) PrepareGetSections(sections []Section) (*Fragment, error) {
	return ep.prepareSections(sections, func(s *Section) (*Fragment, error) {
		return ep.PrepareGet(s.Mem, s.Target, s.Offset)
	})
}

// prepareSections lends the fragments of an operation, all of them or none.
func (ep *Endpoint) prepareSections(sections []Section,
	lend func(*Section) (*Fragment, error),
) (*Fragment, error) {
	m := ep.m
	if most := min(SectionsMax, m.cfg.FragmentsMax/4-1); len(sections) > most {
		return nil, fmt.Errorf("%w: %d sections, at most %d", ErrTooLarge, len(sections), most)
	}
	size := 0
	for i := range sections {
		if len(sections[i].Mem) == 0 {
			return nil, fmt.Errorf("%w: section %d has no bytes", ErrConfig, i)
		}
		size += len(sections[i].Mem)
	}
	if size == 0 {
		return nil, fmt.Errorf("%w: no sections", ErrConfig)
	}
	whole, err := m.takeFrag(ep, size)
	if err != nil {
		return nil, err
	}
	g := m.frags.takeGroup()
	g.whole, whole.group = whole, g
	for i := range sections {
		part, err := lend(&sections[i])
		if err != nil {
			m.freeFrag(whole)
			return nil, err
		}
		part.group, part.Signal = g, true
		g.parts = append(g.parts, part)
	}
	return whole, nil
}

// sendSections is Send for the whole of an operation with sections. There is nothing any more that
// could keep one of them from being accepted.
func (ep *Endpoint) sendSections(whole *Fragment) (Status, error) {
	m, g := ep.m, whole.group
	if whole.op != nil || g.parts[0].op != nil {
		if err := ep.mayAsk(); err != nil {
			return 0, err
		}
	}
	m.dirty = true
	whole.Signal, whole.state, whole.out = true, fragSent, uint32(len(g.parts))
	for _, part := range g.parts {
		if whole.op == nil {
			_, _ = ep.Send(m.now, part)
		} else { // none may overtake another
			m.stats.counters[CntSentPayloadBytes] += uint64(part.size)
			m.queueSend(part)
		}
	}
	if whole.op == nil {
		m.stats.counters[CntSendsQueued]++
		m.frags.lent--
	} else {
		m.queueSend(whole)
	}
	return Queued, nil
}

// queueSend accepts a fragment that cannot leave at once.
func (m *Module) queueSend(f *Fragment) {
	m.stats.counters[CntSendsQueued]++
	m.frags.lent--
	f.ep.enqueue(f)
}

// sectionEnded books the end of a section. The first one that fails has the others fail.
func (m *Module) sectionEnded(f *Fragment, err error) {
	g := f.group
	if err != nil && !g.failed && f.ep.err == nil {
		m.failSections(g.whole, err)
	} else if err != nil && !g.failed {
		g.failed, g.whole.err = true, err // the others end by themselves
	}
	m.segEnded(g.whole)
}

// failSections has an operation fail: the sections of which nothing has left are not sent any more,
// nor is the notice. It ends with those that are under way.
func (m *Module) failSections(whole *Fragment, err error) {
	g, ep := whole.group, whole.ep
	g.failed, whole.err = true, err
	whole.out++ // it has to outlive the loop
	if whole.state == fragQueued {
		m.unqueue(ep, whole)
	}
	for _, part := range g.parts {
		if part.unsent() {
			m.unqueue(ep, part)
			m.complete(part, err)
		}
	}
	m.sched.rearm(ep)
	m.segEnded(whole)
}

// unsent says whether nothing of a queued fragment has left.
func (f *Fragment) unsent() bool { return f.state == fragQueued && f.cursor == 0 && f.out == 0 }

// cancelSections is Cancel for the whole of an operation with sections: false if some of it has
// left, or it was not sent.
func (m *Module) cancelSections(whole *Fragment) bool {
	parts := whole.group.parts
	for _, part := range parts {
		if !part.unsent() {
			return false
		}
	}
	m.failSections(whole, ErrCanceled)
	return true
}
