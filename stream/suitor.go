package stream

import (
	"errors"
	"fmt"
	"slices"

	"gobtl/btl"
	"gobtl/fabric"
)

// A sender whose hello is compatible with a receiver is a candidate (suitor) for this
// receiver. The first candidate sender that sends its start message gets the receiver, and
// the right to put into the receiver's ring. The receiver refuses all other candidate
// senders with the code "taken". A candidate sender that stops responding does not block
// other senders.
//
//	suitor                                receiver
//	   -------- hello --------------------->    one of suitorsMax
//	   <------- welcome --------------------    no right yet
//	   -------- start --------------------->    the first one wins
//	   <------- ready (right to the ring) --    the others: abort, taken

// suitorsMax is the largest number of candidate senders of a receiver. A further candidate sender
// replaces the oldest candidate.
const suitorsMax = 16

type suitor struct {
	r     *Receiver
	ep    *btl.Endpoint
	key   uint64 // key of the stream
	hello *hello
	// dataKey is the key in the candidate's datagrams to this port, and in its probes.
	dataKey uint64
}

// meet handles a sender's hello.
func (r *Receiver) meet(ep *btl.Endpoint, l *letter) {
	if err := r.judge(l.Hello); err != nil {
		r.refuse(ep, l.Key, RefusedMismatch, err)
		return
	}
	if s := r.suitorOf(ep); s != nil { // a peer is at most one candidate sender of a receiver
		if s.key == l.Key {
			return
		}
		s.drop()
	}
	if len(r.suitors) == suitorsMax {
		r.suitors[0].refuse(RefusedTaken, errTaken)
	}
	s := &suitor{r: r, ep: ep, key: l.Key, hello: l.Hello, dataKey: r.e.random()}
	w := &welcome{GraceNs: uint64(r.cfg.Grace), DataKey: s.dataKey}
	if r.cfg.Mode == Reliable {
		w.RingMessages = uint64(r.ring.geo.Messages())
	} else {
		w.Data = r.e.data.main.ep.Name()
		w.DatagramBytes = r.e.data.most()
	}
	r.suitors = append(r.suitors, s)
	r.e.suitors[s.dataKey] = s
	r.showMet()
	r.e.sendLetter(ep, &letter{Kind: letterWelcome, Key: s.key, Welcome: w})
}

func (r *Receiver) suitorOf(ep *btl.Endpoint) *suitor {
	for _, s := range r.suitors {
		if s.ep == ep {
			return s
		}
	}
	return nil
}

func (e *Engine) suitorOf(ep *btl.Endpoint, key uint64) *suitor {
	for _, r := range e.receiving {
		if s := r.suitorOf(ep); s != nil && s.key == key {
			return s
		}
	}
	return nil
}

// drop removes a candidate sender.
func (s *suitor) drop() {
	s.r.suitors = slices.DeleteFunc(s.r.suitors, func(o *suitor) bool { return o == s })
	delete(s.r.e.suitors, s.dataKey)
	s.r.showMet()
}

// refuse removes a candidate sender, and sends the candidate the reason.
func (s *suitor) refuse(why Reason, err error) {
	s.drop()
	s.r.refuse(s.ep, s.key, why, err)
}

// left handles the message with which a candidate sender reports its end, or refuses this receiver.
func (s *suitor) left(err error) {
	s.drop()
	s.r.refused(s.ep, RefusedThere, err)
}

// refuse sends a sender the reason of its refusal. The receiver continues unless Config.Only
// restricts it to one sender.
func (r *Receiver) refuse(ep *btl.Endpoint, key uint64, why Reason, err error) {
	r.e.abort(ep, key, codeOf(why), err.Error())
	r.refused(ep, why, err)
}

// refused records a refusal by this receiver or by the sender.
func (r *Receiver) refused(ep *btl.Endpoint, why Reason, err error) {
	r.cfg.note(&r.stats, why, ep, r.own, err)
	if r.state != stateMeeting {
		return
	}
	r.latest = err
	if r.cfg.Only && why != RefusedTaken && !isTaken(err) {
		r.fail(err)
	}
}

// showMet updates the result of Receiver.Met.
func (r *Receiver) showMet() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.met = len(r.suitors) > 0 || r.ep != nil
}

// start begins the stream with a candidate sender if the parameters in its start message are valid.
func (s *suitor) start(st *start) {
	r := s.r
	if err := r.start(s, st); err != nil {
		s.refuse(RefusedMismatch, err)
		return
	}
	w := &ready{}
	for _, block := range r.exposed {
		w.Blocks = append(w.Blocks, uint64(block.Handle()))
	}
	s.drop()
	for len(r.suitors) > 0 {
		r.suitors[0].refuse(RefusedTaken, errTaken)
	}
	r.e.sendLetter(r.ep, &letter{Kind: letterReady, Key: r.key, Ready: w})
}

// prepare allocates the resources of a stream. In the reliable mode, prepare registers the ring
// for puts of the sender. In the unreliable mode, prepare joins the multicast group, if there is
// one.
func (s *suitor) prepare(st *start) error {
	r := s.r
	if r.e.receiverOf(s.ep, s.key) != nil {
		return fmt.Errorf("%w: the stream is received here already", ErrMismatch)
	}
	if r.cfg.Mode == Reliable {
		return s.expose()
	}
	if s.hello.Group == "" {
		r.source = dataSource{s.dataKey, fabric.AddrUnknown}
		return nil
	}
	group, err := r.e.data.join(s.hello.Group)
	if err != nil {
		return fmt.Errorf("%w: group %s: %w", ErrMismatch, s.hello.Group, err)
	}
	if err := s.joined(group, st); err != nil {
		r.e.data.leave(group)
		return err
	}
	r.group = group
	return nil
}

// joined returns ErrMismatch if the multicast group cannot receive the datagrams that the sender's
// start message describes. Otherwise joined inserts the address of the sender's data endpoint into
// the fabric.
func (s *suitor) joined(group *dataEndpoint, st *start) error {
	d := s.r.e.data
	if room := min(group.caps.MTUBytes, d.arena.Size()); st.DatagramBytes > room {
		return fmt.Errorf("%w: datagrams of %d bytes, the group takes %d", ErrMismatch, st.DatagramBytes,
			room)
	}
	if !s.ep.AtHost(st.Data) {
		return fmt.Errorf("%w: the sender's datagrams come from another host", ErrMismatch)
	}
	from, err := d.dom.Insert(st.Data)
	if err != nil {
		return fmt.Errorf("%w: address of the sender's data: %w", ErrMismatch, err)
	}
	source := dataSource{st.DataKey, from}
	if s.r.e.bySource[source] != nil {
		return errors.Join(d.dom.Remove(from),
			fmt.Errorf("%w: the stream is received here already", ErrMismatch))
	}
	s.r.source = source
	return nil
}

// expose gives the sender the exclusive right to put into the memory of the ring.
func (s *suitor) expose() error {
	r := s.r
	for _, mem := range r.ring.blocks {
		block := new(btl.Region)
		if err := r.e.m.ExposeAs(block, mem, btl.RemoteWrite, s.ep); err != nil {
			r.withdraw()
			return fmt.Errorf("stream: ring: %w", err)
		}
		r.exposed = append(r.exposed, block)
	}
	return nil
}

// withdraw ends the sender's right to put into the ring.
func (r *Receiver) withdraw() {
	for _, block := range r.exposed {
		block.Close()
	}
	r.exposed = nil
}
