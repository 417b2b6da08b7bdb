//go:build unix

package stream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/sim"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// TestLettersOfOnePeer: a peer that sends letters all the time is ended before they are parsed. A
// new connection gives it no new burst. The stream of another peer goes on.
func TestLettersOfOnePeer(t *testing.T) {
	w := newSimWorld(t, 45, 1)
	cfg := Config{Messages: 8_000, BitsPerSecond: 64 * 8 * 5000}
	s := w.receiver(w.rx[0], cfg, 77)
	s.send(w.tx, cfg, 99, s.rx.Identity())
	bad := w.rogue(t, "bad")
	bad.connect(s.rx.Identity().Name)
	long := obj{"kind": "zz", "code": strings.Repeat("x", letterBytesMax-40)}
	ends := 0
	bad.every(time.Millisecond, func() {
		if bad.ep.Err() != nil {
			ends++
			ep, err := bad.m.Connect(w.nw.Now(), s.rx.Identity().Name)
			if err != nil {
				t.Fatal(err)
			}
			bad.ep = ep
		}
		for range 10 {
			bad.say(bad.ep, long)
		}
	})
	s.whole(time.Minute, 8_000) // it takes 1.6 s
	seconds := int(w.nw.Now().Sub(0)/time.Second) + 1
	most := letterHostShare*(letterBurst+letterPerStream+seconds*letterPerSecond)/letterBytesMax + 20
	e := w.rx[0].Engine
	if n := int(e.letters.parsed); n > most || n < letterBurst/letterBytesMax {
		t.Errorf("%d letters were parsed in %d s, at most %d may be", n, seconds, most)
	}
	if ends == 0 || e.refused.Letters < uint64(ends) || len(e.letters.endpoints) > 2 {
		t.Errorf("%d ends, %d are counted, %d endpoints are remembered", ends, e.refused.Letters,
			len(e.letters.endpoints))
	}
}

// Control messages of 0 bytes count too: a peer that sends as many of them as its packets carry is
// ended.
func TestEmptyLetters(t *testing.T) {
	w := newSimWorld(t, 70, 1)
	s := w.receiver(w.rx[0], Config{}, 77)
	bad := w.rogue(t, "bad")
	bad.connect(s.rx.Identity().Name)
	sent := 0
	bad.every(time.Millisecond, func() {
		for range 360 { // in a packet
			f, err := bad.ep.Alloc(tagLetter, 0)
			if err != nil {
				return
			}
			if _, err := bad.ep.Send(w.nw.Now(), f); err != nil {
				_ = bad.ep.Free(f)
				return
			}
			sent++
		}
	})
	w.nw.RunUntil(w.nw.Now().Add(time.Second))
	const most = (letterBurst + letterPerStream + letterPerSecond) / letterWork
	if n := w.rx[0].letters.parsed; n > most || bad.ep.Err() == nil {
		t.Errorf("%d of %d letters are parsed, at most %d may be; the peer: %v", n, sent, most,
			bad.ep.Err())
	}
}

// A notice, or a control message that is not valid, makes the engine look at no other stream. What
// the engine keeps of a stream to find it ends with the stream.
func TestMessagesTouchNoOther(t *testing.T) {
	w := newSimWorld(t, 71, 1)
	cfg := Config{Messages: 100}
	s := w.receiver(w.rx[0], cfg, 77)
	s.send(w.tx, cfg, 99, s.rx.Identity())
	s.whole(time.Minute, 100)
	tx, rx := w.tx.Engine, w.rx[0].Engine
	for _, e := range []*Engine{tx, rx} {
		if n := len(e.begun) + len(e.linked) + len(e.letters.partners); n != 0 {
			t.Errorf("%d entries are left: %v, %v, %v", n, e.begun, e.linked, e.letters.partners)
		}
	}
	cfg = Config{Messages: 8000, BitsPerSecond: 64 * 8 * 5000} // it takes 1.6 s
	s = w.receiver(w.rx[0], cfg, 78)
	s.send(w.tx, cfg, 100, s.rx.Identity())
	w.until(time.Minute, func() bool { return s.tx.state == stateRunning })
	if tx.letters.partners[s.tx.links[0].ep] != 1 || rx.letters.partners[s.rx.ep] != 1 {
		t.Errorf("partners %v and %v", tx.letters.partners, rx.letters.partners)
	}
	k := s.tx.links[0]
	s.tx.links = slices.Insert(s.tx.links, 0, nil) // a look at it is a panic
	rx.receiving = slices.Insert(rx.receiving, 0, nil)
	var b [noticeBytes]byte
	credit := notice{noticeCredit, 100, k.credit + 1}
	credit.put(b[:])
	tx.onNotice(k.ep, tagNotice, b[:])
	if k.credit != credit.ordinal {
		t.Error("the notice has not reached its link")
	}
	placed := notice{noticePlaced, 5, 1} // of no stream
	placed.put(b[:])
	rx.onNotice(s.rx.ep, tagNotice, b[:])
	rx.onLetter(s.rx.ep, tagLetter, nil)
	if rx.receiverOf(s.rx.ep, 100) != s.rx {
		t.Error("the receiver is not found")
	}
}

// TestLettersOfPartner: the stream of a peer that sends too many letters ends with the reason.
func TestLettersOfPartner(t *testing.T) {
	w := newSimWorld(t, 46, 1)
	s := w.receiver(w.rx[0], Config{}, 77)
	bad := w.rogue(t, "bad")
	bad.connect(s.rx.Identity().Name)
	bad.say(bad.ep, bad.hello(77, obj{"messages": "0"}))
	w.until(time.Minute, func() bool { _, ok := bad.got(letterWelcome); return ok })
	bad.say(bad.ep, obj{"kind": letterStart, "key": text(bad.key), "start": obj{"sent": "0"}})
	w.until(time.Minute, func() bool { return s.rx.state == stateRunning })
	bad.every(time.Millisecond, func() {
		bad.say(bad.ep, bad.hello(77, obj{"messages": "0"}))
	})
	w.until(time.Minute, func() bool { return s.rx.state == stateDone })
	if !errors.Is(s.rx.err, ErrPeerFailed) || !strings.Contains(s.rx.err.Error(), "control messages") {
		t.Error(s.rx.err)
	}
	if n := s.rx.Stats().Refused.Letters; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestLettersOfManyStreams: streams that the program opens add to what a peer may send, and hosts
// are forgotten.
func TestLettersOfManyStreams(t *testing.T) {
	var l letters
	burst := letterTime(letterBurst)
	b := letterBound{}
	if b.spend(&l, 0, burst+1, burst) || !b.spend(&l, 0, burst, burst) || b.spend(&l, 0, 1, burst) {
		t.Error("the burst is wrong")
	}
	l.opened++
	if n := letterTime(letterPerStream); !b.spend(&l, 0, n, burst) || b.spend(&l, 0, 1, burst) {
		t.Error("a new stream allows no letters")
	}
	if !b.spend(&l, 1000, 1000, burst) || b.spend(&l, 1000, 1, burst) {
		t.Error("time allows no letters")
	}
	l.endpoints, l.hosts = map[*btl.Endpoint]*letterBound{}, map[letterHost]*letterBound{}
	for i := range 2 * letterHostsMax {
		l.forget(2000)
		l.hosts[letterHost{host: text(uint64(i))}] = &letterBound{free: 3000}
	}
	if len(l.hosts) != letterHostsMax {
		t.Errorf("%d hosts are remembered", len(l.hosts))
	}
	if l.forget(3000); len(l.hosts) != 0 {
		t.Errorf("%d hosts are remembered whose burst is there", len(l.hosts))
	}
}

// Lines that a peer sends to a Meeting do not let any peer send more control messages.
func TestLettersBesideLines(t *testing.T) {
	w := newSimWorld(t, 63, 1)
	s := w.receiver(w.rx[0], Config{}, 77)
	s.send(w.tx, Config{Messages: 1}, 99)
	e := w.tx.Engine
	ep, err := e.m.Connect(w.nw.Now(), s.rx.Identity().Name)
	if err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for range 1000 {
		k := &link{s: s.tx, ep: ep}
		e.addLink(k)
		k.close(nil)
		for e.letters.judge(ep, 0, 1024, 1, false) == mayParse {
			bytes += 1024
		}
	}
	if most := letterBurst + letterPerStream; bytes != most {
		t.Errorf("the peer may send %d bytes at once, want %d", bytes, most)
	}
	if _, err := e.newSender(w.ring(roguesGeometry, false), Config{}, 100); err != nil {
		t.Fatal(err)
	}
	if e.letters.judge(ep, 0, letterPerStream, 1, false) != mayParse {
		t.Error("a new sender allows no letters")
	}
}

// What a partner sends too much counts for its host when its connection ends, so that the host's
// next handshakes stop.
func TestLettersOfEndedPartner(t *testing.T) {
	w := newSimWorld(t, 64, 1)
	s := w.receiver(w.rx[0], Config{}, 77)
	s.send(w.tx, Config{Messages: 1}, 99)
	e := w.tx.Engine
	ep, err := e.m.Connect(w.nw.Now(), s.rx.Identity().Name)
	if err != nil {
		t.Fatal(err)
	}
	bytes, ends := 0, 0
	for ; ends < 100; ends++ {
		k := &link{s: s.tx, ep: ep}
		e.addLink(k)
		if e.letters.judge(ep, 0, 1024, 1, false) != mayParse { // the handshake
			break
		}
		for e.letters.judge(ep, 0, 1024, 1, true) == mayParse {
			bytes += 1024
		}
		k.close(nil)
		e.letters.end(ep, 0)
	}
	if most := 2 * letterHostShare * (letterBurst + 2*letterPerStream); bytes > most || ends == 100 {
		t.Errorf("the peer may send %d bytes in %d connections, want at most %d", bytes, ends, most)
	}
}

// Endpoints without links that send too much and end do not stop the handshakes of their host.
func TestLettersOfEndedStrangers(t *testing.T) {
	w := newSimWorld(t, 67, 1)
	s := w.receiver(w.rx[0], Config{}, 77)
	s.send(w.tx, Config{Messages: 1}, 99)
	e := w.tx.Engine
	ep, err := e.m.Connect(w.nw.Now(), s.rx.Identity().Name)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		for e.letters.judge(ep, 0, 1024, 1, false) != mustEnd {
		}
		e.letters.end(ep, 0)
	}
	e.addLink(&link{s: s.tx, ep: ep})
	if e.letters.judge(ep, 0, 1024, 1, false) != mayParse {
		t.Error("the letter of a handshake is dropped")
	}
}

// TestLettersOfLongStreams: a peer with many receivers may prove the datagram size of all streams
// for ever. Links do not change what it may send at once, and ended links are not counted.
func TestLettersOfLongStreams(t *testing.T) {
	w := newSimWorld(t, 47, 1)
	s := w.receiver(w.rx[0], Config{}, 77)
	ep, err := w.tx.m.Connect(w.nw.Now(), s.rx.Identity().Name)
	if err != nil {
		t.Fatal(err)
	}
	const streams, seconds, proofLetter = 1024, 3600, letterWork + 90
	e := w.tx.Engine
	host := letterHost{host: ep.PeerHost()}
	links := make([]*link, streams)
	for i := range links {
		links[i] = &link{s: &Sender{e: e}, ep: ep}
		e.addLink(links[i])
	}
	for second := range seconds {
		now := mono.Time(0).Add(time.Duration(second) * time.Second)
		for range streams {
			if e.letters.judge(ep, now, proofLetter, streams, false) != mayParse {
				t.Fatalf("after %d s, the peer is ended", second)
			}
		}
	}
	if n := e.letters.hosts[host].links; n != streams {
		t.Errorf("%d links of the host are counted", n)
	}
	bytes := 0
	now := mono.Time(2 * time.Hour)
	for ; e.letters.judge(ep, now, 1024, streams, false) == mayParse; bytes += 1024 {
	}
	if most := letterBurst + streams*letterPerStream; bytes > most {
		t.Errorf("the peer may send %d bytes at once, at most %d are permitted", bytes, most)
	}
	for i := range 2 * letterHostsMax {
		e.letters.hosts[letterHost{host: text(uint64(i))}] = &letterBound{free: mono.Never}
	}
	if e.letters.forget(0); len(e.letters.hosts) >= letterHostsMax || e.letters.hosts[host] == nil {
		t.Error("a host with links is forgotten, or too many are remembered")
	}
	for _, k := range links {
		k.close(nil)
		k.close(nil)
	}
	if n := e.letters.hosts[host].links + e.letters.endpoints[ep].links; n != 0 {
		t.Errorf("%d ended links are counted", n)
	}
}

// TestLettersOfNeighbours: peers of the same host that send many letters do not end the stream of a
// peer that sends few.
func TestLettersOfNeighbours(t *testing.T) {
	w := newSimWorld(t, 45, 1)
	w.teller()
	w.move(w.rx[0], liarsHost)
	cfg := Config{Mode: Unreliable, Messages: 3000, BitsPerSecond: 1400 * 8 * 100}
	s := w.open(cfg, Geometry{1400, 8, 8}, 0)
	w.until(time.Minute, func() bool { return s.rx.state == stateRunning })
	for i := range 10 {
		bad := w.rogue(t, "bad"+text(uint64(i)))
		w.hosts[bad.node.Index()] = liarsHost
		bad.connect(w.tx.m.Name())
		bad.every(2*time.Millisecond, func() {
			if bad.ep.Err() != nil {
				ep, err := bad.m.Connect(w.nw.Now(), w.tx.m.Name())
				if err != nil {
					t.Fatal(err)
				}
				bad.ep = ep
			}
			bad.say(bad.ep, obj{"a": strings.Repeat("x", 40)}) // it counts 112 bytes
		})
	}
	w.until(2*time.Minute, func() bool { return s.tx.state == stateDone })
	if s.tx.err != nil || s.rx.err != nil {
		t.Errorf("the stream ends: %v, %v", s.tx.err, s.rx.err)
	}
	if w.tx.Engine.refused.Letters == 0 {
		t.Error("the letters of the others are within the bound")
	}
}

// TestLettersOfLinks: a host whose lines at a Meeting make the sender connect to its modules again
// and again does not send more control messages than its share, although each new connection has a
// bound of its own. The stream of another host goes on.
func TestLettersOfLinks(t *testing.T) {
	w := newSimWorld(t, 46, 1)
	w.teller()
	w.move(w.rx[0], honestHost)
	cfg := Config{Mode: Unreliable, Messages: 300, BitsPerSecond: 1400 * 8 * 100}
	s := w.open(cfg, Geometry{1400, 8, 8}, 0)
	w.until(time.Minute, func() bool { return s.rx.state == stateRunning })
	begin, parsed := w.nw.Now(), w.tx.letters.parsed
	bad := w.rogue(t, "bad")
	w.hosts[bad.node.Index()] = liarsHost
	bad.answer = func(ep *btl.Endpoint, l obj) { bad.ep = ep }
	id := Identity{Role: RoleReceiver, Key: 1000, Name: bad.m.Name(), from: liarsHost}
	long := strings.Repeat("x", 1<<10)
	lines := 0
	bad.every(time.Millisecond, func() {
		switch {
		case bad.ep == nil || bad.ep.Err() != nil:
			id.Key++
			bad.ep = nil
			if err := s.tx.addReceiver(id); err == nil {
				lines++
				w.tx.ctl.Kick()
			}
		default:
			for bad.say(bad.ep, obj{"kind": "zz", "code": long}) {
			}
		}
	})
	w.until(2*time.Minute, func() bool { return s.tx.state == stateDone })
	if s.tx.err != nil || s.rx.err != nil {
		t.Errorf("the stream ends: %v, %v", s.tx.err, s.rx.err)
	}
	seconds := int(w.nw.Now().Sub(begin)/time.Second) + 1
	most := letterHostShare*(letterBurst+2*letterPerStream+seconds*letterPerSecond) + letterPerStream
	if n := int(w.tx.letters.parsed-parsed) * len(long); lines < 3 || n > most {
		t.Errorf("%d bytes are parsed after %d lines, at most %d are permitted", n, lines, most)
	}
}

// A receiver that gets all messages, but reports for ever that it lacks memory for a control
// message, is dropped, and the stream to the other receivers ends.
func TestLetterNeverAcknowledged(t *testing.T) {
	const timeout, total = 100 * time.Millisecond, 4000
	w := newSimWorld(t, 62, 1)
	full := w.hostOf("full", btl.Config{
		FragmentBytesMax: letterBytesMax, ReassemblyBytesMax: letterBytesMax,
	})
	cfg := Config{
		Messages: total, BitsPerSecond: 64 * 8 * 5000, Timeout: timeout, Grace: timeout, Receivers: 2,
	}
	s, honest := w.receiver(full, cfg, 77), w.receiver(w.rx[0], cfg, 78)
	accomplice := w.rogue(t, "accomplice") // An unfinished letter of it takes the memory.
	accomplice.connect(full.m.Name())
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		var h frag.Header
		_, err := frag.Decode(d.Data, &h)
		return sim.Verdict{
			Drop: err == nil && d.From.Node == accomplice.node.Index() && h.OffsetBytes > 0,
		}
	})
	long := strings.Repeat("x", letterBytesMax-40)
	if !accomplice.say(accomplice.ep, obj{"kind": "zz", "code": long}) {
		t.Fatal("no room")
	}
	s.send(w.tx, cfg, 99, s.rx.Identity(), honest.rx.Identity())
	honest.tx = s.tx
	k, sent := s.tx.links[0], mono.Time(0)
	w.tx.after = func() {
		if sent == 0 && k.next == total {
			sent = w.nw.Now()
			w.tx.sendLetter(k.ep, &letter{Kind: "zz", Reason: long[:letterBytesMax/2]})
		}
	}
	w.until(time.Minute, func() bool {
		return s.tx.state == stateDone && honest.rx.state == stateDone
	})
	took := w.nw.Now().Sub(sent)
	if !errors.Is(s.tx.err, ErrStalled) || took < endTimeouts*timeout || took > 2*endTimeouts*timeout {
		t.Errorf("after %v: %v", took, s.tx.err)
	}
	if honest.read(); honest.rx.err != nil || honest.got != total {
		t.Errorf("the other receiver: %d messages, %v", honest.got, honest.rx.err)
	}
	if st := full.m.Stats(); st.Get(btl.CntDropReassembly) == 0 {
		t.Error("no packet was refused")
	}
}
