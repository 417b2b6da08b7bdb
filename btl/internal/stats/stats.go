// Package stats defines the names of a module's counters, and the type of their values.
//
// Values has no lock. Package snapshot publishes the values to all goroutines.
package stats

// Counter identifies one of a module's counters.
type Counter uint8

// The constants below are the counters. Each packet that arrives is counted in CntReceived and in
// exactly one of the counters from CntRecvFrag to CntRecvErrors.
const (
	CntSendsFast    Counter = iota // sends posted inside Send
	CntSendsPacked                 // sends put into a shared packet inside Send
	CntSendsQueued                 // sends that went through the endpoint's queue
	CntSendsRefused                // sends refused with ErrAgain
	CntSentFrag
	CntSentChunk
	CntSentPack
	CntSentAck
	CntSentNack
	CntSentControl
	CntSentPing
	CntSentPong
	CntSentPart // slices of packets that exceed the path MTU
	CntSentPayloadBytes
	CntSentGatheredBytes // payload bytes that the fabric has gathered without a copy
	CntAckPiggybacked
	CntRetransmitTimeout
	CntRetransmitDupAck
	CntRetransmitLost
	CntRetransmitProbe // first retransmission of the oldest packet after silence
	CntRetransmitNack
	CntWithheld
	CntSpurious  // unnecessary retransmissions: the first transmission had arrived
	CntThrottled // lost packets that had to wait for the retransmission budget
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
	CntRecvPart // slices that did not complete a packet
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
	CntDropUnwanted // chunks of fragments that the application has refused
	CntDropHandshake
	CntDropLost
	CntDropPing
	CntDropState
	CntRecvErrors

	CntRecvPayloadBytes
	CntPacked         // fragments sent in shared packets
	CntSentPieces     // parts of large fragments sent in shared packets
	CntRecvPieces     // parts of large fragments received in shared packets
	CntRecordsDropped // dropped fragments of accepted shared packets
	CntLanded         // chunks that the provider received in place
	CntLandedPut      // chunks of puts that the provider received in place
	CntKeptPackets    // fragments kept by handlers in the packet buffer
	CntKeptMessages   // fragments kept by handlers in reassembly memory
	CntKeptCopies     // fragments kept by handlers as copies
	CntDelivered
	CntFastReceives
	CntEarly
	CntDupAcks
	CntPeersConnected
	CntPeersFailed
	CntPeersReliable
	CntRequestsKept
	CntRequestsDecided
	CntRequestsLapsed
	CntPathRaised  // increases of the datagram size
	CntPathLowered // decreases, because datagrams of the size in use were lost
	CntLoneAnswers // packets whose ACK the peer is allowed to delay
	CntAsked       // packets that request an ACK or a confirmation
	CntPasses

	// Count is the number of counters.
	Count
)

type counterInfo struct{ metric, label, value, help string }

const (
	helpSends    = "Messages given to Send, accepted or refused, by the path that they took."
	helpSent     = "Packets sent for the first time, by type."
	helpRetr     = "Packets sent again, by the reason for which they were taken as lost."
	helpWithheld = "Packets sent late on purpose, to detect peers that acknowledge too early."
	helpSpurious = "Packets sent again although they had arrived, as ACKs of the peers show."
	helpThrottle = "Lost packets that were sent again late, because of the resend limit."
	helpErrors   = "Operations of the network provider that failed, by kind."
	helpEnded    = "Accepted messages that ended, by outcome."
	helpReceived = "Packets received, of all types, also those that were dropped."
	helpPacked   = "Messages sent in packets that several messages share."
	helpEarly    = "Packets that arrived while an earlier packet was missing."
	helpDupAcks  = "ACKs received that reported a missing packet."
	helpRecv     = "Packets received and processed, by type."
	helpRepeat   = "Packets received and ignored, by their place in the receive window."
	helpDrop     = "Packets received and dropped, by reason."
	helpBytes    = "Payload bytes of messages, without headers and packets sent again, by direction."
	helpPiggy    = "ACKs sent inside data packets, instead of in packets of their own."
	helpFast     = "Messages passed to a handler before the connection's state was updated."
	helpRecords  = "Messages of shared packets dropped: the handler or connection had ended."
	helpGathered = "Payload bytes sent from the program's memory without a copy."
	helpKept     = "Messages kept by Module.Keep, by the memory that holds the message."
	helpPieces   = "Beginnings and ends of large messages in shared packets, by direction."
	helpReliable = "Connections on which the network provider, and not gobtl, recovers from losses."
	helpLanded   = "Packets of large messages received at their final place, without a copy."
	helpPath     = "Changes of the size of the largest datagram that is sent to a peer, by direction."
	helpAsked    = "Packets that requested an immediate acknowledgement from the peer."
	helpLone     = "Packets sent whose ACK the peer may delay until it sends a message."
	helpRequests = "Connection requests that the application has kept, and what became of them."
	helpPeers    = "Connections established, and connections that ended with an error."
)

var counterInfos = [Count]counterInfo{
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

	CntReceived:      {"gobtl_received_packets_total", "", "", helpReceived},
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
	CntPacked:           {"gobtl_packed_total", "", "", helpPacked},
	CntSentPieces:       {"gobtl_pieces_total", "direction", "sent", helpPieces},
	CntRecvPieces:       {"gobtl_pieces_total", "direction", "received", helpPieces},
	CntRecordsDropped:   {"gobtl_records_dropped_total", "", "", helpRecords},
	CntLanded:           {"gobtl_landed_chunks_total", "kind", "message", helpLanded},
	CntLandedPut:        {"gobtl_landed_chunks_total", "kind", "put", helpLanded},
	CntKeptPackets:      {"gobtl_kept_total", "memory", "packet", helpKept},
	CntKeptMessages:     {"gobtl_kept_total", "memory", "reassembly", helpKept},
	CntKeptCopies:       {"gobtl_kept_total", "memory", "copy", helpKept},
	CntDelivered:        {"gobtl_delivered_total", "", "", "Messages passed to a handler."},
	CntFastReceives:     {"gobtl_fast_receives_total", "", "", helpFast},
	CntEarly:            {"gobtl_early_packets_total", "", "", helpEarly},
	CntDupAcks:          {"gobtl_duplicate_acks_total", "", "", helpDupAcks},
	CntPeersConnected:   {"gobtl_connections_total", "outcome", "established", helpPeers},
	CntPeersFailed:      {"gobtl_connections_total", "outcome", "failed", helpPeers},
	CntPeersReliable:    {"gobtl_reliable_connections_total", "", "", helpReliable},
	CntRequestsKept:     {"gobtl_kept_requests_total", "event", "kept", helpRequests},
	CntRequestsDecided:  {"gobtl_kept_requests_total", "event", "decided", helpRequests},
	CntRequestsLapsed:   {"gobtl_kept_requests_total", "event", "lapsed", helpRequests},
	CntPathRaised:       {"gobtl_path_mtu_changes_total", "direction", "raised", helpPath},
	CntPathLowered:      {"gobtl_path_mtu_changes_total", "direction", "lowered", helpPath},
	CntLoneAnswers:      {"gobtl_lone_answers_total", "", "", helpLone},
	CntAsked:            {"gobtl_asked_packets_total", "", "", helpAsked},
	CntPasses:           {"gobtl_progress_passes_total", "", "", "Calls of Progress."},
}

// Counters returns a list of all counters.
func Counters() []Counter {
	all := make([]Counter, Count)
	for i := range all {
		all[i] = Counter(i)
	}
	return all
}

// Metric returns the Prometheus name of the counter. Counters that differ only in the label have
// the same Metric.
func (c Counter) Metric() string { return counterInfos[c].metric }

// Label returns the label that distinguishes counters of the same Metric. For a Metric with only
// one counter, the name and the value of the label are empty.
func (c Counter) Label() (name, value string) {
	return counterInfos[c].label, counterInfos[c].value
}

// Help returns a sentence that says what the Metric counts.
func (c Counter) Help() string { return counterInfos[c].help }

// String returns the counter's name, which is the metric for a counter without a label, and
// metric{label="value"} for a counter with a label.
func (c Counter) String() string {
	i := counterInfos[c]
	if i.label == "" {
		return i.metric
	}
	return i.metric + "{" + i.label + "=\"" + i.value + "\"}"
}

// Values are the values of all counters.
type Values [Count]uint64

// Unaccounted returns the number of received packets that were counted in none of the counters from
// CntRecvFrag to CntRecvErrors. The result of Unaccounted should always be zero.
func (v *Values) Unaccounted() int64 {
	n := int64(v[CntReceived])
	for c := CntRecvFrag; c <= CntRecvErrors; c++ {
		n -= int64(v[c])
	}
	return n
}
