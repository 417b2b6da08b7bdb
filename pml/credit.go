package pml

// The type "credit" is the sending window of a peer. The messages and bytes that this side has sent
// and the peer has not reported as received must not exceed the peer's limits on unexpected
// messages.
type credit struct {
	envelopesMax uint32 // Config.EnvelopesMax
	bytesMax     uint64 // Config.UnexpectedBytes

	next       uint32 // number of the next envelope
	bytes      uint64 // bytes sent: eager messages with overhead, headers of announced messages
	taken      uint32 // number of messages that the peer has reported as received
	takenBytes uint64
}

func newCredit(cfg *Config) credit {
	return credit{envelopesMax: uint32(cfg.EnvelopesMax), bytesMax: uint64(cfg.UnexpectedBytes)}
}

// mayName reports whether the peer's limit on unexpected messages allows one more envelope (message
// header). mayKeep reports whether the peer's limit on unexpected bytes allows a message with the
// given cost in bytes.
func (c *credit) mayName() bool { return c.next-c.taken < c.envelopesMax }

func (c *credit) mayKeep(cost uint64) bool { return c.bytes-c.takenBytes+cost <= c.bytesMax }

// The method "spend" counts a sent message with the given cost in bytes.
func (c *credit) spend(cost uint64) {
	c.next++
	c.bytes += cost
}

// The method "report" handles the peer's report about the messages and bytes of this side that the
// peer has received. The result of the method "report" is false if the peer reports more messages
// or bytes than this side has sent, and otherwise true.
func (c *credit) report(taken uint32, bytes uint64) bool {
	news := taken - c.taken
	if news > 1<<31 { // an old report, overtaken by a newer one
		return true
	}
	if news > c.next-c.taken || bytes > c.bytes {
		return false // more than was sent
	}
	c.taken, c.takenBytes = taken, max(bytes, c.takenBytes)
	return true
}
