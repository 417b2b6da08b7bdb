package btl

import (
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/snapshot"
	"gobtl/btl/internal/stats"
)

// Counter identifies one of a module's counters. The method Metric of a Counter returns the
// Prometheus metric name, and the method Label returns the label that distinguishes counters of the
// same metric. The method Help of a Counter returns a sentence that says what the metric counts,
// and the method String returns the metric name with the label.
type Counter = stats.Counter

// The constants below are the counters. Each packet that arrives is counted in CntReceived and in
// exactly one of the counters from CntRecvFrag to CntRecvErrors.
const (
	CntSendsFast = stats.CntSendsFast // sends posted inside Send
	// CntSendsPacked counts fragments that Send itself has put into a shared packet.
	CntSendsPacked = stats.CntSendsPacked
	// CntSendsQueued counts sends that went through the endpoint's queue.
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
	// CntSentPart counts datagrams that carry a part of a packet larger than the path MTU.
	CntSentPart         = stats.CntSentPart
	CntSentPayloadBytes = stats.CntSentPayloadBytes
	// CntSentGatheredBytes counts payload bytes that the fabric has gathered without a copy.
	CntSentGatheredBytes = stats.CntSentGatheredBytes
	CntAckPiggybacked    = stats.CntAckPiggybacked
	CntRetransmitTimeout = stats.CntRetransmitTimeout
	CntRetransmitDupAck  = stats.CntRetransmitDupAck
	CntRetransmitLost    = stats.CntRetransmitLost
	// CntRetransmitProbe counts probes, which retransmit the oldest packet once after a silence.
	CntRetransmitProbe = stats.CntRetransmitProbe
	CntRetransmitNack  = stats.CntRetransmitNack
	CntWithheld        = stats.CntWithheld
	// CntSpurious counts unnecessary retransmissions of packets that had arrived.
	CntSpurious = stats.CntSpurious
	// CntThrottled counts lost packets that had to wait for the retransmission budget.
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
	// CntRecvPart counts received parts of large packets, except for parts that completed a packet.
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
	// CntDropUnwanted counts dropped chunks of fragments that the application has refused.
	CntDropUnwanted  = stats.CntDropUnwanted
	CntDropHandshake = stats.CntDropHandshake
	CntDropLost      = stats.CntDropLost
	CntDropPing      = stats.CntDropPing
	CntDropState     = stats.CntDropState
	CntRecvErrors    = stats.CntRecvErrors

	CntRecvPayloadBytes = stats.CntRecvPayloadBytes
	CntPacked           = stats.CntPacked // fragments sent in shared packets
	// CntSentPieces counts parts of large fragments that were sent in shared packets.
	CntSentPieces = stats.CntSentPieces
	// CntRecvPieces counts parts of large fragments that were received in shared packets.
	CntRecvPieces = stats.CntRecvPieces
	// CntRecordsDropped counts fragments that were dropped although the shared packet that contained
	// them was accepted.
	CntRecordsDropped = stats.CntRecordsDropped
	// CntLanded counts chunks that the provider received directly into their destination buffer.
	CntLanded = stats.CntLanded
	// CntLandedPut counts chunks of puts that the provider received directly into the target region.
	CntLandedPut = stats.CntLandedPut
	// CntKeptPackets counts fragments that handlers have kept in the packet buffer, without a copy.
	CntKeptPackets = stats.CntKeptPackets
	// CntKeptMessages counts fragments that handlers have kept in reassembly memory, without a copy.
	CntKeptMessages = stats.CntKeptMessages
	// CntKeptCopies counts fragments of which handlers have kept a copy.
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
	// CntPathLowered counts decreases of the datagram size after losses of datagrams.
	CntPathLowered = stats.CntPathLowered
	// CntLoneAnswers counts sent packets whose ACK the peer can delay until its next message.
	CntLoneAnswers = stats.CntLoneAnswers
	// CntAsked counts packets that request an immediate ACK or, over a reliable fabric, a
	// confirmation.
	CntAsked  = stats.CntAsked
	CntPasses = stats.CntPasses
)

// Counters returns a list of all counters.
func Counters() []Counter { return stats.Counters() }

// Stats is a snapshot of a module's counters and gauges.
type Stats struct {
	counters stats.Values
	// The fields Endpoints, InFlight (in packets), SendBuffersFree and CreditsGranted are gauges at
	// the time of the snapshot.
	Endpoints, InFlight, SendBuffersFree, CreditsGranted uint64
}

// Get returns the value of counter c.
func (s *Stats) Get(c Counter) uint64 { return s.counters[c] }

// SegmentsSent returns the number of packets sent with a sequence number, except retransmissions.
func (s *Stats) SegmentsSent() uint64 {
	return s.counters[CntSentFrag] + s.counters[CntSentChunk] + s.counters[CntSentPack]
}

// Retransmits returns the number of retransmissions, for all causes together.
func (s *Stats) Retransmits() uint64 {
	return s.counters[CntRetransmitTimeout] + s.counters[CntRetransmitDupAck] +
		s.counters[CntRetransmitNack] + s.counters[CntRetransmitLost] +
		s.counters[CntRetransmitProbe]
}

// Duplicates returns the number of received packets that had already been received before.
func (s *Stats) Duplicates() uint64 {
	return s.counters[CntDuplicate] + s.counters[CntBelowWindow]
}

// Drops returns the number of packets that were received and dropped, for all reasons together.
func (s *Stats) Drops() uint64 {
	var n uint64
	for c := CntDropTruncated; c <= CntDropState; c++ {
		n += s.counters[c]
	}
	return n
}

// Unaccounted returns the number of received packets that no counter from CntRecvFrag to
// CntRecvErrors has counted. A result other than zero is a bug.
func (s *Stats) Unaccounted() int64 { return s.counters.Unaccounted() }

// publishEvery is the maximum age of the published counters while the module is busy.
const publishEvery = time.Millisecond

func (m *Module) publishChanges() {
	if m.all.Dirty {
		m.publish()
	}
}

// untilPublished returns the time t, or an earlier time at which changed counters must be
// published.
func (m *Module) untilPublished(t Time) Time {
	if m.all.Dirty {
		t = t.Min(m.all.PublishedAt.Add(peer.PublishIdle))
	}
	return t
}

// The method "publish" copies the counters to the memory from which other goroutines read them.
func (m *Module) publish() {
	n := m.counters
	again := m.all.Recovery.Counts()
	n[CntSpurious], n[CntThrottled] = again.Spurious, again.Throttled
	asked := m.all.Handshakes.Kept.Counts
	n[CntRequestsKept], n[CntRequestsDecided] = asked.Kept, asked.Decided
	n[CntRequestsLapsed] = asked.Lapsed
	gauges := [gaugesLen]uint64{
		uint64(m.all.Peers.Len()), uint64(m.all.Recovery.InFlight()),
		uint64(len(m.all.Buffers.FreeSegs)), uint64(m.all.Credits.Granted()),
	}
	m.published.Store(n[:], gauges[:])
	m.all.Published()
}

const gaugesLen = 4

// The function "load" reads the counters that the module's goroutine has published.
func load(published *snapshot.Values) (s Stats) {
	var gauges [gaugesLen]uint64
	published.Load(s.counters[:], gauges[:])
	s.Endpoints, s.InFlight = gauges[0], gauges[1]
	s.SendBuffersFree, s.CreditsGranted = gauges[2], gauges[3]
	return s
}
