package stream

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

// A sender validates the data address that a receiver reports, because a receiver could report the
// address of a victim. Without the validation, a malicious receiver could direct the whole stream
// to a victim's address. The sender posts a probe to the receiver's data address. A probe is a
// header without payload, which contains the receiver's data key and a random number. The receiver
// answers on the connection for control messages, with a hash of the probe's random number and of
// the receiver's own name. The hash includes the receiver's name, so that a malicious receiver
// cannot use the answer of another receiver.
//
//	sender                               receiver
//	   <------- welcome (address) ----------
//	   ======== probe, datagram ===========>    again each probeEvery, at most probesMax times
//	   <------- proof (the number) ---------
//	   ======== padded probe, datagram ====>    (see pathsize.go)
//	   <------- proof ----------------------
//	   -------- start --------------------->

const (
	// probeDatagram is the datagram number that marks a probe. Ordinary datagrams have numbers
	// below datagramsMax.
	probeDatagram = 1<<32 - 1
	probeEvery    = 50 * time.Millisecond
	probesMax     = 100
	// otherHostProbesMax is the largest number of probes to an address that possibly does not belong
	// to the host that named it.
	otherHostProbesMax = int(otherHostTime / probeEvery)
)

// If a probe is due, prove posts a probe that validates the receiver's data address or the datagram
// size.
func (k *link) prove(now mono.Time) {
	if k.state != linkProving {
		k.proveSize(now)
		return
	}
	if now < k.probeAt {
		return
	}
	if k.probes == probesMax || k.otherHost && k.probes == otherHostProbesMax {
		k.refuse(RefusedAddress,
			fmt.Errorf("%w: no datagram has come to the address that the receiver gives", ErrTimeout))
		return
	}
	h := header{key: k.dataKey, ordinal: k.nonce, datagram: probeDatagram}
	if k.s.cast.probe(k, h, headerBytes) {
		k.probes++
		k.probeAt = now.Add(probeEvery)
	}
}

// The method "proved" handles the receiver's answer to a probe.
func (k *link) proved(p *proof) {
	switch {
	case k.state != linkProving:
		k.sized(p.Nonce)
	case p.Nonce == proofOf(k.nonce, k.name):
		k.welcome()
	}
}

// proveAll posts the due probes of all links.
func (s *Sender) proveAll(now mono.Time) {
	if s.cast == nil {
		return
	}
	for _, k := range s.links {
		k.prove(now)
	}
}

// The method "probe" posts a header to a receiver's data address, padded with zeros to the size
// sizeBytes. The result of the method "probe" is false if no send buffer is free or the fabric
// returns ErrAgain, and otherwise true.
func (c *caster) probe(k *link, h header, sizeBytes int) bool {
	d := c.port
	last := len(d.txBuf) - 1
	if last < 0 {
		return false
	}
	buf := d.txBuf[last]
	d.txBuf = d.txBuf[:last]
	d.owner[buf], d.holds[buf] = sentFrom{}, 1
	mem := d.arena.Bytes(buf)[:sizeBytes]
	h.put(mem)
	clear(mem[headerBytes:])
	c.single[0] = fabric.Send{Buf: buf, Len: uint32(sizeBytes), To: k.addr}
	n, err := c.ep.Post(c.single[:])
	if n == 1 && sizeBytes > c.caps.InjectBytes {
		d.await(buf, k)
	}
	d.drop(buf)
	return !errors.Is(err, fabric.ErrAgain)
}

// onProbe answers a sender's probe that validates a receiver's data address or the datagram size.
// The key in the probe identifies the sender. During the stream, onProbe also tells the sender how
// many datagrams have arrived.
func (e *Engine) onProbe(h header) {
	s := e.candidates[h.key]
	r := e.bySource[dataSource{h.key, fabric.AddrUnknown}]
	if s == nil && r != nil {
		s = r.sender
	}
	if s == nil || s.r.cfg.Mode != Unreliable || !s.mayAnswer() {
		return
	}
	if r != nil && s == r.sender {
		e.sendNotice(r.ep, notice{noticeTaken, r.key, r.fresh})
	}
	p := &proof{Nonce: proofOf(h.ordinal, e.m.Name())}
	e.sendLetter(s.ep, &letter{Kind: letterProof, Key: s.key, Proof: p})
}

// answersMax is the largest number of a sender's probes that a receiver answers in probeEvery.
const answersMax = 16

// mayAnswer reports whether the receiver answers one more probe of the sender.
func (s *candidate) mayAnswer() bool {
	if now := s.r.e.now; now.Sub(s.answersAt) >= probeEvery {
		s.answersAt, s.answers = now, 0
	}
	s.answers++
	return s.answers <= answersMax
}

// proofOf returns the first 8 bytes of the SHA-256 hash of a probe's number and the name of the
// receiver's module.
func proofOf(nonce uint64, name []byte) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, nonce), name...))
	return binary.LittleEndian.Uint64(sum[:])
}
