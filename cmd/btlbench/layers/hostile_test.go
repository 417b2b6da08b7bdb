package layers

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// noteOf is a control message.
func noteOf(round, a, b uint64) []byte {
	var note [noteBytes]byte
	binary.LittleEndian.PutUint64(note[:], round)
	binary.LittleEndian.PutUint64(note[8:], a)
	binary.LittleEndian.PutUint64(note[16:], b)
	return note[:]
}

// prepared prepares a round of the transport on a side, and then runs fn on the side's thread.
func prepared(t *testing.T, s *Side, r *Round, fn func(p *btlPort, got func(btl.Tag, []byte))) {
	t.Helper()
	err := s.engine.do(func() error {
		if _, err := s.btl.Prepare(r); err != nil {
			return err
		}
		handlers := s.btl.handlers(r)
		fn(s.btl, func(tag btl.Tag, data []byte) { handlers[tag](s.btl.ep, tag, data) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A peer says that it has seen puts of slots that a round does not have, that are not in use, or
// that it has seen before. The list of free slots has each slot once.
func TestSlotsOfLiar(t *testing.T) {
	client, server := localPair(t)
	liar := func(p *btlPort, got func(btl.Tag, []byte)) {
		free := len(p.messages.free)
		if p.r.Test == plan.TestPutBW && !p.r.Server {
			p.unseen = make([]bool, p.r.Window)
			p.unseen[0] = true // as if a put of this slot were complete
			p.messages.free = p.messages.free[:free-1]
		}
		for _, slot := range []uint64{0, 0, 7, 8, 1 << 40} {
			got(tagPutSeen, noteOf(p.r.Number, slot, 0))
		}
		if n := len(p.messages.free); n != free {
			t.Errorf("%v, server %v: %d free slots of %d", &p.r.Spec, p.r.Server, n, free)
		}
	}
	for _, test := range []string{plan.TestLat, plan.TestPutLat, plan.TestBW, plan.TestPutBW} {
		for _, verify := range []bool{false, true} {
			spec := plan.Spec{
				Number: 1, Test: test, Layer: plan.LayerBTL, SizeBytes: 64, Window: 8, Verify: verify,
			}
			prepared(t, server, &Round{Spec: spec, Server: true}, liar)
			if verify {
				prepared(t, client, &Round{Spec: spec}, liar)
			}
		}
	}
}

// A peer takes no control messages, but causes more and more of them. Those with absolute numbers
// replace each other, and too many of the others end the round.
func TestNotesUntaken(t *testing.T) {
	const window, many = 4, 1 << 20
	_, server := localPair(t)
	round := func(test string) *Round {
		return &Round{Server: true, Spec: plan.Spec{
			Number: 1, Test: test, Layer: plan.LayerBTL, SizeBytes: 8, Window: window, Verify: true,
		}}
	}
	r := round(plan.TestRate)
	prepared(t, server, r, func(p *btlPort, got func(btl.Tag, []byte)) {
		for n := uint64(0); n < many; n++ {
			p.tellOrFail(tagWindow, n)
		}
		if p.sendErr != nil || len(p.notes) != 1 || p.notes[0].a != many-1 {
			t.Errorf("counts: %d control messages are queued: %v", len(p.notes), p.sendErr)
		}
	})
	r = round(plan.TestPutBW)
	prepared(t, server, r, func(p *btlPort, got func(btl.Tag, []byte)) {
		for n := uint64(0); n < many; n++ {
			p.tellOrFail(tagPutSeen, n%window)
		}
		if n := len(p.notes); n > window+notesMore {
			t.Errorf("slots: %d control messages are queued", n)
			return
		}
		if err := p.Server(r); !errors.Is(err, errUntaken) {
			t.Errorf("the round ended with %v", err)
		}
	})
}

// A peer that has put nothing says that puts are in place, with and without a request to verify
// puts. This side compares nothing, and ends the round.
func TestPutsUnpaid(t *testing.T) {
	client, server := localPair(t)
	unpaid := func(p *btlPort, got func(btl.Tag, []byte)) {
		r := p.r
		for range 3 {
			got(tagPut, noteOf(r.Number, 0, 0))
			got(tagNotice, nil)
		}
		if n := r.Tally.VerifiedBytes + r.Tally.CorruptBytes; n != 0 || p.received != 0 {
			t.Errorf("%v, verify %v, server %v: %d bytes are compared of %d puts", &r.Spec, r.Verify,
				r.Server, n, p.received)
			return
		}
		told := r.Test == plan.TestNotice || r.Test == plan.TestPutBW && r.Verify && r.Server
		if err := p.check(); errors.Is(err, errUnpaid) != told {
			t.Errorf("%v, verify %v, server %v: the round goes on with %v", &r.Spec, r.Verify, r.Server,
				err)
		}
	}
	for _, test := range plan.AllTests {
		for _, verify := range []bool{false, true} {
			spec := plan.Spec{
				Number: 1, Test: test, Layer: plan.LayerBTL, SizeBytes: 64, Window: 8, Verify: verify,
			}
			prepared(t, server, &Round{Spec: spec, Server: true}, unpaid)
			prepared(t, client, &Round{Spec: spec}, unpaid)
		}
	}
}

// A halted round compares no further put, even if the peer has made it.
func TestPutsOfHaltedRound(t *testing.T) {
	client, server := localPair(t)
	spec := plan.Spec{
		Test: plan.TestPutBW, Layer: plan.LayerBTL, SizeBytes: 64, Window: 8, Verify: true, Messages: 20,
	}
	_, r := localRound(t, client, server, spec)
	verified := r.Tally.VerifiedBytes
	if verified != 20*64 {
		t.Errorf("%d bytes of 20 puts are verified", verified)
	}
	err := server.engine.do(func() error {
		p := server.btl
		p.received-- // as if the last put were not counted yet
		r.Halted.Store(true)
		p.onPut(p.ep, tagPut, noteOf(r.Number, 19, 0))
		return nil
	})
	if err != nil || r.Tally.VerifiedBytes != verified {
		t.Errorf("%d bytes after the halt: %v", r.Tally.VerifiedBytes-verified, err)
	}
}

// btlAndRunner connects a client of the layer btl with a server of the layer runner, so that a test
// can send what no client of the layer runner sends.
func btlAndRunner(t *testing.T) (client, server *Side, q *runnerPort) {
	t.Helper()
	cfg := Config{
		Provider: "mem/local", Layers: []string{plan.LayerBTL},
		Set:           []string{"send_buffers=64", "fragments_max=16"},
		PeerTimeoutNs: int64(20 * time.Second), TimeoutNs: int64(20 * time.Second),
	}
	client, err := Open(cfg, NodeHint{}, -1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	offers := client.Offers()
	offers[0].Layer = plan.LayerRunner
	cfg.Server, cfg.Layers, cfg.Peer = true, []string{plan.LayerRunner}, offers
	if server, err = Open(cfg, NodeHint{}, -1); err != nil {
		t.Fatal(err)
	}
	answers := server.Offers()
	answers[0].Layer = plan.LayerBTL
	connected := make(chan error, 1)
	go func() { connected <- server.Connect(offers) }()
	if err := errors.Join(client.Connect(answers), <-connected); err != nil {
		t.Fatal(err)
	}
	q, _ = server.layers[0].(*runnerPort)
	return client, server, q
}

// servePings starts a ping-pong at a server of the layer runner.
func servePings(t *testing.T, q *runnerPort, sizeBytes int) (r *Round, ended chan error) {
	t.Helper()
	r = &Round{Server: true, Spec: plan.Spec{
		Test: plan.TestLat, Layer: plan.LayerRunner, SizeBytes: sizeBytes, Window: 1,
		PeerTimeoutNs: q.cfg.PeerTimeoutNs,
	}}
	if _, err := q.Prepare(r); err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- q.Server(r) }()
	return r, ended
}

// A peer of the layer runner sends many pings at once and takes no replies. The round ends when it
// is halted, and the thread that drives the module is not blocked.
func TestPingsAtOnce(t *testing.T) {
	client, server, q := btlAndRunner(t)
	r, ended := servePings(t, q, 64)
	err := client.engine.do(func() error {
		p := client.btl
		for n := range 200 { // as far as the credits go
			if err := p.ep.SendImmediate(clock(), tagData, make([]byte, 64)); err != nil {
				if n == 0 {
					return err
				}
				break
			}
		}
		if err := p.pass(clock()); err != nil {
			return err
		}
		for deadline := clock().Add(10 * time.Second); ; { // Replies are due, or the thread is blocked.
			stats := q.run.Stats()
			if len(q.owed) > 0 || stats.Get(btl.CntDelivered) > 0 || clock() > deadline {
				r.Halted.Store(true)
				return nil
			}
			time.Sleep(time.Millisecond)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
		server.Close()
	case <-time.After(20 * time.Second):
		t.Fatal("the round goes on")
	}
}

// A peer of the layer runner sends many pings and acknowledges no reply. The memory of the replies
// is that which the server has counted for the round, and the other replies follow when the peer
// acknowledges.
func TestRepliesUnacknowledged(t *testing.T) {
	const pings, size = 50, 1 << 20
	client, server, q := btlAndRunner(t)
	defer server.Close()
	spec := plan.Spec{Test: plan.TestLat, Layer: plan.LayerBTL, SizeBytes: size, Window: 1}
	prepared(t, client, &Round{Spec: spec}, func(*btlPort, func(btl.Tag, []byte)) {})
	r, ended := servePings(t, q, size)
	// While this function runs, the module processes no acknowledgement.
	err := q.run.Do(t.Context(), func(*btl.Module) error {
		for range pings {
			q.onData(q.ep, tagData, make([]byte, size))
		}
		if want := q.Memory(r); int64(q.held) != want || want != 2*size || q.due != pings-2 {
			t.Errorf("%d bytes of replies, %d are counted, %d replies are due", q.held, want, q.due)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	replies := func() (n uint64) {
		_ = client.engine.do(func() error {
			n = client.btl.received
			return nil
		})
		return n
	}
	for deadline := time.Now().Add(20 * time.Second); replies() < pings; {
		if time.Sleep(time.Millisecond); time.Now().After(deadline) {
			t.Fatalf("%d replies of %d", replies(), pings)
		}
	}
	r.Stopped.Store(true)
	if err := <-ended; err != nil || r.Sent != pings {
		t.Errorf("%d replies: %v", r.Sent, err)
	}
}

// A short ping gets no long reply, and ends the round.
func TestPingOfWrongLength(t *testing.T) {
	client, server, q := btlAndRunner(t)
	defer server.Close()
	r, ended := servePings(t, q, 1<<20)
	err := client.engine.do(func() error {
		return client.btl.ep.SendImmediate(clock(), tagData, []byte{1})
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, errPing) || r.Sent != 0 {
			t.Errorf("%d replies: %v", r.Sent, err)
		}
	case <-time.After(20 * time.Second):
		r.Halted.Store(true)
		t.Error("the round goes on")
	}
}

// The transport refuses a message that is longer than those of all rounds so far, before it has
// memory for the message.
func TestMessagesBeyondRound(t *testing.T) {
	const size, load = 5000, 4000
	sent := func(client *Side, tag btl.Tag, sizeBytes int) error {
		t.Helper()
		result := make(chan error, 1)
		err := client.engine.do(func() error {
			f, err := client.btl.ep.Prepare(tag, make([]byte, sizeBytes))
			if err != nil {
				return err
			}
			f.Signal, f.OnDone = true, func(_ *btl.Fragment, err error) { result <- err }
			_, err = client.btl.ep.Send(clock(), f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return <-result
	}
	client, server := localPair(t)
	spec := plan.Spec{
		Test: plan.TestLatLoad, Layer: plan.LayerBTL, SizeBytes: size, Window: 1, LoadBytes: load,
	}
	for _, n := range []int{size, 8, 0} {
		spec.SizeBytes = n
		r := &Round{Spec: spec, Server: true}
		prepared(t, server, r, func(*btlPort, func(btl.Tag, []byte)) {})
		for tag := tagData; tag <= tagLast; tag++ {
			if err := sent(client, tag, size+1); !errors.Is(err, btl.ErrUnwanted) {
				t.Errorf("tag %d, %d bytes: %v", tag, size+1, err)
			}
		}
		if err := errors.Join(sent(client, tagData, size), sent(client, tagLoad, load)); err != nil {
			t.Error(err)
		}
	}
	client, server, q := btlAndRunner(t)
	defer server.Close()
	r := &Round{Server: true, Spec: plan.Spec{Test: plan.TestBW, SizeBytes: size, Window: 1}}
	if _, err := q.Prepare(r); err != nil {
		t.Fatal(err)
	}
	if err := sent(client, tagData, size+1); !errors.Is(err, btl.ErrUnwanted) {
		t.Errorf("runner: %d bytes: %v", size+1, err)
	}
	if err := sent(client, tagData, size); err != nil {
		t.Errorf("runner: %v", err)
	}
}

// A put that is to be verified has arrived when its bytes were written, whatever the memory
// contains. The server of put_lat thus compares the bytes of each put once.
func TestPutsOfFewBytes(t *testing.T) {
	client, server := localPair(t)
	spec := plan.Spec{
		Test: plan.TestPutLat, Layer: plan.LayerBTL, SizeBytes: 64, Window: 1, Verify: true, Messages: 20,
	}
	prepared(t, server, &Round{Spec: spec, Server: true}, func(p *btlPort, _ func(btl.Tag, []byte)) {
		fillPattern(p.place, 1)
		if p.putHere(p.r, 0) {
			t.Error("a put is in place of which no byte was written")
		}
	})
	c, s := localRound(t, client, server, spec)
	for _, r := range []*Round{c, s} {
		if n := &r.Tally; n.VerifiedBytes != 20*64 || n.CorruptBytes != 0 || n.Duplicates != 0 {
			t.Errorf("server %v: %+v", r.Server, *n)
		}
	}
}

// A stranger who knows the addresses of both sides connects to neither, before and after they have
// connected to each other.
func TestStrangersRefused(t *testing.T) {
	for _, layer := range []string{plan.LayerBTL, plan.LayerRunner} {
		cfg := Config{
			Provider: "mem/local", Layers: []string{layer}, Wait: "event",
			PeerTimeoutNs: int64(20 * time.Second), TimeoutNs: int64(20 * time.Second),
		}
		open := func() *Side {
			s, err := Open(cfg, NodeHint{}, -1)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return s
		}
		strangers := []*Side{open(), open(), open(), open()}
		client := open()
		cfg.Server, cfg.Peer = true, client.Offers()
		server := open()
		refused := func(when string, stranger, by *Side) {
			var refused *btl.RefusedError
			if err := stranger.Connect(by.Offers()); !errors.As(err, &refused) {
				t.Errorf("%s, a stranger %s they connect: %v", layer, when, err)
			}
		}
		refused("to the server before", strangers[0], server)
		refused("to the client before", strangers[1], client)
		if t.Failed() {
			return // The client would wait for its place.
		}
		if err := join(client, server); err != nil {
			t.Fatal(err)
		}
		refused("to the server after", strangers[2], server)
		refused("to the client after", strangers[3], client)
		spec := plan.Spec{
			Test: plan.TestBW, Layer: layer, SizeBytes: 8, Window: 4, Messages: 100, Verify: true,
		}
		if _, r := localRound(t, client, server, spec); r.Tally.Messages != 100 {
			t.Errorf("%s: %d messages of 100", layer, r.Tally.Messages)
		}
	}
}

// A peer acknowledges nothing. A round that is halted does not wait for it in Prepare, and the
// server of put_lat does not wait for it after its stop.
func TestUnacknowledged(t *testing.T) {
	_, server := localPair(t)
	server.Cfg.PeerTimeoutNs = int64(50 * time.Millisecond)
	r := &Round{Server: true, Spec: plan.Spec{
		Test: plan.TestPutLat, Layer: plan.LayerBTL, SizeBytes: 64, Window: 1,
	}}
	prepared(t, server, r, func(p *btlPort, _ func(btl.Tag, []byte)) {
		free := p.messages.free
		p.messages.free = nil // as if all puts were on their way
		time.AfterFunc(10*time.Millisecond, func() { r.Stopped.Store(true) })
		time.AfterFunc(10*time.Second, func() { r.Halted.Store(true) })
		if err := p.sendPut(r); err != nil || r.Sent != 0 {
			t.Errorf("a stopped server has put %d times: %v", r.Sent, err)
		}
		p.messages.free = free
	})
	err := server.engine.do(func() error {
		server.btl.inFlight = 1
		defer func() { server.btl.inFlight = 0 }()
		next := &Round{Spec: r.Spec, Server: true}
		next.Halted.Store(true)
		_, err := server.btl.Prepare(next)
		return err
	})
	if !errors.Is(err, ErrHalted) {
		t.Errorf("a halted round: %v", err)
	}
}
