package attacker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/limits"
	"gobtl/internal/testenv"
	"gobtl/test/sim/attacker"
	"gobtl/test/sim/cluster"
)

const (
	honest    = 3
	halfOpen  = 24
	poolBytes = 1 << 20
	handled   = 6 // tags from 1 on
)

// town is three honest modules, each connected to each, and one node that means harm.
type town struct {
	tb    testing.TB
	nw    *cluster.Cluster
	nodes [honest]*sim.Node
	homes [honest]*home
	evil  *sim.Node
	att   *attacker.Attacker
	rng   *rand.Rand
	sent  uint64
	mail  map[uint64]*letter
	over  bool

	packs                        [2]int         // of an insider: broken ones and sound ones
	asked                        map[uint64]int // bytes of the Hellos injected, by their tags
	injectedBytes, strangerBytes int
}

// home is an honest module, checked after every pass.
type home struct {
	*cluster.Host

	t         *town
	i         int
	peers     map[*btl.Endpoint]int // node of the peer
	order     []*btl.Endpoint       // of peers
	strangers map[*btl.Endpoint]bool
	forged    int // messages of strangers
	most      uint64
	memory    []byte // with a canary on both sides of the region
	region    *btl.Region
}

// letter is a message and what became of it.
type letter struct {
	from, to  int
	size      int
	delivered int
	ended     int
	err       error
}

const canary = 0x5C

func (h *home) judge(n int, err error) (int, error) {
	if err == nil {
		err = h.Mod.Check()
	}
	s := h.Mod.Stats()
	h.most = max(h.most, s.Endpoints)
	return n, err
}

func newTown(tb testing.TB, seed uint64) *town {
	tb.Helper()
	t := &town{
		tb: tb, rng: rand.New(rand.NewPCG(seed, 1)), mail: map[uint64]*letter{}, asked: map[uint64]int{},
	}
	var err error
	if t.nw, err = cluster.New(sim.Config{Seed: seed, Observe: t.see}); err != nil {
		tb.Fatal(err)
	}
	for i := range t.nodes {
		t.nodes[i] = t.nw.Add(fmt.Sprint("honest", i)).Node
	}
	t.evil = t.nw.Node("evil")
	for i := range t.nodes {
		t.open(i)
	}
	for i, h := range t.homes {
		for j := i + 1; j < honest; j++ {
			ep, err := h.Dial(t.homes[j].Host)
			if err != nil {
				tb.Fatal(err)
			}
			h.befriend(ep, j)
			t.nw.Advance(20 * time.Millisecond)
			if !ep.Connected() {
				tb.Fatalf("%d is not connected to %d", i, j)
			}
		}
	}
	return t
}

func (t *town) open(i int) {
	t.tb.Helper()
	cfg := btl.Config{
		SendBuffers: 128, RecvDepth: 128, FragmentsMax: 256, PeersMax: 64,
		FragmentBytesMax: 64 << 10, ReassemblyBytesMax: poolBytes,
		Random: rand.New(rand.NewPCG(uint64(i), 99)).Uint64,
	}
	cfg.SetLimits(limits.Limits{HalfOpenMax: halfOpen, ReassemblyKeepBytes: 64 << 10})
	cfg.PeerTimeout = time.Second
	cfg.HandshakeTimeout = 300 * time.Millisecond
	cfg.Rules.WindowPackets = 64
	h := &home{
		Host: t.nw.Hosts[i], t: t, i: i,
		peers: map[*btl.Endpoint]int{}, strangers: map[*btl.Endpoint]bool{},
		memory: bytes.Repeat([]byte{canary}, 4096),
	}
	err := h.Open(cfg)
	if err != nil {
		t.tb.Fatal(err)
	}
	if h.region, err = h.Mod.Expose(h.memory[1024:2048], btl.RemoteWrite); err != nil {
		t.tb.Fatal(err)
	}
	for tag := range btl.Tag(handled) {
		if err := h.Mod.Handle(tag+1, h.receive); err != nil {
			t.tb.Fatal(err)
		}
	}
	h.Mod.OnEndpoint(h.event)
	t.homes[i] = h
	h.Start(h.judge)
}

// see forwards events to the attacker, and weighs what goes in and what comes out.
func (t *town) see(e *sim.Event) {
	if t.att != nil {
		t.att.See(e)
	}
	switch e.Kind {
	case sim.KindInjected:
		t.injectedBytes += len(e.Data)
		if len(e.Data) >= frag.HelloBytesMin && frag.Kind(e.Data[1]&15) == frag.KindHello {
			tag := binary.LittleEndian.Uint64(e.Data[frag.FragHeaderBytes+8:])
			t.asked[tag] = max(t.asked[tag], len(e.Data))
		}
		t.checkPack(e.Data)
	case sim.KindSent:
		t.weigh(e)
		if e.To.Node >= honest {
			t.strangerBytes += len(e.Data)
		}
	case sim.KindProcessError:
		t.tb.Errorf("node %d: %v", e.From.Node, e.Err)
	}
}

// checkPack checks that a pack of an insider that is sound, and has handlers for all records, holds
// only filler, and any other one nothing but what nobody may take over.
func (t *town) checkPack(b []byte) {
	if t.att.Mode() != attacker.Insider || len(b) < 2 || frag.Kind(b[1]&15) != frag.KindPack {
		return
	}
	var h frag.Header
	payload, err := frag.Decode(b, &h)
	if err != nil {
		t.packs[0]++
		return
	}
	t.packs[1]++
	takeable, filler := true, true
	for len(payload) > 0 {
		var tag uint8
		var data []byte
		tag, data, payload = frag.NextRecord(payload)
		takeable = takeable && tag <= handled
		filler = filler && attacker.Forged(data)
	}
	if takeable != filler {
		t.tb.Errorf("a pack that can be taken: %v, that holds filler: %v", takeable, filler)
	}
}

// weigh checks that no answer to a forged Hello is larger than the Hello.
func (t *town) weigh(e *sim.Event) {
	k := frag.Kind(e.Data[1] & 15)
	if k != frag.KindHelloAck && k != frag.KindReject && k != frag.KindRetry {
		return
	}
	conn := binary.LittleEndian.Uint64(e.Data[4:])
	if asked, ok := t.asked[conn]; ok && len(e.Data) > asked {
		t.tb.Errorf("node %d answers a Hello of %d bytes with %d", e.From.Node, asked, len(e.Data))
	}
}

func (h *home) event(ep *btl.Endpoint, ev btl.Event, err error) {
	_, mine := h.peers[ep]
	if !mine && ev == btl.EventConnected {
		if len(h.peers) < honest-1 && h.t.att == nil {
			h.befriend(ep, h.missing())
			return
		}
		h.strangers[ep] = true
		return
	}
	if mine && ev != btl.EventConnected && !h.t.over && !h.t.tainted(h.i, h.peers[ep]) {
		h.t.tb.Errorf("node %d: the connection to %d ended: %v, %v", h.i, h.peers[ep], ev, err)
	}
}

func (h *home) befriend(ep *btl.Endpoint, node int) {
	h.peers[ep] = node
	h.order = append(h.order, ep)
}

// missing is the peer that connects now: they do so in order.
func (h *home) missing() int {
	for j := range honest {
		found := j == h.i
		for _, k := range h.peers {
			found = found || j == k
		}
		if !found {
			return j
		}
	}
	return -1
}

func (t *town) tainted(x, y int) bool { return t.att != nil && t.att.Tainted(x, y) }

// text is what letter id says in size bytes.
func text(id uint64, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint64(b, id)
	for i := 8; i < size; i++ {
		b[i] = byte(uint64(i) * (id*2 + 1) >> 3)
	}
	return b
}

func (h *home) receive(ep *btl.Endpoint, _ btl.Tag, data []byte) {
	tb := h.t.tb
	from, known := h.peers[ep]
	if !known {
		if h.forged++; !attacker.Forged(data) {
			tb.Errorf("node %d: a stranger delivers %d bytes that are not his: %.20x", h.i, len(data), data)
		}
		return
	}
	if h.t.tainted(from, h.i) {
		return
	}
	if len(data) < 8 {
		tb.Errorf("node %d: %d bytes from %d", h.i, len(data), from)
		return
	}
	id := binary.BigEndian.Uint64(data)
	l := h.t.mail[id]
	switch {
	case l == nil || l.from != from || l.to != h.i || !bytes.Equal(data, text(id, l.size)):
		tb.Errorf("node %d: a message from %d that nobody sent: %.20x", h.i, from, data)
	case l.delivered > 0:
		tb.Errorf("node %d: message %d from %d is delivered again", h.i, id, from)
	default:
		l.delivered++
	}
}

// post sends a letter between any two.
func (t *town) post() {
	h := t.homes[t.rng.IntN(honest)]
	ep := h.order[t.rng.IntN(len(h.order))]
	size := 8 + t.rng.IntN(200)
	if t.rng.IntN(4) == 0 {
		size = 8 + t.rng.IntN(20_000)
	}
	f, err := ep.Alloc(1, size)
	if err != nil {
		return
	}
	t.sent++
	l := &letter{from: h.i, to: h.peers[ep], size: size}
	id := t.sent
	copy(f.Bytes(), text(id, size))
	f.Signal = true
	f.OnDone = func(_ *btl.Fragment, err error) { l.ended, l.err = l.ended+1, err }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		_ = ep.Free(f)
		return
	}
	t.mail[id] = l
	t.nodes[h.i].Kick()
}

// siege lets the attacker loose while the honest ones write to each other, and then lets the dust
// settle.
func (t *town) siege(mode attacker.Mode, seed uint64) {
	var regions []attacker.Region
	for i, h := range t.homes {
		regions = append(regions, attacker.Region{
			Node: i, Handle: uint64(h.region.Handle()), SizeBytes: uint64(len(h.region.Bytes())),
		})
	}
	t.att = attacker.New(attacker.Config{
		Net: t.nw.Network, Node: t.evil, Seed: seed, Mode: mode, Targets: t.nodes[:], Regions: regions,
		Rate: 20 * time.Microsecond, Until: t.nw.Now().Add(300 * time.Millisecond),
	})
	end := t.nw.Now().Add(320 * time.Millisecond)
	var post func()
	post = func() {
		if t.nw.Now() < end {
			t.post()
			t.nw.After(time.Duration(t.rng.IntN(400_000)), post)
		}
	}
	post()
	t.nw.RunUntil(end.Add(6 * time.Second))
}

// judge says what the siege has damaged.
func (t *town) judge() {
	t.tb.Helper()
	checked := 0
	for id, l := range t.mail {
		if t.tainted(l.from, l.to) {
			continue
		}
		if checked++; l.ended != 1 || l.err != nil || l.delivered != 1 {
			t.tb.Errorf("message %d of %d bytes from %d to %d: delivered %d times, ended %d times: %v",
				id, l.size, l.from, l.to, l.delivered, l.ended, l.err)
		}
	}
	if checked < 100 {
		t.tb.Errorf("only %d messages between honest nodes", checked)
	}
	for _, h := range t.homes {
		for i, b := range h.memory {
			if b != canary {
				t.tb.Fatalf("node %d: byte %d of its memory was written", h.i, i)
			}
		}
		// Two ends of each connection may stand beside each other for a while when it is made anew.
		if limit := uint64(2*honest + halfOpen + 4); h.most > limit {
			t.tb.Errorf("node %d had %d endpoints, at most %d", h.i, h.most, limit)
		}
		s := h.Mod.Stats()
		if u := s.Unaccounted(); u != 0 {
			t.tb.Errorf("node %d: %d packets unaccounted for", h.i, u)
		}
	}
	for _, err := range t.nw.Violations() {
		t.tb.Error(err)
	}
}

func (t *town) close() {
	t.over = true
	if err := t.nw.Close(); err != nil {
		t.tb.Error(err)
	}
}

// attacksPerMode is fewer for the race detector: all of it runs on one goroutine, where there is
// little to find, and it takes its time.
func attacksPerMode() uint64 {
	if testenv.Race {
		return 1
	}
	return 3
}

func eachMode(t *testing.T, run func(t *testing.T, mode attacker.Mode, seed uint64)) {
	for mode := range attacker.NumModes {
		t.Run(mode.String(), func(t *testing.T) {
			for seed := range attacksPerMode() {
				run(t, mode, seed+1)
			}
		})
	}
}

// Whatever the attacker does, those it does not know the tags of get each message once and whole.
func TestHonestTraffic(t *testing.T) {
	eachMode(t, func(t *testing.T, mode attacker.Mode, seed uint64) {
		town := newTown(t, seed)
		town.siege(mode, seed)
		town.judge()
		town.wantDamage(mode)
		town.close()
	})
}

// wantDamage checks that the attack did something at all.
func (t *town) wantDamage(mode attacker.Mode) {
	t.tb.Helper()
	a := t.att
	if a.Sent() < 1000 {
		t.tb.Errorf("only %d packets: %v", a.Sent(), a.ByKind())
	}
	var drops, dups uint64
	forged, strangers := 0, 0
	for _, h := range t.homes {
		s := h.Mod.Stats()
		drops, dups = drops+s.Drops(), dups+s.Duplicates()
		forged, strangers = forged+h.forged, strangers+len(h.strangers)
	}
	x, y, ok := a.Victim()
	switch mode {
	case attacker.Insider:
		if !ok || x != t.evil.Index() || strangers < 2 || forged < 100 ||
			min(t.packs[0], t.packs[1]) < 10 {
			t.tb.Errorf("the insider: %d connections, %d messages, %v packs, victim %d, %v", strangers,
				forged, t.packs, x, ok)
		}
	case attacker.TagThief:
		if !ok || x == y || !a.Tainted(x, y) || !a.Tainted(y, x) || a.Tainted(x, t.evil.Index()) {
			t.tb.Errorf("the thief has chosen %d and %d, %v", x, y, ok)
		}
	case attacker.Replayer:
		if dups < 100 {
			t.tb.Errorf("the replayer: only %d duplicates", dups)
		}
		fallthrough
	default:
		if drops < 500 || strangers > 0 || ok {
			t.tb.Errorf("%v: %d drops, %d strangers, victim %v", mode, drops, strangers, ok)
		}
		if t.strangerBytes > t.injectedBytes {
			t.tb.Errorf("%v: %d bytes in, %d bytes out", mode, t.injectedBytes, t.strangerBytes)
		}
	}
	for _, k := range kindsOf[mode] {
		if a.ByKind()[k] == 0 {
			t.tb.Errorf("%v: not one %q in %v", mode, k, a.ByKind())
		}
	}
}

var abuses = []string{
	"ack", "nack", "hello", "hello-ack", "frag", "chunk", "chunk off the grid", "overlapping chunk",
	"unfinished fragment", "oversize fragment", "bad put", "beyond the window", "without credit",
	"mark", "pack", "bad pack", "pack without handler", "nack of a record",
	"ping", "part",
}

var kindsOf = [attacker.NumModes][]string{
	attacker.Blind: {
		"junk", "unknown connection", "hello", "foreign version", "malformed hello", "reject",
	},
	attacker.Replayer:  {"replay", "misdirected replay"},
	attacker.AckForger: {"ack", "nack", "unknown connection"},
	attacker.HelloFlood: {
		"hello", "hello-ack", "foreign version", "malformed hello", "reject",
	},
	attacker.Insider:  abuses,
	attacker.TagThief: abuses,
}

// What an attacker makes the modules keep is bounded: after all of it is over, it is gone.
func TestMemoryIsBounded(t *testing.T) {
	eachMode(t, func(t *testing.T, mode attacker.Mode, seed uint64) {
		if seed > 1 {
			return
		}
		town := newTown(t, seed)
		before := heapBytes()
		town.siege(mode, seed)
		// The pools of three modules, the attacker's memory and the ledger of the test.
		if grown := heapBytes() - before; grown > 3*poolBytes+4<<20 {
			t.Errorf("the heap grew by %d bytes", grown)
		}
		town.close()
	})
}

func heapBytes() int {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// The same seed is the same attack.
func TestDeterministic(t *testing.T) {
	for mode := range attacker.NumModes {
		run := func(seed uint64) (hash, sent uint64) {
			nw, err := sim.New(sim.Config{Seed: 5})
			if err != nil {
				t.Fatal(err)
			}
			target := nw.Node("target")
			a := attacker.New(attacker.Config{
				Net: nw, Node: nw.Node("evil"), Seed: seed, Mode: mode, Targets: []*sim.Node{target},
				Until: nw.Now().Add(50 * time.Millisecond),
			})
			// Something to overhear: its own packets, as if the target had sent them.
			other := nw.Node("other")
			for i := range 100 {
				data := text(uint64(i), 300)
				copy(data, []byte{0xB7, 0x21, 1, 1, 9, 9, 9, 9, 9, 9, 9, 9})
				binary.LittleEndian.PutUint16(data[24:], 300-frag.FragHeaderBytes)
				binary.LittleEndian.PutUint16(data[30:], 0)
				nw.After(time.Duration(i)*time.Microsecond, func() {
					a.See(&sim.Event{
						Kind: sim.KindSent, From: sim.Port{Node: other.Index()},
						To: sim.Port{Node: target.Index()}, Data: data,
					})
				})
			}
			nw.RunUntil(nw.Now().Add(time.Second))
			return nw.Hash(), a.Sent()
		}
		hash, sent := run(7)
		if again, n := run(7); again != hash || n != sent || sent == 0 {
			t.Errorf("%v: %x of %d packets, then %x of %d", mode, hash, sent, again, n)
		}
		if other, _ := run(8); other == hash && mode != attacker.Insider {
			t.Errorf("%v: another seed is the same attack", mode)
		}
	}
}

// It does nothing once its time is over.
func TestEnds(t *testing.T) {
	town := newTown(t, 1)
	town.att = attacker.New(attacker.Config{
		Net: town.nw.Network, Node: town.evil, Targets: town.nodes[:],
		Until: town.nw.Now().Add(time.Millisecond),
	})
	town.nw.Advance(time.Millisecond)
	n := town.att.Sent()
	town.nw.Advance(time.Second)
	if got := town.att.Sent(); n == 0 || got != n {
		t.Errorf("%d packets in its time, %d after it", n, got-n)
	}
	town.close()
}

func TestModeString(t *testing.T) {
	seen := map[string]bool{}
	for m := range attacker.NumModes {
		if s := m.String(); s == "" || s == "unknown" || seen[s] {
			t.Errorf("mode %d is called %q", m, s)
		}
		seen[m.String()] = true
	}
	if s := attacker.NumModes.String(); s != "unknown" {
		t.Error(s)
	}
}

// Every kind of packet is sent by some mode.
func TestKinds(t *testing.T) {
	sent := map[string]bool{}
	for _, kinds := range kindsOf {
		for _, k := range kinds {
			sent[k] = true
		}
	}
	for _, k := range attacker.Kinds() {
		if !sent[k] {
			t.Errorf("%q is asked of no mode", k)
		}
	}
	if n := len(attacker.Kinds()); n != len(sent) {
		t.Errorf("%d kinds, %d are asked for", n, len(sent))
	}
}

func TestForged(t *testing.T) {
	for _, c := range []struct {
		message []byte
		want    bool
	}{{nil, true}, {[]byte{attacker.Filler}, true}, {[]byte{attacker.Filler, 0}, false}} {
		if attacker.Forged(c.message) != c.want {
			t.Errorf("%x: %v", c.message, !c.want)
		}
	}
}
