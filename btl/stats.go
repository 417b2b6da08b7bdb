package btl

import (
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/snapshot"
	"gobtl/btl/internal/stats"
)

// Counter identifies one of a module's counters. Its method Metric returns the Prometheus name,
// Label the label that distinguishes counters of the same Metric, Help a sentence that says what
// the Metric counts, and String the metric with its label.
type Counter = stats.Counter

// The constants below are the counters. Each packet that arrives is counted in CntReceived and in
// exactly one of the counters from CntRecvFrag to CntRecvErrors.
const (
	CntSendsFast = stats.CntSendsFast // sends posted inside Send
	// sends put into a shared packet inside Send
	CntSendsPacked = stats.CntSendsPacked
	// sends that went through the endpoint's queue
	CntSendsQueued  = stats.CntSendsQueued
	CntSendsRefused = stats.CntSendsRefused // sends refused with ErrAgain
	CntSentFrag     = stats.CntSentFrag
	CntSentChunk    = stats.CntSentChunk
	CntSentPack     = stats.CntSentPack
	CntSentAck      = stats.CntSentAck
	CntSentNack     = stats.CntSentNack
	CntSentControl  = stats.CntSentControl
	CntSentPing     = stats.CntSentPing
	CntSentPong     = stats.CntSentPong
	// slices of packets that exceed the path MTU
	CntSentPart         = stats.CntSentPart
	CntSentPayloadBytes = stats.CntSentPayloadBytes
	// payload bytes that the fabric has gathered without a copy
	CntSentGatheredBytes = stats.CntSentGatheredBytes
	CntAckPiggybacked    = stats.CntAckPiggybacked
	CntRetransmitTimeout = stats.CntRetransmitTimeout
	CntRetransmitDupAck  = stats.CntRetransmitDupAck
	CntRetransmitLost    = stats.CntRetransmitLost
	// first retransmission of the oldest packet after silence
	CntRetransmitProbe = stats.CntRetransmitProbe
	CntRetransmitNack  = stats.CntRetransmitNack
	CntWithheld        = stats.CntWithheld
	// unnecessary retransmissions: the packet had arrived
	CntSpurious = stats.CntSpurious
	// lost packets that had to wait for the retransmission budget
	CntThrottled            = stats.CntThrottled
	CntPostErrors           = stats.CntPostErrors
	CntSendCompletionErrors = stats.CntSendCompletionErrors
	CntDone                 = stats.CntDone
	CntFailed               = stats.CntFailed

	CntReceived      = stats.CntReceived
	CntRecvFrag      = stats.CntRecvFrag
	CntRecvChunk     = stats.CntRecvChunk
	CntRecvPack      = stats.CntRecvPack
	CntRecvPutFrag   = stats.CntRecvPutFrag
	CntRecvPutChunk  = stats.CntRecvPutChunk
	CntRecvAck       = stats.CntRecvAck
	CntRecvNack      = stats.CntRecvNack
	CntRecvHandshake = stats.CntRecvHandshake
	CntRecvPing      = stats.CntRecvPing
	CntRecvPong      = stats.CntRecvPong
	// slices that did not complete a packet
	CntRecvPart       = stats.CntRecvPart
	CntDuplicate      = stats.CntDuplicate
	CntBelowWindow    = stats.CntBelowWindow
	CntAboveWindow    = stats.CntAboveWindow
	CntDropTruncated  = stats.CntDropTruncated
	CntDropMalformed  = stats.CntDropMalformed
	CntDropVersion    = stats.CntDropVersion
	CntDropConn       = stats.CntDropConn
	CntDropAck        = stats.CntDropAck
	CntDropReassembly = stats.CntDropReassembly
	CntDropNoHandler  = stats.CntDropNoHandler
	CntDropAccess     = stats.CntDropAccess
	// chunks of fragments that the application has refused
	CntDropUnwanted  = stats.CntDropUnwanted
	CntDropHandshake = stats.CntDropHandshake
	CntDropLost      = stats.CntDropLost
	CntDropPing      = stats.CntDropPing
	CntDropState     = stats.CntDropState
	CntRecvErrors    = stats.CntRecvErrors

	CntRecvPayloadBytes = stats.CntRecvPayloadBytes
	CntPacked           = stats.CntPacked // fragments sent in shared packets
	// parts of large fragments sent in shared packets
	CntSentPieces = stats.CntSentPieces
	// parts of large fragments received in shared packets
	CntRecvPieces = stats.CntRecvPieces
	// dropped fragments of accepted shared packets
	CntRecordsDropped = stats.CntRecordsDropped
	// chunks that the provider received in place
	CntLanded = stats.CntLanded
	// chunks of puts that the provider received in place
	CntLandedPut = stats.CntLandedPut
	// fragments kept by handlers in the packet buffer
	CntKeptPackets = stats.CntKeptPackets
	// fragments kept by handlers in reassembly memory
	CntKeptMessages = stats.CntKeptMessages
	// fragments kept by handlers as copies
	CntKeptCopies      = stats.CntKeptCopies
	CntDelivered       = stats.CntDelivered
	CntFastReceives    = stats.CntFastReceives
	CntEarly           = stats.CntEarly
	CntDupAcks         = stats.CntDupAcks
	CntPeersConnected  = stats.CntPeersConnected
	CntPeersFailed     = stats.CntPeersFailed
	CntPeersReliable   = stats.CntPeersReliable
	CntRequestsKept    = stats.CntRequestsKept
	CntRequestsDecided = stats.CntRequestsDecided
	CntRequestsLapsed  = stats.CntRequestsLapsed
	CntPathRaised      = stats.CntPathRaised // increases of the datagram size
	// decreases, because datagrams of the size in use were lost
	CntPathLowered = stats.CntPathLowered
	// packets whose ACK the peer may delay
	CntLoneAnswers = stats.CntLoneAnswers
	// packets that request an ACK or a confirmation
	CntAsked  = stats.CntAsked
	CntPasses = stats.CntPasses
)

// Counters returns a list of all counters.
func Counters() []Counter { return stats.Counters() }

// Stats is a snapshot of a module's counters and gauges.
type Stats struct {
	counters stats.Values
	// The gauges Endpoints, InFlight (packets), SendBuffersFree and CreditsGranted have their
	// values at the time of the snapshot.
	Endpoints, InFlight, SendBuffersFree, CreditsGranted uint64
}

// Get returns the value of counter c.
func (s *Stats) Get(c Counter) uint64 { return s.counters[c] }

// SegmentsSent is the number of packets sent with a sequence number, without retransmissions.
func (s *Stats) SegmentsSent() uint64 {
	return s.counters[CntSentFrag] + s.counters[CntSentChunk] + s.counters[CntSentPack]
}

// Retransmits is the number of retransmitted packets, for all causes.
func (s *Stats) Retransmits() uint64 {
	return s.counters[CntRetransmitTimeout] + s.counters[CntRetransmitDupAck] +
		s.counters[CntRetransmitNack] + s.counters[CntRetransmitLost] +
		s.counters[CntRetransmitProbe]
}

// Duplicates is the number of received packets that had already been received before.
func (s *Stats) Duplicates() uint64 {
	return s.counters[CntDuplicate] + s.counters[CntBelowWindow]
}

// Drops is the number of packets that were received and dropped, for all reasons.
func (s *Stats) Drops() uint64 {
	var n uint64
	for c := CntDropTruncated; c <= CntDropState; c++ {
		n += s.counters[c]
	}
	return n
}

// Unaccounted is the number of received packets that no counter from CntRecvFrag to CntRecvErrors
// has counted, which should always be zero.
func (s *Stats) Unaccounted() int64 { return s.counters.Unaccounted() }

// publishEvery is the maximum age of the published counters while the module is busy.
const publishEvery = time.Millisecond

// maybePublish publishes counters that have changed if the published copy is too old. The argument
// idle of maybePublish is true if no packet has arrived.
func (m *Module) maybePublish(idle bool) {
	dirty, publishedAt := m.all.Unpublished()
	if !dirty {
		return
	}
	age := m.all.Clock.Now.Sub(publishedAt)
	if age >= publishEvery || idle && age >= peer.PublishIdle {
		m.publish()
	}
}

// publishChanges publishes the counters if they have changed.
func (m *Module) publishChanges() {
	if dirty, _ := m.all.Unpublished(); dirty {
		m.publish()
	}
}

// untilPublished returns the time t, or an earlier time at which changed counters must be
// published.
func (m *Module) untilPublished(t Time) Time {
	if dirty, publishedAt := m.all.Unpublished(); dirty {
		t = t.Min(publishedAt.Add(peer.PublishIdle))
	}
	return t
}

// publish copies the counters to where other goroutines read them.
func (m *Module) publish() {
	s, n := &m.stats, &m.stats.counters
	s.Endpoints, s.InFlight = uint64(m.all.Peers.Len()), uint64(m.all.Recovery.InFlight())
	s.SendBuffersFree = uint64(len(m.all.Buffers.FreeSegs))
	s.CreditsGranted = uint64(m.all.Credits.Granted())
	again := m.all.Recovery.Counts()
	n[CntSpurious], n[CntThrottled] = again.Spurious, again.Throttled
	asked := m.all.Handshakes.RequestCounts()
	n[CntRequestsKept], n[CntRequestsDecided] = asked.Kept, asked.Decided
	n[CntRequestsLapsed] = asked.Lapsed
	gauges := [gaugesLen]uint64{s.Endpoints, s.InFlight, s.SendBuffersFree, s.CreditsGranted}
	m.published.Store(n[:], gauges[:])
	m.all.Published()
}

// gaugesLen is the number of gauges in Stats.
const gaugesLen = 4

// load reads the counters as published by the module's goroutine.
func load(published *snapshot.Values) (s Stats) {
	var gauges [gaugesLen]uint64
	published.Load(s.counters[:], gauges[:])
	s.Endpoints, s.InFlight = gauges[0], gauges[1]
	s.SendBuffersFree, s.CreditsGranted = gauges[2], gauges[3]
	return s
}
