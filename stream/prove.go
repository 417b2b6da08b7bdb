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

// A receiver's word for where its datagrams shall go is not believed: it could name a stranger, at
// whom the whole stream would then be aimed. The sender posts a probe to the address, a header with
// a number drawn at random and no payload, and goes on when the receiver has told what it has made
// of that number and its own name, on the connection of the control messages. So the answer of one
// receiver is no proof for another, which may be a sender to the first one.
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

// proved takes the receiver's answer.
func (k *link) proved(p *proof) {
	if k.state == linkProving && p.Nonce == proofOf(k.nonce, k.name) {
		k.welcome()
	}
}

// proveAll has all links prove their addresses.
func (s *Sender) proveAll(now mono.Time) {
	if s.cast == nil {
		return
	}
	for _, k := range s.links {
		k.prove(now)
	}
}

// probe posts a header alone; false if there is no room now.
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

// onProbe answers a sender that asks whether this is where a receiver's datagrams go. The key of
// the probe names the suitor that asks; one that has been answered asks no more.
func (e *Engine) onProbe(h header) {
	if s := e.suitors[h.key]; s != nil && s.r.cfg.Mode == Unreliable {
		p := &proof{Nonce: proofOf(h.ordinal, e.m.Name())}
		e.sendLetter(s.ep, &letter{Kind: letterProof, Key: s.key, Proof: p})
	}
}

// proofOf is what a receiver whose module has a name tells of the number of a probe. The number
// cannot be found from it.
func proofOf(nonce uint64, name []byte) uint64 {
	sum := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, nonce), name...))
	return binary.LittleEndian.Uint64(sum[:])
}
