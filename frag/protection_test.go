package frag

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// This file is a trial implementation of testdata/protection-design.md. Two sides exchange keys in
// extensions of the Hellos of this package, and encrypt and decrypt packets with DecodeOver. The
// transport does not use the trial. The vectors of the trial are in testdata/protection.md.

const (
	sealBytes     = 16 // overhead of a protected connection
	sealKeyPhase  = 0x40
	sealMemory    = 4096 // numbers below the highest one whose arrival is remembered
	extKey        = 16
	extShare      = 17
	extProof      = 18
	suiteX25519   = 1
	protectionDoc = "testdata/protection.md"
)

var (
	errSeal   = errors.New("it does not open")
	errReplay = errors.New("the number was here before, or is too old")
)

// jobKeys are the keys that all members of a job have.
type jobKeys struct{ id, proof, mix []byte }

func expand(tb testing.TB, secret []byte, info string, n int) []byte {
	tb.Helper()
	b, err := hkdf.Expand(sha256.New, secret, info, n)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func newJobKeys(tb testing.TB, job []byte) jobKeys {
	return jobKeys{
		id:    expand(tb, job, "gobtl 2 id", 8),
		proof: expand(tb, job, "gobtl 2 proof", 32),
		mix:   expand(tb, job, "gobtl 2 mix", 32),
	}
}

// side is one end of a connection.
type side struct {
	job     jobKeys
	hello   Hello
	private *ecdh.PrivateKey
}

func newSide(tb testing.TB, job []byte, with byte, hello Hello) *side {
	tb.Helper()
	private, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{with}, 32))
	if err != nil {
		tb.Fatal(err)
	}
	hello.Overhead, hello.Features, hello.Required = sealBytes, 1, 0
	return &side{newJobKeys(tb, job), hello, private}
}

// packet is a Hello or HelloAck of the side, with its extensions for protection.
func (s *side) packet(kind Kind, conn uint64, number uint32) []byte {
	b := make([]byte, HelloBytesMax)
	h := Header{Kind: kind, Conn: conn, Number: number, Seq: 100}
	b = b[:s.hello.Encode(b, &h)]
	b = append(b, extCritical|extKey, 9, suiteX25519)
	b = append(b, s.job.id...)
	b = append(b, extShare, 32)
	b = append(b, s.private.PublicKey().Bytes()...)
	b = append(b, extProof, sealBytes)
	le.PutUint16(b[24:], uint16(len(b)+sealBytes-FragHeaderBytes))
	return append(b, s.proof(b)...)
}

func (s *side) proof(b []byte) []byte {
	mac := hmac.New(sha256.New, s.job.proof)
	mac.Write(b)
	return mac.Sum(nil)[:sealBytes]
}

// said returns the part of a side's packet that goes into the transcript, and the side's key share.
func (s *side) said(pkt []byte) (announced, share []byte, err error) {
	var h Header
	var m Hello
	p, err := Decode(pkt, &h)
	if err == nil {
		err = DecodeHello(p, &m)
	}
	tail := 2 + 9 + 2 + 32 + 2 + sealBytes
	if err != nil || m.Others != 3 || m.Critical != extKey || m.Overhead != sealBytes ||
		len(p) < helloFixedBytes+tail {
		return nil, nil, errors.Join(errSeal, err)
	}
	ext := p[len(p)-tail:]
	if !hmac.Equal(pkt[len(pkt)-sealBytes:], s.proof(pkt[:len(pkt)-sealBytes])) ||
		ext[0] != extCritical|extKey || ext[2] != suiteX25519 || !bytes.Equal(ext[3:11], s.job.id) ||
		ext[11] != extShare || ext[45] != extProof {
		return nil, nil, errSeal
	}
	announced = bytes.Join([][]byte{p[0:16], p[32:68], p[70:72], ext[:45]}, nil)
	return announced, ext[13:45], nil
}

// secrets are the secrets of a connection.
type secrets struct{ shared, transcript, master []byte }

// meet computes the secrets of a connection from the packets of both sides. The argument ours is
// the packet that the side itself has sent.
func (s *side) meet(tb testing.TB, ours, theirs []byte) (secrets, error) {
	tb.Helper()
	mine, _, err := s.said(ours)
	if err != nil {
		return secrets{}, err
	}
	other, share, err := s.said(theirs)
	if err != nil {
		return secrets{}, err
	}
	if !lower(mine, other) {
		mine, other = other, mine
	}
	public, err := ecdh.X25519().NewPublicKey(share)
	if err != nil {
		return secrets{}, err
	}
	shared, err := s.private.ECDH(public) // refuses shares of small order
	if err != nil {
		return secrets{}, err
	}
	sum := sha256.Sum256(bytes.Join([][]byte{[]byte("gobtl 2"), mine, other}, nil))
	master, err := hkdf.Extract(sha256.New, shared, s.job.mix)
	return secrets{shared, sum[:], master}, err
}

// lower reports whether the first of two sides is the lower one, by incarnation and then by tag.
func lower(a, b []byte) bool {
	if x, y := le.Uint64(a), le.Uint64(b); x != y {
		return x < y
	}
	return le.Uint64(a[8:]) < le.Uint64(b[8:])
}

// way is one direction of a channel in one phase.
type way struct {
	key, salt []byte
	aead      cipher.AEAD
}

func (s *secrets) way(tb testing.TB, lower bool, channel byte, phase int) *way {
	tb.Helper()
	master, from := s.master, byte(1)
	for range phase {
		master = expand(tb, master, "gobtl 2 next"+string(s.transcript), 32)
	}
	if lower {
		from = 0
	}
	b := expand(tb, master, "gobtl 2 way"+string(s.transcript)+string([]byte{from, channel}), 36)
	block, err := aes.NewCipher(b[:32])
	if err != nil {
		tb.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		tb.Fatal(err)
	}
	return &way{b[:32], b[32:], aead}
}

func (w *way) nonce(number uint64) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(w.salt), number)
}

// seal makes an encrypted datagram of a packet. The bytes after the common header are encrypted,
// and the whole packet is authenticated.
func (w *way) seal(pkt []byte, number uint64, phase byte) []byte {
	out := bytes.Clone(pkt[:FragHeaderBytes])
	out[2] |= phase
	return w.aead.Seal(out, w.nonce(number), pkt[FragHeaderBytes:], out)
}

// receiver is the state of one side for a channel of the other side.
type receiver struct {
	ways [2]*way // by the bit of the phase
	high uint64
	came map[uint64]bool
}

// open reverses seal, and calls DecodeOver for the result.
func (r *receiver) open(datagram []byte, h *Header) ([]byte, error) {
	if len(datagram) < FragHeaderBytes+sealBytes {
		return nil, ErrShort
	}
	head := datagram[:FragHeaderBytes]
	number := nearest(le.Uint32(head[12:]), r.high+1)
	if number+sealMemory <= r.high || r.came[number] {
		return nil, errReplay
	}
	w := r.ways[head[2]&sealKeyPhase/sealKeyPhase]
	pkt := bytes.Clone(head)
	pkt, err := w.aead.Open(pkt, w.nonce(number), datagram[FragHeaderBytes:], head)
	if err != nil {
		return nil, errSeal
	}
	r.high, r.came[number] = max(r.high, number), true
	pkt[2] &^= sealKeyPhase
	return DecodeOver(append(pkt, make([]byte, sealBytes)...), sealBytes, h)
}

// nearest is the number with the given lower half that is nearest to the expected number.
func nearest(low uint32, expected uint64) uint64 {
	d := int64(int32(low - uint32(expected)))
	if d < 0 && uint64(-d) > expected {
		return expected + uint64(d) + 1<<32
	}
	return expected + uint64(d)
}

// protected returns two sides that have exchanged keys.
func protected(t *testing.T) (a, b *side, hello, ack []byte, sec secrets) {
	t.Helper()
	job := bytes.Repeat([]byte{0x4A}, 32)
	first := *testHello()
	first.Expected, first.Probe, first.Proven, first.VersionMax = 0, ProbeCommand, 0, Version
	first.CommandCookie = bytes.Repeat([]byte{0xC0}, 20)
	first.DataCookie = bytes.Repeat([]byte{0xD0}, 20)
	second := first
	second.Incarnation, second.Tag, second.CommandCookie, second.DataCookie = 5, testConn, nil, nil
	a, b = newSide(t, job, 0xA1, first), newSide(t, job, 0xB2, second)
	hello, ack = a.packet(KindHello, 0, 0), b.packet(KindHelloAck, first.Tag, 1)
	sec, err := a.meet(t, hello, ack)
	if err != nil {
		t.Fatal(err)
	}
	same, err := b.meet(t, ack, hello)
	if err != nil || !bytes.Equal(same.master, sec.master) {
		t.Fatalf("the two sides do not agree: %v", err)
	}
	return a, b, hello, ack, sec
}

// TestProtectionVectors compares the trial with the document.
func TestProtectionVectors(t *testing.T) {
	a, b, hello, ack, sec := protected(t)
	var text strings.Builder
	tell := func(name, about string, value []byte) {
		fmt.Fprintf(&text, "# %s\n%s\n", about, name)
		for s := hex.EncodeToString(value); s != ""; {
			n := min(len(s), 64)
			fmt.Fprintf(&text, "    %s\n", s[:n])
			s = s[n:]
		}
	}
	tell("job", "the job key, and what is made of it", bytes.Repeat([]byte{0x4A}, 32))
	tell("id", "names the job key", a.job.id)
	tell("proof", "authenticates Hellos", a.job.proof)
	tell("mix", "goes into the secrets", a.job.mix)
	tell("share-a", "A's private key is a1 32 times, this its share", a.private.PublicKey().Bytes())
	tell("share-b", "B's private key is b2 32 times, this its share", b.private.PublicKey().Bytes())
	tell("hello", "A shows its cookies, and its share", hello)
	tell("hello-ack", "B answers", ack)
	tell("shared", "what X25519 gives to both", sec.shared)
	tell("transcript", "B has the lower incarnation", sec.transcript)
	tell("master", "the secret of the connection, phase 0", sec.master)
	toB := sec.way(t, false, 0, 0)
	tell("way", "key and salt from A to B by the command channel", append(bytes.Clone(toB.key),
		toB.salt...))
	for _, name := range []string{"frag", "frag-put", "ack-sack-gaps", "pack"} {
		pkt := goldenPacket(t, name)
		number := 1<<32 | uint64(NumberOf(pkt))
		tell("sealed-"+name, fmt.Sprintf("packet %#x, which is %s of section 15", number, name),
			toB.seal(pkt, number, 0))
	}
	next := sec.way(t, false, 0, 1)
	pkt := goldenPacket(t, "frag-bye")
	tell("sealed-next", "the first packet of phase 1, number 7: frag-bye",
		next.seal(numbered(pkt, 7), 7, sealKeyPhase))
	comparePage(t, text.String())
}

// numbered is a packet with another number.
func numbered(pkt []byte, number uint32) []byte {
	pkt = bytes.Clone(pkt)
	SetNumber(pkt, number)
	return pkt
}

func comparePage(t *testing.T, want string) {
	t.Helper()
	const from, to = "<!-- protection -->\n```\n", "```\n<!-- end of protection -->"
	page, err := os.ReadFile(protectionDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), from)
	got, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatal("the page has no place for them")
	}
	if *rewrite {
		if err := os.WriteFile(protectionDoc, []byte(before+from+want+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the page has\n%s\nwant\n%s", got, want)
	}
}

// TestProtectionOpens checks that each encrypted golden packet can be decrypted. A packet that was
// altered, repeated or encrypted with another key must be refused.
func TestProtectionOpens(t *testing.T) {
	_, _, _, _, sec := protected(t)
	w := sec.way(t, false, 0, 0)
	fresh := func(high uint64) *receiver {
		return &receiver{
			ways: [2]*way{w, sec.way(t, false, 0, 1)}, high: high, came: map[uint64]bool{},
		}
	}
	for _, v := range packets() {
		if !v.header.Kind.HasSeq() && v.header.Kind != KindAck && v.header.Kind != KindNack {
			continue // Hellos and their answers are not encrypted
		}
		pkt := goldenPacket(t, v.name)
		number := 5<<32 | uint64(NumberOf(pkt))
		datagram := w.seal(pkt, number, 0)
		if len(datagram) != len(pkt)+sealBytes || len(pkt) > FragHeaderBytes &&
			bytes.Contains(datagram, pkt[FragHeaderBytes:]) && len(pkt) > FragHeaderBytes+8 {
			t.Errorf("%s: %d bytes sealed in %d, or not hidden", v.name, len(pkt), len(datagram))
		}
		r := fresh(number - 3)
		var h, plain Header
		got, err := r.open(datagram, &h)
		want, plainErr := Decode(pkt, &plain)
		if err != nil || plainErr != nil || h != plain || !bytes.Equal(got, want) {
			t.Fatalf("%s: %v, %v, %+v, want %+v", v.name, err, plainErr, h, plain)
		}
		if _, err := r.open(datagram, &h); !errors.Is(err, errReplay) {
			t.Errorf("%s said again: %v", v.name, err)
		}
		for i := range datagram {
			for _, bit := range []byte{1, 0x80} {
				bad := bytes.Clone(datagram)
				bad[i] ^= bit
				r := fresh(number - 3)
				if _, err := r.open(bad, &h); err == nil || r.high != number-3 {
					t.Fatalf("%s with byte %d changed: %v", v.name, i, err)
				}
			}
		}
		for about, other := range map[string]*way{
			"the other direction": sec.way(t, true, 0, 0),
			"the other channel":   sec.way(t, false, 1, 0),
			"the next phase":      sec.way(t, false, 0, 1),
		} {
			r := fresh(number - 3)
			r.ways[0] = other
			if _, err := r.open(datagram, &h); !errors.Is(err, errSeal) {
				t.Errorf("%s opens with the key of %s: %v", v.name, about, err)
			}
		}
		if _, err := fresh(number+sealMemory).open(datagram, &h); !errors.Is(err, errReplay) {
			t.Errorf("%s opens though it is old: %v", v.name, err)
		}
		if _, err := fresh(number-1<<32).open(datagram, &h); err == nil {
			t.Errorf("%s opens under another upper half of its number", v.name)
		}
	}
	late := sec.way(t, false, 0, 1).seal(numbered(goldenPacket(t, "frag"), 9), 9, sealKeyPhase)
	var h Header
	if _, err := fresh(8).open(late, &h); err != nil || h.Number != 9 {
		t.Errorf("a packet of the next phase: %v", err)
	}
}

// TestProtectionHello checks that an altered Hello, or a Hello from a side without the job key,
// gives no keys. Another transcript gives other keys.
func TestProtectionHello(t *testing.T) {
	a, b, hello, ack, sec := protected(t)
	for i := range ack {
		bad := bytes.Clone(ack)
		bad[i] ^= 1
		if _, err := a.meet(t, hello, bad); err == nil {
			t.Errorf("byte %d of the HelloAck changed: it counts", i)
		}
	}
	stranger := newSide(t, bytes.Repeat([]byte{0x4B}, 32), 0xB2, b.hello)
	if _, err := a.meet(t, hello, stranger.packet(KindHelloAck, a.hello.Tag, 1)); err == nil {
		t.Error("a stranger to the job is met")
	}
	small := bytes.Clone(ack[:len(ack)-sealBytes])
	copy(small[len(small)-2-32:], make([]byte, 32))
	if _, err := a.meet(t, hello, append(small, a.proof(small)...)); err == nil {
		t.Error("a share of small order is taken")
	}
	again, err := a.meet(t, hello, b.packet(KindHelloAck, a.hello.Tag, 2))
	if err != nil || !bytes.Equal(again.master, sec.master) ||
		!bytes.Equal(again.transcript, sec.transcript) {
		t.Errorf("a repetition of the HelloAck changes the keys: %v", err)
	}
	b.hello.WindowPkts = 64
	other, err := a.meet(t, hello, b.packet(KindHelloAck, a.hello.Tag, 1))
	if err != nil || bytes.Equal(other.transcript, sec.transcript) ||
		bytes.Equal(other.way(t, true, 0, 0).key, sec.way(t, true, 0, 0).key) {
		t.Errorf("another window gives the same keys: %v", err)
	}
}

func TestNearestNumber(t *testing.T) {
	for _, c := range []struct {
		low      uint32
		expected uint64
		want     uint64
	}{
		{1, 1, 1},
		{5, 1, 5},
		{0xFFFFFFFF, 1, 0xFFFFFFFF},
		{0xFFFFFFFF, 1<<32 + 2, 0xFFFFFFFF},
		{3, 0xFFFFFFFE, 1<<32 + 3},
		{0, 1 << 40, 1 << 40},
		{7, 5<<32 + 1, 5<<32 + 7},
		{0xFFFFFFF0, 5<<32 + 1, 5<<32 - 16},
	} {
		if got := nearest(c.low, c.expected); got != c.want {
			t.Errorf("lower half %#x, %#x is expected: %#x, want %#x", c.low, c.expected, got, c.want)
		}
	}
}
