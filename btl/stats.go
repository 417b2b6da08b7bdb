package btl

import (
	"sync/atomic"
	"time"
)

// Counter numbers one of a module's counters.
type Counter uint8

// The counters. Each packet that arrives is counted in CntReceived and in exactly one of the
// counters from CntRecvFrag to CntRecvErrors.
const (
	CntSendsFast    Counter = iota // sends posted inside Send
	CntSendsPacked                 // sends put into an open pack inside Send
	CntSendsQueued                 // sends that went through the endpoint's to-send list
	CntSendsRefused                // sends refused with ErrAgain
	CntSentFrag
	CntSentChunk
	CntSentPack
	CntSentAck
	CntSentNack
	CntSentControl
	CntSentPing
	CntSentPong
	CntSentPart // slices of packets that are too large for what the path carries now
	CntSentPayloadBytes
	CntSentGatheredBytes // of these, those that the fabric has read where they lay, uncopied
	CntAckPiggybacked
	CntRetransmitTimeout
	CntRetransmitDupAck
	CntRetransmitLost
	CntRetransmitProbe // the oldest packet, for the first time after a silence
	CntRetransmitNack
	CntWithheld
	CntSpurious  // packets sent again that had arrived before
	CntThrottled // packets found lost that had to wait for the resend budget
	CntPostErrors
	CntSendCompletionErrors
	CntDone
	CntFailed

	CntReceived
	CntRecvFrag
	CntRecvChunk
	CntRecvPack
	CntRecvPutFrag
	CntRecvPutChunk
	CntRecvAck
	CntRecvNack
	CntRecvHandshake
	CntRecvPing
	CntRecvPong
	CntRecvPart // slices that made no packet whole
	CntDuplicate
	CntBelowWindow
	CntAboveWindow
	CntDropTruncated
	CntDropMalformed
	CntDropVersion
	CntDropConn
	CntDropAck
	CntDropReassembly
	CntDropNoHandler
	CntDropAccess
	CntDropUnwanted // chunks of fragments that the owner has refused
	CntDropHandshake
	CntDropLost
	CntDropPing
	CntDropState
	CntRecvErrors

	CntRecvPayloadBytes
	CntPacked         // fragments that left in packs
	CntSentPieces     // pieces of fragments that left in packs
	CntRecvPieces     // and that came
	CntRecordsDropped // of packs that were taken over, whose handler was removed meanwhile
	CntLanded         // chunks that the provider put into their place
	CntLandedPut      // and those of puts, in their region
	CntKeptPackets    // fragments that handlers have kept in the buffer of their packet
	CntKeptMessages   // and in the memory in which they were put together
	CntKeptCopies     // and as copies
	CntDelivered
	CntFastReceives
	CntEarly
	CntDupAcks
	CntPeersConnected
	CntPeersFailed
	CntPeersReliable
	CntPathRaised  // larger datagrams were found to pass
	CntPathLowered // those of the size in use did not pass any more
	CntLoneAnswers // packets sent whose ACK the peer may hold back
	CntAsked       // packets that ask the peer for an ACK, or for a confirmation
	CntPasses

	numCounters
)

// counterInfo is a counter's Prometheus metric, its label pair, and its help text.
type counterInfo struct{ metric, label, value, help string }

const (
	helpSends    = "Sends accepted or refused, by the path they took."
	helpSent     = "Packets sent for the first time, by type."
	helpRetr     = "Packets sent again, by cause."
	helpWithheld = "Packets sent late, to find out whether the peer acknowledges what it has not got."
	helpSpurious = "Packets sent again in vain: they had arrived before, as the peers tell."
	helpThrottle = "Packets found lost that had to wait, because too much was being sent again."
	helpErrors   = "Operations of the fabric that failed, by kind."
	helpEnded    = "Accepted sends that ended, by outcome."
	helpRecv     = "Packets received and used, by type."
	helpRepeat   = "Packets received that were no news, by their place in the receive window."
	helpDrop     = "Packets received and dropped, by reason."
	helpBytes    = "Payload bytes of fragments, without headers and retransmissions, by direction."
	helpPiggy    = "ACKs that rode on other packets."
	helpFast     = "Fragments delivered before their book-keeping."
	helpRecords  = "Fragments of packs whose handler, or endpoint, went during the delivery."
	helpGathered = "Payload bytes that the fabric has read where they lay, first transmissions only."
	helpKept     = "Fragments that handlers have kept, by the memory that they are in."
	helpPieces   = "Ends and beginnings of fragments in chunks that shared packets, by direction."
	helpReliable = "Connections that leave it to the fabric that nothing is lost."
	helpLanded   = "Chunks received without a copy here."
	helpPath     = "Changes of the largest datagram that is sent to a peer."
	helpAsked    = "Packets that asked the peer for an acknowledgement, or a confirmation."
	helpLone     = "Packets sent whose acknowledgement the peer might hold back: lone answers."
	helpPeers    = "Connections, by what became of them."
)

var counterInfos = [numCounters]counterInfo{
	CntSendsFast:            {"gobtl_sends_total", "path", "fast", helpSends},
	CntSendsPacked:          {"gobtl_sends_total", "path", "packed", helpSends},
	CntSendsQueued:          {"gobtl_sends_total", "path", "queued", helpSends},
	CntSendsRefused:         {"gobtl_sends_total", "path", "refused", helpSends},
	CntSentFrag:             {"gobtl_sent_packets_total", "type", "frag", helpSent},
	CntSentChunk:            {"gobtl_sent_packets_total", "type", "chunk", helpSent},
	CntSentPack:             {"gobtl_sent_packets_total", "type", "pack", helpSent},
	CntSentAck:              {"gobtl_sent_packets_total", "type", "ack", helpSent},
	CntSentNack:             {"gobtl_sent_packets_total", "type", "nack", helpSent},
	CntSentControl:          {"gobtl_sent_packets_total", "type", "handshake", helpSent},
	CntSentPing:             {"gobtl_sent_packets_total", "type", "ping", helpSent},
	CntSentPong:             {"gobtl_sent_packets_total", "type", "pong", helpSent},
	CntSentPart:             {"gobtl_sent_packets_total", "type", "part", helpSent},
	CntSentPayloadBytes:     {"gobtl_payload_bytes_total", "direction", "sent", helpBytes},
	CntSentGatheredBytes:    {"gobtl_gathered_bytes_total", "", "", helpGathered},
	CntAckPiggybacked:       {"gobtl_acks_piggybacked_total", "", "", helpPiggy},
	CntRetransmitTimeout:    {"gobtl_retransmits_total", "cause", "timeout", helpRetr},
	CntRetransmitDupAck:     {"gobtl_retransmits_total", "cause", "duplicate_ack", helpRetr},
	CntRetransmitLost:       {"gobtl_retransmits_total", "cause", "lost", helpRetr},
	CntRetransmitProbe:      {"gobtl_retransmits_total", "cause", "probe", helpRetr},
	CntSpurious:             {"gobtl_spurious_retransmits_total", "", "", helpSpurious},
	CntThrottled:            {"gobtl_throttled_retransmits_total", "", "", helpThrottle},
	CntRetransmitNack:       {"gobtl_retransmits_total", "cause", "nack", helpRetr},
	CntWithheld:             {"gobtl_withheld_total", "", "", helpWithheld},
	CntPostErrors:           {"gobtl_fabric_errors_total", "kind", "post", helpErrors},
	CntSendCompletionErrors: {"gobtl_fabric_errors_total", "kind", "send_completion", helpErrors},
	CntRecvErrors:           {"gobtl_fabric_errors_total", "kind", "receive_completion", helpErrors},
	CntDone:                 {"gobtl_sends_ended_total", "outcome", "done", helpEnded},
	CntFailed:               {"gobtl_sends_ended_total", "outcome", "failed", helpEnded},

	CntReceived:      {"gobtl_received_packets_total", "", "", "Packets received, of any kind."},
	CntRecvFrag:      {"gobtl_used_packets_total", "type", "frag", helpRecv},
	CntRecvChunk:     {"gobtl_used_packets_total", "type", "chunk", helpRecv},
	CntRecvPack:      {"gobtl_used_packets_total", "type", "pack", helpRecv},
	CntRecvPutFrag:   {"gobtl_used_packets_total", "type", "put_frag", helpRecv},
	CntRecvPutChunk:  {"gobtl_used_packets_total", "type", "put_chunk", helpRecv},
	CntRecvAck:       {"gobtl_used_packets_total", "type", "ack", helpRecv},
	CntRecvNack:      {"gobtl_used_packets_total", "type", "nack", helpRecv},
	CntRecvHandshake: {"gobtl_used_packets_total", "type", "handshake", helpRecv},
	CntRecvPing:      {"gobtl_used_packets_total", "type", "ping", helpRecv},
	CntRecvPong:      {"gobtl_used_packets_total", "type", "pong", helpRecv},
	CntRecvPart:      {"gobtl_used_packets_total", "type", "part", helpRecv},
	CntDuplicate:     {"gobtl_repeated_packets_total", "window", "inside", helpRepeat},
	CntBelowWindow:   {"gobtl_repeated_packets_total", "window", "below", helpRepeat},
	CntAboveWindow:   {"gobtl_repeated_packets_total", "window", "above", helpRepeat},

	CntDropTruncated:  {"gobtl_dropped_packets_total", "reason", "truncated", helpDrop},
	CntDropMalformed:  {"gobtl_dropped_packets_total", "reason", "malformed", helpDrop},
	CntDropVersion:    {"gobtl_dropped_packets_total", "reason", "version", helpDrop},
	CntDropConn:       {"gobtl_dropped_packets_total", "reason", "unknown_connection", helpDrop},
	CntDropAck:        {"gobtl_dropped_packets_total", "reason", "ack_of_unsent", helpDrop},
	CntDropReassembly: {"gobtl_dropped_packets_total", "reason", "reassembly", helpDrop},
	CntDropNoHandler:  {"gobtl_dropped_packets_total", "reason", "no_handler", helpDrop},
	CntDropAccess:     {"gobtl_dropped_packets_total", "reason", "access", helpDrop},
	CntDropUnwanted:   {"gobtl_dropped_packets_total", "reason", "unwanted", helpDrop},
	CntDropHandshake:  {"gobtl_dropped_packets_total", "reason", "handshake", helpDrop},
	CntDropLost:       {"gobtl_dropped_packets_total", "reason", "lost_before", helpDrop},
	CntDropPing:       {"gobtl_dropped_packets_total", "reason", "ping", helpDrop},
	CntDropState:      {"gobtl_dropped_packets_total", "reason", "endpoint_state", helpDrop},

	CntRecvPayloadBytes: {"gobtl_payload_bytes_total", "direction", "received", helpBytes},
	CntPacked:           {"gobtl_packed_total", "", "", "Fragments that shared a packet."},
	CntSentPieces:       {"gobtl_pieces_total", "direction", "sent", helpPieces},
	CntRecvPieces:       {"gobtl_pieces_total", "direction", "received", helpPieces},
	CntRecordsDropped:   {"gobtl_records_dropped_total", "", "", helpRecords},
	CntLanded:           {"gobtl_landed_chunks_total", "kind", "message", helpLanded},
	CntLandedPut:        {"gobtl_landed_chunks_total", "kind", "put", helpLanded},
	CntKeptPackets:      {"gobtl_kept_total", "memory", "packet", helpKept},
	CntKeptMessages:     {"gobtl_kept_total", "memory", "reassembly", helpKept},
	CntKeptCopies:       {"gobtl_kept_total", "memory", "copy", helpKept},
	CntDelivered:        {"gobtl_delivered_total", "", "", "Fragments handed to a handler."},
	CntFastReceives:     {"gobtl_fast_receives_total", "", "", helpFast},
	CntEarly:            {"gobtl_early_packets_total", "", "", "Packets that arrived beyond a gap."},
	CntDupAcks:          {"gobtl_duplicate_acks_total", "", "", "ACKs that reported a gap."},
	CntPeersConnected:   {"gobtl_connections_total", "outcome", "established", helpPeers},
	CntPeersFailed:      {"gobtl_connections_total", "outcome", "failed", helpPeers},
	CntPeersReliable:    {"gobtl_reliable_connections_total", "", "", helpReliable},
	CntPathRaised:       {"gobtl_path_mtu_changes_total", "direction", "raised", helpPath},
	CntPathLowered:      {"gobtl_path_mtu_changes_total", "direction", "lowered", helpPath},
	CntLoneAnswers:      {"gobtl_lone_answers_total", "", "", helpLone},
	CntAsked:            {"gobtl_asked_packets_total", "", "", helpAsked},
	CntPasses:           {"gobtl_progress_passes_total", "", "", "Passes of the progress loop."},
}

// Counters lists all counters.
func Counters() []Counter {
	all := make([]Counter, numCounters)
	for i := range all {
		all[i] = Counter(i)
	}
	return all
}

// Metric is the counter's Prometheus name; several counters that differ in a label share one.
func (c Counter) Metric() string { return counterInfos[c].metric }

// Label is the label that distinguishes counters of one Metric; both are empty if it has just one.
func (c Counter) Label() (name, value string) {
	return counterInfos[c].label, counterInfos[c].value
}

// Help says in a sentence what the Metric counts.
func (c Counter) Help() string { return counterInfos[c].help }

// String is the counter's readable name: metric, or metric{label="value"}.
func (c Counter) String() string {
	i := counterInfos[c]
	if i.label == "" {
		return i.metric
	}
	return i.metric + "{" + i.label + "=\"" + i.value + "\"}"
}

// Stats is a snapshot of a module's counters and gauges.
type Stats struct {
	counters [numCounters]uint64
	// Endpoints, InFlight (packets), SendBuffersFree and CreditsGranted are as of the snapshot.
	Endpoints, InFlight, SendBuffersFree, CreditsGranted uint64
}

// Get returns one counter.
func (s *Stats) Get(c Counter) uint64 { return s.counters[c] }

// SegmentsSent is the number of packets that carry a sequence number, without those sent again.
func (s *Stats) SegmentsSent() uint64 {
	return s.counters[CntSentFrag] + s.counters[CntSentChunk] + s.counters[CntSentPack]
}

// Retransmits is the number of packets sent again, whatever the cause.
func (s *Stats) Retransmits() uint64 {
	return s.counters[CntRetransmitTimeout] + s.counters[CntRetransmitDupAck] +
		s.counters[CntRetransmitNack] + s.counters[CntRetransmitLost] +
		s.counters[CntRetransmitProbe]
}

// Duplicates is the number of packets received that had been received before.
func (s *Stats) Duplicates() uint64 {
	return s.counters[CntDuplicate] + s.counters[CntBelowWindow]
}

// Drops is the number of packets received and dropped, whatever the reason.
func (s *Stats) Drops() uint64 {
	var n uint64
	for c := CntDropTruncated; c <= CntDropState; c++ {
		n += s.counters[c]
	}
	return n
}

// Unaccounted is the number of packets received that no other counter explains; always zero.
func (s *Stats) Unaccounted() int64 {
	n := int64(s.counters[CntReceived])
	for c := CntRecvFrag; c <= CntRecvErrors; c++ {
		n -= int64(s.counters[c])
	}
	return n
}

// counters are a module's counters, in plain memory, and the copy published to other goroutines.
type counters struct {
	stats       Stats
	pub         published
	dirty       bool // pub is behind stats
	publishedAt Time
}

const (
	// publishEvery bounds the age of the counters that other goroutines see while the module is busy.
	publishEvery = time.Millisecond
	// publishIdle bounds that age while nothing arrives. It is not 0, as a pass between a message
	// and its answer, which takes less time, should not publish. A driver that is about to sleep
	// publishes first.
	publishIdle = 10 * time.Microsecond
)

// maybePublish publishes if that is due; idle says that nothing has arrived.
func (m *Module) maybePublish(idle bool) {
	age := m.now.Sub(m.publishedAt)
	if age >= publishEvery || idle && age >= publishIdle {
		m.publish()
	}
}

// touch notes that the counters have changed. Passes may rest on, but only until the counters must
// be published.
func (m *Module) touch() {
	if !m.dirty {
		m.dirty = true
		m.restUntil = m.restUntil.Min(m.publishedAt.Add(publishIdle))
	}
}

// publish lets other goroutines see the counters.
func (m *Module) publish() {
	s := &m.stats
	s.Endpoints = uint64(m.peers.Len())
	s.SendBuffersFree = uint64(len(m.freeSegs))
	s.InFlight = uint64(m.recovery.InFlight())
	s.CreditsGranted = uint64(m.credits.Granted())
	again := m.recovery.Counts()
	s.counters[CntSpurious], s.counters[CntThrottled] = again.Spurious, again.Throttled
	m.pub.store(s)
	m.dirty, m.publishedAt = false, m.now
}

// published is the copy of the counters that other goroutines read. The owner counts in plain
// memory, which costs next to nothing per packet, and copies the counters here now and then; a
// sequence number that is odd during the copy makes a reader retry.
type published struct {
	version atomic.Uint64
	values  [numCounters + 4]atomic.Uint64
}

func (p *published) store(s *Stats) {
	p.version.Add(1)
	for i := range s.counters {
		p.set(i, s.counters[i])
	}
	for i, v := range [...]uint64{s.Endpoints, s.InFlight, s.SendBuffersFree, s.CreditsGranted} {
		p.set(int(numCounters)+i, v)
	}
	p.version.Add(1)
}

// set stores a counter that has changed: an atomic store costs as much as ten loads, and few
// counters change between two copies.
func (p *published) set(i int, v uint64) {
	if p.values[i].Load() != v {
		p.values[i].Store(v)
	}
}

func (p *published) load() Stats {
	var s Stats
	for {
		before := p.version.Load()
		for i := range s.counters {
			s.counters[i] = p.values[i].Load()
		}
		for i, v := range []*uint64{&s.Endpoints, &s.InFlight, &s.SendBuffersFree, &s.CreditsGranted} {
			*v = p.values[int(numCounters)+i].Load()
		}
		if before%2 == 0 && p.version.Load() == before {
			return s
		}
	}
}
