package stream

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
)

// linkState is the state of a link.
type linkState uint8

const (
	linkConnecting linkState = iota
	linkGreeted              // the sender has sent its hello
	linkProving              // the data address of the receiver is not validated yet
	linkWelcomed
	linkSizing  // the datagram size is not proven for the path yet (see pathsize.go)
	linkStarted // the sender has sent its start
	linkReady
	linkDone
)

// link is a sender's connection to one receiver.
type link struct {
	s      *Sender
	ep     *btl.Endpoint
	to     uint64    // the receiver's own key
	name   []byte    // name of the receiver's btl module
	since  mono.Time // time of the latest change of state
	number uint32    // index of this link in Engine.links
	state  linkState
	err    error
	pace   pacer     // rate limit for this receiver, in the reliable mode
	heard  mono.Time // latest time of progress, or of nothing to do
	taken  uint64    // number in the receiver's latest noticeTaken
	grace  time.Duration
	late   bool // joined a stream in progress; the loss of this link is no error of the stream
	// The field "otherHost" says whether an address of the receiver possibly does not belong to the
	// host that named it (see other_host.go).
	otherHost bool
	from      string // host of the receiver's connection to a Meeting, or empty
	// The field "bounds" has the limits on the letters of the endpoint and of its host, in which the
	// link is counted.
	bounds [2]*letterBound

	// The fields below are for the unreliable mode.
	addr          fabric.Addr
	hasAddr       bool
	underWay      int    // sends to addr without a completion yet
	posted        int    // number of datagrams of the batch posted to addr (caster.each)
	stuck         int    // successive calls of postTo in which the fabric accepted no datagram
	dataKey       uint64 // key in the datagrams to addr
	datagramBytes int
	nonce         uint64 // random number of the probes
	probes        int
	probeAt       mono.Time
	path          pathSize

	// The fields below are for the reliable mode. The field "next" is the ordinal of the next message
	// that the sender puts into the receiver's ring. The receiver has acknowledged the puts of all
	// messages with ordinals below the field "placed". The sender has told the receiver (noticePlaced)
	// that all messages with ordinals below the field "told" are in its ring.
	ringMessages uint64
	// The slice "handles" identifies the memory regions (blocks) of the receiver's ring. Each block
	// has blockMessages messages.
	handles       []btl.Handle
	blockMessages uint64
	credit        uint64
	next          uint64
	seq, message  uint64 // position of next: region number and message
	placed, told  uint64
	puts          [putsMax]put // circular buffer of the puts [putLo, putHi)
	putLo, putHi  uint64
	movedAt       mono.Time // latest time of an acknowledged put, or of a put without puts before it
	busy          bool      // the transport had no room for the latest put
	flushing      bool
	flushed       bool
	flushBy       mono.Time // time by which the flush in progress must be complete
}

// The method "endpoint" handles the events of the connection to the receiver.
func (k *link) endpoint(ev btl.Event, err error) {
	if ev != btl.EventConnected {
		k.fail(lostError(err))
		return
	}
	if k.state != linkConnecting {
		return
	}
	k.enter(linkGreeted)
	c := &k.s.cfg
	k.s.e.sendLetter(k.ep, &letter{Kind: letterHello, Key: k.s.key, Hello: &hello{
		Version: protocolVersion, To: k.to, Mode: c.Mode, MessageBytes: k.s.ring.geo.MessageBytes,
		Messages: c.Messages, First: c.First, Group: c.Group,
		RingMessages: uint64(k.s.ring.geo.Messages()),
	}})
}

// enter changes the state of the link.
func (k *link) enter(state linkState) { k.state, k.since = state, k.s.e.now }

// The method "letter" handles a control message from the receiver.
func (k *link) letter(l *letter) {
	switch {
	case l.Kind == letterWelcome && k.state == linkGreeted:
		if err := k.welcomed(l.Welcome); isTaken(err) {
			k.refuse(RefusedTaken, err)
		} else if err != nil {
			k.refuse(RefusedWish, err)
		}
	case l.Kind == letterProof:
		k.proved(l.Proof)
	case l.Kind == letterReady && k.state == linkStarted:
		if err := k.ready(l.Ready); err != nil {
			k.refuse(RefusedWish, err)
		} else if k.s.state == stateEnding { // the other receivers have got their end messages
			k.end()
		}
	case l.Kind == letterReport && k.state == linkReady && k.s.state == stateEnding:
		k.s.lock.Lock()
		k.s.reports = append(k.s.reports, *l.Report)
		k.s.lock.Unlock()
		k.close(nil)
	}
}

// The method "ready" handles the receiver's ready message. In the reliable mode, the receiver's
// ready message contains the handles for puts.
func (k *link) ready(r *ready) error {
	n := uint64(len(r.Blocks))
	if k.s.cast == nil && (n == 0 || n > BlocksMax || k.ringMessages%n != 0) {
		return fmt.Errorf("%w: a ring of %d messages in %d blocks", ErrMismatch, k.ringMessages, n)
	}
	k.enter(linkReady)
	k.s.e.letters.partner(k.ep, 1)
	k.heard = k.s.e.now
	for _, handle := range r.Blocks {
		k.handles = append(k.handles, btl.Handle(handle))
	}
	k.blockMessages = k.ringMessages / max(n, 1)
	return nil
}

// The method "welcomed" handles the welcome message, with which the receiver accepts this sender.
// In the unreliable mode, the welcome message contains the receiver's address for datagrams.
func (k *link) welcomed(w *welcome) error {
	s := k.s
	k.grace = time.Duration(min(w.GraceNs, uint64(time.Hour)))
	k.datagramBytes, k.dataKey = w.DatagramBytes, w.DataKey
	switch {
	case k.grace > s.cfg.Grace:
		return fmt.Errorf("%w: the receiver's grace is %v, this sender waits for at most %v",
			ErrMismatch, k.grace, s.cfg.Grace)
	case s.cast == nil:
		size := s.ring.geo.MessageBytes
		if w.RingMessages == 0 || w.RingMessages > uint64(ringBytesMax/size) {
			return fmt.Errorf("%w: a ring of %d messages of %d bytes", ErrMismatch, w.RingMessages, size)
		}
		k.ringMessages = w.RingMessages
		k.next, k.placed, k.told, k.credit = s.cfg.First, s.cfg.First, s.cfg.First, s.cfg.First
	case w.DatagramBytes < s.cast.floor():
		return fmt.Errorf("%w: the receiver takes datagrams of %d bytes, this sender has none below %d",
			ErrMismatch, w.DatagramBytes, s.cast.floor())
	case s.cfg.Group == "":
		if !k.allowData(w.Data) {
			return errOtherHosts
		}
		addr, err := s.e.data.dom.Insert(w.Data)
		if err != nil {
			return fmt.Errorf("%w: address of the receiver's data: %w", ErrMismatch, err)
		}
		k.addr, k.hasAddr = addr, true
		k.enter(linkProving)
		k.nonce = s.e.random()
		k.prove(s.e.now)
		return nil
	}
	k.welcome()
	return nil
}

// The method "welcome" records that the receiver is validated and can take part in the stream. If
// the stream is in progress, the receiver joins the stream.
func (k *link) welcome() {
	k.enter(linkWelcomed)
	if k.s.state == stateRunning {
		k.start()
	}
}

// start begins the stream to one receiver. If the stream's datagrams are possibly too large for the
// path to the receiver, the sender first probes the path.
func (k *link) start() {
	if k.state != linkWelcomed {
		return
	}
	if k.crowded() {
		k.refuse(RefusedTaken, errJoiners)
		return
	}
	if c := k.s.cast; c != nil {
		if size := headerBytes + c.perMsg; size > k.datagramBytes {
			k.refuse(RefusedWish,
				fmt.Errorf("%w: the stream's datagrams have %d bytes, the receiver takes %d", ErrMismatch,
					size, k.datagramBytes))
			return
		}
		if c.large() {
			k.measure()
			return
		}
	}
	k.sendStart()
}

// sendStart sends the start message, which tells the receiver how messages are split into
// datagrams.
func (k *link) sendStart() {
	st := &start{Sent: k.s.cfg.First}
	if c := k.s.cast; c != nil {
		st.DatagramBytes, st.Sent = headerBytes+c.perMsg, c.sentTo
		if c.inGroup {
			st.DataKey, st.Data = c.dataKey, c.ep.Name()
		}
	}
	k.enter(linkStarted)
	k.s.e.sendLetter(k.ep, &letter{Kind: letterStart, Key: k.s.key, Start: st})
}

// The method "finished" reports whether the sender may send its end message. In the reliable mode,
// the sender sends its end message only after the receiver has acknowledged the control messages
// about all messages of the stream.
func (k *link) finished() bool {
	if k.s.cast != nil {
		return k.s.cast.idle()
	}
	if k.placed < k.s.total || k.told < k.s.total {
		return false
	}
	return k.settled()
}

// The method "settled" reports whether all earlier control messages have reached the receiver.
// Control messages can arrive out of order. Before the sender sends a control message that must not
// overtake earlier control messages, it waits until the method "settled" returns true. If the
// acknowledgement of the control messages takes too long, the method "watch" ends the link.
func (k *link) settled() bool {
	if k.flushed {
		return true
	}
	if !k.flushing {
		k.flushing, k.flushBy = true, k.s.e.now.Add(k.flushTime())
		k.ep.Flush(k.s.e.now, func(err error) { k.flushing, k.flushed = false, err == nil })
	}
	return k.flushed
}

// end tells the receiver that the stream has ended.
func (k *link) end() {
	s := k.s
	s.e.sendLetter(k.ep, &letter{Kind: letterEnd, Key: s.key, End: &ending{
		Total: s.total, Dropped: s.drops,
	}})
}

// fail ends the link to one receiver with an error. The stream to the remaining receivers
// continues.
func (k *link) fail(err error) {
	if k.state == linkDone {
		return
	}
	if err == nil {
		err = ErrPeerLost
	}
	if k.state != linkReady || k.s.state == stateMeeting {
		k.unmet(RefusedUnreachable, err)
		return
	}
	k.s.stats.PeersLost++
	if !k.late {
		k.s.lost = errors.Join(k.s.lost, err)
	}
	k.close(err)
}

// refuse tells a receiver why the sender refuses it, and ends the link. The stream to the remaining
// receivers continues.
func (k *link) refuse(why Reason, err error) {
	k.s.e.abort(k.ep, k.s.key, codeOf(why), err.Error())
	k.unmet(why, err)
}

// refusedThere handles the message with which the receiver refuses the stream.
func (k *link) refusedThere(err error) {
	if k.state == linkReady && k.s.state != stateMeeting {
		k.fail(err)
		return
	}
	k.unmet(RefusedThere, err)
}

// The method "unmet" ends the link to a receiver before the stream to this receiver has begun.
func (k *link) unmet(why Reason, err error) {
	s := k.s
	k.close(err)
	s.cfg.note(&s.stats, why, k.ep, k.to, err)
	s.latest = err
	switch {
	case s.state != stateMeeting || !s.cfg.Only || why == RefusedTaken || isTaken(err):
	case why == RefusedUnreachable:
		s.stats.PeersLost++
		s.lost = errors.Join(s.lost, err)
	default:
		s.wrong = err // incompatible parameters do not change
	}
}

// close ends the link and frees its resources. The connection to the receiver stays, because the
// receiver's program may use it for a stream in the opposite direction.
func (k *link) close(err error) {
	e := k.s.e
	if k.state == linkReady {
		e.letters.partner(k.ep, -1)
	}
	k.state, k.err = linkDone, err
	e.letters.leave(k)
	if id := (peerStream{k.ep, k.s.key}); e.linked[id] == k {
		delete(e.linked, id)
	}
	k.s.prunes = true
	k.forget()
	e.dropLink(k)
}

// forget removes the data address of an ended link, after the completion of the last send to this
// address. If the fabric cancels sends to a removed address, forget does not wait for their
// completions, so that a receiver that has left the stream cannot keep send buffers in use.
func (k *link) forget() {
	if !k.hasAddr || k.state != linkDone {
		return
	}
	d := k.s.e.data
	if k.underWay == 0 || d.reliable && d.main.caps.RemoveCancels {
		k.hasAddr = false
		_ = d.dom.Remove(k.addr)
	}
}
