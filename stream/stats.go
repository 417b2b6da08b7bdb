package stream

// Stats are the counters of a side. The message counts of a receiver add up:
//
//	Sent = Received + Late + Overrun + Missing
type Stats struct {
	// Sent is the number of sent messages, as far as this side knows.
	Sent uint64 `json:"sent"`
	// Received messages are complete in the data.
	Received uint64 `json:"received"`
	// Late messages were complete only after their region had been handed over.
	Late uint64 `json:"late"`
	// Overrun messages were complete, but there was no free region (Drop).
	Overrun uint64 `json:"overrun"`
	// Missing messages did not arrive completely. They include the messages that the sender
	// dropped.
	Missing uint64 `json:"missing"`
	// MissingDatagrams is the number of datagrams of sent messages that did not arrive, in the
	// unreliable mode: those of messages that the sender dropped, too.
	MissingDatagrams uint64 `json:"missing_datagrams"`
	// SenderDropped is how many messages the sender gave up for want of a free region, as known at the
	// end.
	SenderDropped uint64 `json:"sender_dropped"`

	// Datagrams is the number of datagrams sent or received in the unreliable mode, or of puts in
	// the reliable mode.
	Datagrams uint64 `json:"datagrams"`
	// Duplicates are repeated datagrams. Stale datagrams are older than the receiver's history.
	// Foreign datagrams belong to no stream of this port, or are damaged.
	Duplicates uint64 `json:"duplicates"`
	Stale      uint64 `json:"stale"`
	Foreign    uint64 `json:"foreign"`
	// SocketDrops is the number of packets that the kernel dropped at this port's sockets, for all
	// streams of the port. A run of up to 128 datagrams that arrived as one packet counts once. The
	// number of lost datagrams is in MissingDatagrams.
	SocketDrops uint64 `json:"socket_drops"`
	// SendErrors is the number of datagrams that the fabric refused.
	SendErrors uint64 `json:"send_errors"`

	// Regions is the number of regions handed over or sent. Populated is the number of regions that
	// the reader holds, or that wait to be sent.
	Regions   uint64 `json:"regions"`
	Populated uint64 `json:"populated"`
	Capacity  uint64 `json:"capacity"` // regions of the ring

	// Bytes of messages sent, or received whole.
	Bytes uint64 `json:"bytes"`
	// FirstNs and LastNs are the instants at which the first and the latest message were sent or
	// received, in nanoseconds on the engine's time axis. 0 means none yet.
	FirstNs int64 `json:"first_ns"`
	LastNs  int64 `json:"last_ns"`
	// BurstBytes is the largest number of bytes that left back to back while a rate was kept.
	BurstBytes uint64 `json:"burst_bytes"`
	// ForfeitedNs is the time by which the sender fell behind its rate and did not catch up.
	ForfeitedNs int64 `json:"forfeited_ns"`
	// Peers is the number of receivers that take part.
	Peers uint64 `json:"peers"`
	// Refused counts the refused peers, by reason.
	Refused Refusals `json:"refused"`
	// PeersLost is the number of receivers that were lost before the end. Only the loss of a
	// receiver for which the stream waited at its start counts as a failure of the stream.
	PeersLost uint64 `json:"peers_lost"`
}

// Seconds is the time from the first message to the latest.
func (s *Stats) Seconds() float64 { return float64(s.LastNs-s.FirstNs) / 1e9 }

// MegabytesPerSecond is the mean rate in 10^6 bytes, 0 while there is none.
func (s *Stats) MegabytesPerSecond() float64 {
	if s.LastNs <= s.FirstNs {
		return 0
	}
	return float64(s.Bytes) / 1e6 / s.Seconds()
}
