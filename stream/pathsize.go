package stream

import (
	"fmt"
	"syscall"
	"time"

	"gobtl/internal/mono"
)

// A datagram size counts as too large for the path to a receiver only by evidence from this
// receiver (RFC 8899). The size of a stream's datagrams is too large if the receiver answers probes
// without padding, does not answer probes that are padded to this size, and does not get datagrams
// of the stream. An error of the operating system is not evidence that the path cannot carry a
// datagram size. The providers udp and net make Linux ignore ICMP messages about the path MTU
// (IP_PMTUDISC_PROBE), and a datagram fails with EMSGSIZE only if it exceeds the MTU of the network
// device, which can change. Other operating systems may believe ICMP messages, which any host can
// send. After EMSGSIZE, the sender posts its next padded probe at once, and draws no other
// conclusion.
//
//	sender                               receiver
//	   ======== padded probe ==============>    before the start; then each sizeEvery
//	   <------- proof, datagrams taken -----
//	   ======== padded probe, probe =======>    again each probeEvery while no padded
//	   <------- proof of the probe ---------    probe is answered: smallAnswersMax times
//	   -------- abort --------------------->
//
// Some datagrams of the stream can be smaller than the others. If the receiver gets a few datagrams
// of the stream, and possibly only the smaller ones, the sender drops the receiver only after
// mixedAnswersMax answers. If a path loses 90 % of the large datagrams, the probability that
// mixedAnswersMax successive padded probes are lost is below 1/10000.

const (
	// sizeEvery is the interval between the padded probes to a receiver of a stream in progress. A
	// sender that has sent no datagrams since the latest padded probe posts no padded probe.
	sizeEvery = time.Second
	// smallAnswersMax is the number of answered probes without padding after which the sender drops
	// the receiver, if no padded probe was answered in the meantime.
	smallAnswersMax = 16
	// mixedAnswersMax applies instead of smallAnswersMax if the receiver gets datagrams of the stream
	// that are possibly smaller than the stream's datagram size.
	mixedAnswersMax = 90
)

// pathSize is the state of a sender's probes of the datagram size on the path to one receiver.
type pathSize struct {
	nonce uint64    // random number of the padded probes
	at    mono.Time // time of the next padded probe
	lost  int       // number of padded probes since the latest answer to a padded probe
	small int       // number of answered probes without padding since the same time
	sent  uint64    // Stats.Datagrams at the latest padded probe
	// The fields below are the values of link.taken and of caster.sentTo when datagrams of the
	// stream's size last were known to arrive.
	taken, sentTo uint64
}

// The method "large" reports whether the stream has datagrams that some paths cannot carry. A path
// that does not carry datagrams of floorBytes also does not carry the control messages, so that the
// connection ends. A fabric that loses no datagrams carries all datagrams that it accepts.
func (c *caster) large() bool {
	return !c.port.reliable && !c.inGroup && c.perMsg+headerBytes > floorBytes
}

// errTooLarge is the error of a receiver whose path carries no datagrams of the stream's size.
func (c *caster) errTooLarge() error {
	return fmt.Errorf("%w: the path takes no datagrams of %d bytes: %w", ErrMismatch,
		c.perMsg+headerBytes, syscall.EMSGSIZE)
}

// measure begins to probe whether the path to the receiver carries datagrams of the stream's size.
func (k *link) measure() {
	k.enter(linkSizing)
	k.path = pathSize{nonce: k.s.e.random()}
	k.proveSize(k.s.e.now)
}

// doubt makes the sender probe the datagram size again, because the operating system has refused a
// datagram.
func (k *link) doubt() {
	if p := &k.path; p.lost == 0 {
		p.lost, p.at = 1, k.s.e.now
	}
}

// proveSize posts a padded probe if one is due. While a padded probe is unanswered, proveSize also
// posts a probe without padding, whose answer shows that the receiver answers probes.
func (k *link) proveSize(now mono.Time) {
	p, c := &k.path, k.s.cast
	started := k.state == linkReady && k.hasAddr && k.s.state == stateRunning
	if now < p.at || k.state != linkSizing && !started {
		return
	}
	if started && p.lost == 0 && (!c.large() || k.s.stats.Datagrams == p.sent) {
		p.at = now.Add(sizeEvery)
		return
	}
	if p.nonce == 0 {
		p.nonce = k.s.e.random()
	}
	if p.lost == 1 {
		k.nonce = k.s.e.random() // late answers to earlier probes do not count
	}
	h := header{key: k.dataKey, ordinal: p.nonce, datagram: probeDatagram}
	if !c.probe(k, h, c.perMsg+headerBytes) {
		return
	}
	if p.lost > 0 {
		h.ordinal = k.nonce
		c.probe(k, h, headerBytes)
	}
	p.lost++
	p.sent = k.s.stats.Datagrams
	p.at = now.Add(probeEvery)
	if started && p.lost == 1 || p.lost > probesMax {
		p.at = now.Add(sizeEvery)
	}
}

// sized handles the receiver's answer to a probe of proveSize.
func (k *link) sized(nonce uint64) {
	p := &k.path
	switch {
	case k.state != linkSizing && k.state != linkReady || p.lost == 0:
	case nonce == proofOf(p.nonce, k.name):
		k.carried()
		if k.state == linkSizing && k.s.state <= stateRunning {
			k.sendStart()
		}
	case nonce != proofOf(k.nonce, k.name):
	case k.state == linkReady && k.gets():
		k.carried()
	default:
		most := smallAnswersMax
		if k.taken > p.taken {
			most = mixedAnswersMax
		}
		if p.small++; p.small >= most {
			k.tooLarge()
		}
	}
}

// carried records that the path carries datagrams of the stream's size.
func (k *link) carried() {
	k.path.lost, k.path.small = 0, 0
	k.path.taken, k.path.sentTo = k.taken, k.s.cast.sentTo
}

// gets reports whether the receiver has got datagrams of the stream's size since the latest call of
// the method "carried". If the last datagram of each message is smaller than the stream's datagram
// size, gets assumes that the receiver has got the last datagrams of all messages.
func (k *link) gets() bool {
	c := k.s.cast
	few := uint64(0)
	if k.s.ring.geo.MessageBytes%c.perMsg != 0 {
		few = c.sentTo - k.path.sentTo + 1
	}
	return k.taken-k.path.taken > few
}

// tooLarge drops a receiver whose path does not carry the stream's datagrams. The stream to the
// remaining receivers continues.
func (k *link) tooLarge() {
	err := k.s.cast.errTooLarge()
	if k.state == linkSizing {
		k.refuse(RefusedAddress, err)
		return
	}
	k.s.e.abort(k.ep, k.s.key, "", err.Error())
	k.fail(err)
}
