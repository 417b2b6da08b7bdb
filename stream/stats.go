package stream

// Stats are the counters of one side of a stream. For a receiver, the following equation holds:
//
//	Sent = Received + Late + Overrun + Missing
type Stats struct {
	// Sent is the number of sent messages, as far as this side knows.
	Sent uint64 `json:"sent"`
	// Received is the number of messages that are complete in the ring's regions.
	Received uint64 `json:"received"`
	// Late is the number of messages that became complete only after their region was passed to the
	// reader.
	Late uint64 `json:"late"`
	// Overrun is the number of complete messages that were dropped because no region was free.
	Overrun uint64 `json:"overrun"`
	// Missing is the number of messages that did not arrive completely, including messages that the
	// sender dropped.
	Missing uint64 `json:"missing"`
	// MissingDatagrams is the number of datagrams that did not arrive, in the unreliable mode,
	// including the datagrams of messages that the sender has dropped.
	MissingDatagrams uint64 `json:"missing_datagrams"`
	// SenderDropped is the number of messages that the sender dropped because no region was free. A
	// receiver knows SenderDropped only after the sender has ended the stream.
	SenderDropped uint64 `json:"sender_dropped"`

	// Datagrams is the number of datagrams sent or received in the unreliable mode, or the number
	// of puts in the reliable mode.
	Datagrams uint64 `json:"datagrams"`
	// Duplicates is the number of repeated datagrams. Stale is the number of datagrams of messages so
	// old that the receiver no longer knows whether the datagrams are duplicates. Foreign is the
	// number of damaged datagrams plus the number of datagrams that belong to no stream of this port.
	Duplicates uint64 `json:"duplicates"`
	Stale      uint64 `json:"stale"`
	Foreign    uint64 `json:"foreign"`
	// SocketDrops is the number of packets that the kernel dropped at this port's sockets,
	// for all streams of the port. SocketDrops counts a dropped packet once, even if the
	// packet holds up to 128 datagrams.
	SocketDrops uint64 `json:"socket_drops"`
	// SendErrors is the number of datagrams that the fabric has refused to send.
	SendErrors uint64 `json:"send_errors"`
	// FullDrops is the number of datagrams that a sender of the unreliable mode has dropped because
	// the queue of their receiver was full, while another receiver accepted all datagrams. On a
	// network without a flow control for each receiver, such as UDP, FullDrops is always 0.
	FullDrops uint64 `json:"full_drops"`

	// Regions is the number of regions that a receiver has passed to the reader, or that a sender has
	// sent. Populated is the number of regions that the receiver's reader has not released, or that
	// the sender has not sent completely.
	Regions   uint64 `json:"regions"`
	Populated uint64 `json:"populated"`
	Capacity  uint64 `json:"capacity"` // number of regions in the ring

	// Bytes is the total size of the messages that were sent, or that were received completely.
	Bytes uint64 `json:"bytes"`
	// FirstNs and LastNs are the times at which the first and the latest message were sent
	// or received. FirstNs and LastNs are in nanoseconds on the engine's clock. A FirstNs
	// of 0 means that no message was sent or received.
	FirstNs int64 `json:"first_ns"`
	LastNs  int64 `json:"last_ns"`
	// BurstBytes is the largest number of bytes sent without a pause, if the sender has a rate
	// limit.
	BurstBytes uint64 `json:"burst_bytes"`
	// ForfeitedNs is the total time, in nanoseconds, by which the sender fell behind its rate and for
	// which it did not catch up later.
	ForfeitedNs int64 `json:"forfeited_ns"`
	// Peers is the number of receivers that take part in the stream at present.
	Peers uint64 `json:"peers"`
	// Refused counts the refused peers by reason.
	Refused Refusals `json:"refused"`
	// PeersLost is the number of receivers that were lost before the end of the stream. The loss of a
	// receiver for which the stream waited at the start makes the stream fail.
	PeersLost uint64 `json:"peers_lost"`
}

// Seconds returns the time from the first message to the latest message in seconds.
func (s *Stats) Seconds() float64 { return float64(s.LastNs-s.FirstNs) / 1e9 }

// MegabytesPerSecond returns the mean rate of the stream in 10^6 bytes per second, or 0 if no
// rate can be computed.
func (s *Stats) MegabytesPerSecond() float64 {
	if s.LastNs <= s.FirstNs {
		return 0
	}
	return float64(s.Bytes) / 1e6 / s.Seconds()
}
