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

// A sender validates the data address that a receiver gives, because a receiver could give the
// address of a victim, to which the whole stream would then be sent. The sender posts a probe to
// the address: a header with a random number and no payload. It continues when the receiver has
// returned a hash of that number and of the receiver's own name, on the connection of the control
// messages. So the answer of one receiver is no proof for another, which may itself be a sender to
// the first one.
//
//	sender                               receiver
//	   <------- welcome (address) ----------
//	   ======== probe, datagram ===========>    again each probeEvery, probesMax times
//	   <------- proof (the number) ---------
//	   -------- start --------------------->

const (
	// probeDatagram is the number that marks a probe; a message has at most datagramsMax of them.
	probeDatagram = 1<<32 - 1
	probeEvery    = 50 * time.Millisecond
	probesMax     = 100
)

// prove posts a probe to the receiver's address, if it is time for one.
func (k *link) prove(now mono.Time) {
	if k.state != linkProving || now < k.probeAt {
		return
	}
	if k.probes == probesMax {
		k.refuse(RefusedAddress,
			fmt.Errorf("%w: no datagram has come to the address that the receiver gives", ErrTimeout))
		return
	}
	if k.s.cast.probe(k.addr, header{key: k.probe, ordinal: k.nonce, datagram: probeDatagram}) {
		k.probes++
		k.probeAt = now.Add(probeEvery)
	}
}

// proved checks the receiver's answer.
func (k *link) proved(p *proof) {
	if k.state == linkProving && p.Nonce == proofOf(k.nonce, k.name) {
		k.welcome()
	}
}

// proveAll sends the due probes of all links.
func (s *Sender) proveAll(now mono.Time) {
	if s.cast == nil {
		return
	}
	for _, k := range s.links {
		k.prove(now)
	}
}

// probe posts a header without payload. It returns false if there is no room now.
func (c *caster) probe(to fabric.Addr, h header) bool {
	d := c.port
	last := len(d.txBuf) - 1
	if last < 0 {
		return false
	}
	buf := d.txBuf[last]
	d.txBuf = d.txBuf[:last]
	d.owner[buf], d.holds[buf] = sentFrom{}, 1
	h.put(d.arena.Bytes(buf))
	n, err := c.ep.Post([]fabric.Send{{Buf: buf, Len: headerBytes, To: to}})
	if n == 1 && headerBytes > c.caps.InjectBytes {
		d.holds[buf]++
	}
	d.drop(buf)
	return !errors.Is(err, fabric.ErrAgain)
}

// onProbe answers a sender's probe of a receiver's data address. The key of the probe identifies
// the suitor. A suitor that has had its answer sends no more probes.
func (e *Engine) onProbe(h header) {
	if s := e.suitors[h.key]; s != nil && s.r.cfg.Mode == Unreliable {
		p := &proof{Nonce: proofOf(h.ordinal, e.m.Name())}
		e.sendLetter(s.ep, &letter{Kind: letterProof, Key: s.key, Proof: p})
	}
}

// proofOf returns the proof for the number of a probe, made by a receiver whose module has the
// given name. The number cannot be computed from the proof.
func proofOf(nonce uint64, name []byte) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, nonce), name...))
	return binary.LittleEndian.Uint64(sum[:])
}
