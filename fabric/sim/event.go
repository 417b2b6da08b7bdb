package sim

import (
	"hash/crc32"
	"math/bits"

	"gobtl/internal/mono"
)

// Kind is the kind of an event.
type Kind uint8

// The following constants are the kinds of events. In an Event that concerns a datagram, the field
// Data holds the bytes of the datagram. In an Event that concerns a node, the fields From and To
// are Port{node, 0}.
const (
	KindSent         Kind = iota // a datagram left its node
	KindDelivered                // copied into a posted receive buffer, by Poll
	KindLost                     // Path.Loss
	KindBurstLost                // Path.BurstLoss
	KindDuplicated               // an extra copy is in transit (Path.Duplicate, Verdict.Copies)
	KindReordered                // held back (Path.Reorder)
	KindBitFlip                  // one to three bits were inverted
	KindChecksum                 // dropped by the receiver for its wrong bits (Path.Checksum)
	KindTruncated                // the datagram was truncated
	KindJunk                     // random bytes are in transit
	KindReplayed                 // an old datagram is in transit again
	KindCut                      // dropped by Path.Cut
	KindTooLong                  // dropped by Path.MTUBytes
	KindTailDrop                 // dropped because the line's queue is full
	KindQueueFull                // dropped because the receiver's queue is full
	KindUnreachable              // dropped because the endpoint is not open
	KindFiltered                 // dropped by the Filter
	KindInjected                 // sent by Inject
	KindPostAgain                // NodeFaults.PostAgain refused the rest of a Post
	KindSendError                // NodeFaults.SendError: the datagram never left
	KindRecvError                // NodeFaults.RecvError: the datagram is lost
	KindPause                    // of a node
	KindSlow                     // a node's call of Progress was late because of SetPace
	KindCrash                    // of a node
	KindOpen                     // a node's first Open
	KindRestart                  // a node's later Opens
	KindProcessError             // a node's process failed and was stopped: Err
	NumKinds
)

var kindNames = [NumKinds]string{
	"sent", "delivered", "lost", "burst lost", "duplicated", "reordered", "bit flip", "checksum",
	"truncated", "junk", "replayed", "cut", "too long", "tail drop", "queue full", "unreachable",
	"filtered", "injected", "post again", "send error", "receive error", "pause", "slow", "crash",
	"open", "restart", "process error",
}

// String returns the kind in lower-case words, such as "tail drop".
func (k Kind) String() string {
	if k >= NumKinds {
		return "unknown"
	}
	return kindNames[k]
}

// Entry reports whether each event of this kind adds a datagram to the network.
func (k Kind) Entry() bool {
	switch k {
	case KindSent, KindDuplicated, KindJunk, KindReplayed, KindInjected:
		return true
	default:
		return false
	}
}

// Drop reports whether each event of this kind removes a datagram from the network without
// delivery.
func (k Kind) Drop() bool {
	switch k {
	case KindLost, KindBurstLost, KindChecksum, KindCut, KindTooLong, KindTailDrop, KindQueueFull,
		KindUnreachable, KindFiltered, KindRecvError:
		return true
	default:
		return false
	}
}

// Event describes an event in the network. An Event and its Data are valid only during the call of
// Config.Observe, and the function Observe must not alter the Event or its Data.
type Event struct {
	At       mono.Time
	Kind     Kind
	From, To Port
	// ID is the number of a datagram, counted from 1 in the order in which the datagrams left their
	// senders. Duplicates and replays of a datagram have the ID of the original datagram.
	ID   uint64
	Data []byte
	Err  error
}

// Counts are the numbers of events by Kind.
type Counts [NumKinds]uint64

// Entered returns the number of datagrams that were added to the network, including duplicates and
// replays.
func (c *Counts) Entered() uint64 { return c.sum(Kind.Entry) }

// Dropped returns the number of datagrams that the network has dropped.
func (c *Counts) Dropped() uint64 { return c.sum(Kind.Drop) }

func (c *Counts) sum(of func(Kind) bool) (n uint64) {
	for k := range NumKinds {
		if of(k) {
			n += c[k]
		}
	}
	return n
}

// The method "record" counts the event "e", adds the event to the hash of all events, and calls
// Config.Observe. The argument "crc" is the checksum of e.Data.
func (nw *Network) record(e Event, crc uint32) {
	nw.counts[e.Kind]++
	h := mix(nw.hash, uint64(nw.now))
	h = mix(h, uint64(e.Kind)<<56^pack(e.From)<<28^pack(e.To))
	h = mix(h, e.ID)
	nw.hash = mix(h, uint64(len(e.Data))<<32|uint64(crc))
	if nw.cfg.Observe != nil {
		e.At = nw.now
		nw.event = e // avoids an allocation of the argument for each event
		nw.cfg.Observe(&nw.event)
		nw.event = Event{}
	}
}

// The method "datagram" records an event of a datagram.
func (nw *Network) datagram(kind Kind, p *packet) {
	nw.record(Event{Kind: kind, From: p.from, To: p.to, ID: p.id, Data: p.data}, p.checksum())
}

func pack(p Port) uint64 { return uint64(p.Node)<<16 ^ uint64(p.Index) }

// The function "mix" returns the hash that results from adding the argument "word" to the hash "h".
func mix(h, word uint64) uint64 {
	return bits.RotateLeft64((h^word)*0x9e3779b97f4a7c15, 29)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
