package stream

// Stats is what a side has counted. The messages of a receiver add up:
//
//	Sent = Received + Late + Overrun + Missing
type Stats struct {
	// Sent is the messages that were sent, as far as this side knows.
	Sent uint64 `json:"sent"`
	// Received are in the data, whole.
	Received uint64 `json:"received"`
	// Late came whole, but after their region had been handed over.
	Late uint64 `json:"late"`
	// Overrun came whole, but there was no free region (Drop).
	Overrun uint64 `json:"overrun"`
	// Missing did not come whole. Those that the sender dropped itself are among them.
	Missing uint64 `json:"missing"`
	// SenderDropped is how many messages the sender gave up for want of a free region, as known at the
	// end.
	SenderDropped uint64 `json:"sender_dropped"`

	// Datagrams are those sent, or received, of the unreliable mode; puts of the reliable one.
	Datagrams uint64 `json:"datagrams"`
	// Duplicates brought nothing new, Stale were older than the receiver's memory, Foreign belong to
	// no stream here, or are damaged.
	Duplicates uint64 `json:"duplicates"`
	Stale      uint64 `json:"stale"`
	Foreign    uint64 `json:"foreign"`
	// SocketDrops is how many packets the kernel dropped at this port's socket, as it tells: for all
	// streams of the port. A run of datagrams that arrived as one packet, up to 128, counts once: how
	// much is lost Missing tells.
	SocketDrops uint64 `json:"socket_drops"`
	// SendErrors is how many datagrams the fabric refused.
	SendErrors uint64 `json:"send_errors"`

	// Regions is how many were handed over, or sent. Populated are with the reader, or wait to be
	// sent.
	Regions   uint64 `json:"regions"`
	Populated uint64 `json:"populated"`
	Capacity  uint64 `json:"capacity"` // regions of the ring

	// Bytes of messages sent, or received whole.
	Bytes uint64 `json:"bytes"`
	// FirstNs and LastNs are when the first message was sent or came, and the latest: nanoseconds on
	// the engine's axis; 0: none yet.
	FirstNs int64 `json:"first_ns"`
	LastNs  int64 `json:"last_ns"`
	// BurstBytes is the largest number of bytes that left back to back while a rate was kept.
	BurstBytes uint64 `json:"burst_bytes"`
	// ForfeitedNs is the time for which a rate could not be kept, nor made up for.
	ForfeitedNs int64 `json:"forfeited_ns"`
	// Peers is how many receivers take part.
	Peers uint64 `json:"peers"`
	// Refused counts the peers that came and did not fit, by reason.
	Refused Refusals `json:"refused"`
	// PeersLost is how many receivers were lost before the end; of them only those count as a failure
	// of the stream for whom it waited before it began.
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
