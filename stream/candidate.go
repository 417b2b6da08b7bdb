package stream

import (
	"errors"
	"fmt"
	"slices"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
)

// A sender is a candidate of a receiver if the parameters in its hello message are compatible with
// the receiver. The candidate sender whose start message arrives first begins the stream, and gets
// the right to put into the receiver's ring. After the start of the stream, the receiver refuses
// all remaining and new candidate senders with the code "taken". A candidate sender that stops
// responding does not prevent the remaining candidate senders from starting the stream.
//
//	candidate                             receiver
//	   -------- hello --------------------->    one of candidatesMax
//	   <------- welcome --------------------    no right yet
//	   -------- start --------------------->    the first one wins
//	   <------- ready (right to the ring) --    the others: abort, taken

// candidatesMax is the largest number of candidate senders of a receiver. If there are
// candidatesMax candidate senders, a new candidate replaces the oldest candidate of the host that
// has the most candidates.
const candidatesMax = 16

type candidate struct {
	r     *Receiver
	ep    *btl.Endpoint
	key   uint64 // key of the stream
	hello *hello
	// dataKey is the key in the candidate's datagrams to this port, and in its probes.
	dataKey uint64
	// The field "answers" is the number of the candidate's probes that have arrived since the time
	// answersAt.
	answersAt mono.Time
	answers   int
}

// meet handles a sender's hello.
func (r *Receiver) meet(ep *btl.Endpoint, l *letter) {
	if err := r.judge(l.Hello); err != nil {
		r.refuse(ep, l.Key, RefusedMismatch, err)
		return
	}
	if s := r.candidateOf(ep); s != nil { // a peer is at most one candidate sender of a receiver
		if s.key == l.Key {
			s.hello = l.Hello
			s.welcome()
			return
		}
		s.drop()
	}
	if len(r.candidates) == candidatesMax {
		s := oldestOfLargestHost(r.candidates, func(s *candidate) *btl.Endpoint { return s.ep })
		s.refuse(RefusedTaken, errTaken)
	}
	s := &candidate{r: r, ep: ep, key: l.Key, hello: l.Hello, dataKey: r.e.random()}
	r.candidates = append(r.candidates, s)
	r.e.candidates[s.dataKey] = s
	r.showMet()
	s.welcome()
}

// meetAgain handles a repeated hello message of the sender whose stream is in progress at this
// receiver. A sender repeats its hello message if it has dropped this receiver, for example after a
// late refusal, and then has added this receiver again. The stream continues if the sender's new
// start message has the same parameters as its first start message.
func (r *Receiver) meetAgain(l *letter) {
	if err := r.judge(l.Hello); err != nil {
		r.refuse(r.ep, l.Key, RefusedMismatch, err)
		return
	}
	r.sender.welcome()
}

// welcome sends the receiver's parameters to a candidate sender. The receiver answers a repeated
// hello message again, because the sender may have ignored the first answer.
func (s *candidate) welcome() {
	r := s.r
	w := &welcome{GraceNs: uint64(r.cfg.Grace), DataKey: s.dataKey}
	if r.cfg.Mode == Reliable {
		w.RingMessages = uint64(r.ring.geo.Messages())
	} else {
		w.Data = r.e.data.main.ep.Name()
		w.DatagramBytes = r.e.data.most()
	}
	r.e.sendLetter(s.ep, &letter{Kind: letterWelcome, Key: s.key, Welcome: w})
}

func (r *Receiver) candidateOf(ep *btl.Endpoint) *candidate {
	for _, s := range r.candidates {
		if s.ep == ep {
			return s
		}
	}
	return nil
}

func (e *Engine) candidateOf(ep *btl.Endpoint, key uint64) *candidate {
	for _, r := range e.receiving {
		if s := r.candidateOf(ep); s != nil && s.key == key {
			return s
		}
	}
	return nil
}

// drop removes a candidate sender.
func (s *candidate) drop() {
	s.r.candidates = slices.DeleteFunc(s.r.candidates, func(o *candidate) bool { return o == s })
	delete(s.r.e.candidates, s.dataKey)
	s.r.showMet()
}

// refuse removes a candidate sender, and sends the candidate the reason.
func (s *candidate) refuse(why Reason, err error) {
	s.drop()
	s.r.refuse(s.ep, s.key, why, err)
}

// The method "left" handles an abort message of a candidate sender, which has failed or refuses
// this receiver.
func (s *candidate) left(err error) {
	s.drop()
	s.r.refused(s.ep, RefusedThere, err)
}

// refuse sends a sender the reason for which this receiver refuses it. After the refusal, the
// receiver waits for a compatible sender, unless Config.Only restricts the receiver to one sender.
func (r *Receiver) refuse(ep *btl.Endpoint, key uint64, why Reason, err error) {
	r.e.abort(ep, key, codeOf(why), err.Error())
	r.refused(ep, why, err)
}

// The method "refused" records a refusal by this receiver or by the sender.
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
	r.met = len(r.candidates) > 0 || r.ep != nil
}

// start begins the stream with a candidate sender if the parameters in its start message are valid.
func (s *candidate) start(st *start) {
	r := s.r
	if err := r.start(s, st); err != nil {
		s.refuse(RefusedMismatch, err)
		return
	}
	r.sender, r.startedBy = s, st
	s.drop()
	for len(r.candidates) > 0 {
		r.candidates[0].refuse(RefusedTaken, errTaken)
	}
	r.ready()
}

// startAgain handles a repeated start message of the sender whose stream is in progress at this
// receiver.
func (r *Receiver) startAgain(st *start) {
	if st.DatagramBytes != r.startedBy.DatagramBytes || st.DataKey != r.startedBy.DataKey {
		r.fail(fmt.Errorf("%w: the sender starts its stream again in another way", ErrMismatch))
		return
	}
	if r.asm.track.sent() == 0 {
		r.credit = r.cfg.First // the sender may have missed an earlier credit
	}
	r.ready()
}

// ready tells the sender that this receiver has begun the stream.
func (r *Receiver) ready() {
	w := &ready{}
	for _, block := range r.exposed {
		w.Blocks = append(w.Blocks, uint64(block.Handle()))
	}
	r.e.sendLetter(r.ep, &letter{Kind: letterReady, Key: r.key, Ready: w})
}

// groupTextMax is the largest length, in bytes, of the address of a multicast group in text form.
// The longest valid address is an IPv6 address with a zone and a port.
const groupTextMax = 100

// judge returns ErrMismatch if the parameters in a sender's hello are incompatible with this
// receiver.
func (r *Receiver) judge(h *hello) error {
	c, g := &r.cfg, &r.ring.geo
	switch {
	case h.Version != protocolVersion:
		return fmt.Errorf("%w: the sender speaks version %d, this receiver %d", ErrMismatch, h.Version,
			protocolVersion)
	case h.Mode != c.Mode:
		return fmt.Errorf("%w: the sender is %v, the receiver %v", ErrMismatch, h.Mode, c.Mode)
	case h.MessageBytes != g.MessageBytes:
		return fmt.Errorf("%w: the sender's messages have %d bytes, the receiver's %d", ErrMismatch,
			h.MessageBytes, g.MessageBytes)
	case c.Messages != 0 && h.Messages != c.Messages:
		return fmt.Errorf("%w: the sender has %d messages in all, the receiver %d", ErrMismatch,
			h.Messages, c.Messages)
	case h.First != c.First:
		return fmt.Errorf("%w: the sender begins with %d, the receiver with %d", ErrMismatch, h.First,
			c.First)
	case len(h.Group) > groupTextMax:
		return fmt.Errorf("%w: the text of the multicast group has %d bytes", ErrMismatch, len(h.Group))
	case h.First > ordinalsMax || h.Messages > ordinalsMax-h.First:
		return fmt.Errorf("%w: ordinals beyond 2^63", ErrMismatch)
	}
	return nil
}

// prepare allocates the resources of a stream. In the reliable mode, the method "prepare" registers
// the ring for puts of the sender. In the unreliable mode, the method "prepare" joins the multicast
// group, if there is one.
func (s *candidate) prepare(st *start) error {
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
	if err := r.e.mayJoin(s.hello.Group, s.ep.PeerHost()); err != nil {
		return fmt.Errorf("%w: group %s: %w", ErrMismatch, s.hello.Group, err)
	}
	source, err := s.sourceOf(st)
	if err != nil {
		return err
	}
	if r.group, err = s.join(st); err != nil {
		return errors.Join(err, r.e.data.dom.Remove(source.from))
	}
	r.source = source
	return nil
}

// sourceOf inserts the address of the sender's data endpoint into the fabric, and returns the
// source of the stream's datagrams. If this receiver cannot receive the datagrams that the sender's
// start message describes, sourceOf returns ErrMismatch. sourceOf must run before "join", so that
// this host does not announce its membership in a multicast group to the network (IGMP, MLD) for a
// wrong start message.
func (s *candidate) sourceOf(st *start) (source dataSource, err error) {
	d := s.r.e.data
	if most := d.most(); st.DatagramBytes > most {
		return source, fmt.Errorf("%w: datagrams of %d bytes, this receiver takes %d", ErrMismatch,
			st.DatagramBytes, most)
	}
	if !s.ep.AtHost(st.Data) {
		return source, fmt.Errorf("%w: the sender's datagrams come from another host", ErrMismatch)
	}
	from, err := d.dom.Insert(st.Data)
	if err != nil {
		return source, fmt.Errorf("%w: address of the sender's data: %w", ErrMismatch, err)
	}
	source = dataSource{st.DataKey, from}
	if s.r.e.bySource[source] != nil {
		return source, errors.Join(d.dom.Remove(from),
			fmt.Errorf("%w: the stream is received here already", ErrMismatch))
	}
	return source, nil
}

// join joins the multicast group of the stream. If the group cannot receive the datagrams that the
// sender's start message describes, join returns ErrMismatch.
func (s *candidate) join(st *start) (*dataEndpoint, error) {
	d := s.r.e.data
	group, err := d.join(s.hello.Group)
	if err != nil {
		return nil, fmt.Errorf("%w: group %s: %w", ErrMismatch, s.hello.Group, err)
	}
	if room := min(group.caps.MTUBytes, d.arena.Size()); st.DatagramBytes > room {
		d.leave(group)
		return nil, fmt.Errorf("%w: datagrams of %d bytes, the group takes %d", ErrMismatch,
			st.DatagramBytes, room)
	}
	return group, nil
}

// expose gives the sender the exclusive right to put into the memory of the ring.
func (s *candidate) expose() error {
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
