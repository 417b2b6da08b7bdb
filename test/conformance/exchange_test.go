package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
)

// testExchange, model: fabtests functional/dgram and functional/rdm. One message each way; the
// server knows nobody, and answers through the endpoint that the client's handshake made.
func testExchange(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	server, client := l.add(btl.Config{}), l.add(btl.Config{})
	const question, answer btl.Tag = 10, 11
	var heard, told string
	server.handle(question, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		heard += string(data)
		if err := ep.SendImmediate(ep.Now(), answer, []byte("hello, client")); err != nil {
			t.Errorf("answer: %v", err)
		}
	})
	client.handle(answer, func(_ *btl.Endpoint, _ btl.Tag, data []byte) { told += string(data) })
	ep := l.dial(client, server)
	f, err := ep.Prepare(question, []byte("hello, server"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	l.until("the answer", func() bool { return told != "" })
	l.run(10 * time.Millisecond) // for what might come twice
	if heard != "hello, server" || told != "hello, client" {
		t.Errorf("the server heard %q, the client %q", heard, told)
	}
	if n := len(server.accepted()); n != 1 {
		t.Errorf("%d connections at the server", n)
	}
	l.settle()
}

// classSizes are the size classes of a connection: nothing, the edges of each way through the
// transport, and sizes up to 4 MiB.
func classSizes(ep *btl.Endpoint, m *btl.Module) []int {
	lim := m.Limits()
	return []int{
		0, 1, 8, 64, ep.MaxTiny() - 1, ep.MaxTiny(), ep.MaxTiny() + 1,
		lim.SegmentBytes - 1, lim.SegmentBytes, lim.SegmentBytes + 1,
		2 * lim.ChunkBytes, 2*lim.ChunkBytes + 1, 4096, 64 << 10, 1<<20 + 1, 4 << 20,
	}
}

// testPingpong, model: fabtests benchmarks/dgram_pingpong, rdm_pingpong, rdm_tagged_pingpong, with
// -v: every byte of every size is verified, and each message is answered exactly once.
func testPingpong(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	server, client := l.add(btl.Config{}), l.add(btl.Config{})
	const ping, pong btl.Tag = 10, 11
	send := func(ep *btl.Endpoint, tag btl.Tag, key uint64, size int) {
		f, err := ep.Alloc(tag, size)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		pattern(f.Bytes(), key)
		if _, err := ep.Send(ep.Now(), f); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	key, size := uint64(0), 0
	pings, pongs := uint64(0), uint64(0)
	check := func(who string, count uint64, data []byte) {
		if count != key || len(data) != size || !intact(data, key<<1|uint64(len(who)&1)) {
			t.Errorf("%s %d of %d bytes: came as number %d, %d bytes, intact: %v", who, key, size,
				count, len(data), intact(data, key<<1|uint64(len(who)&1)))
		}
	}
	server.handle(ping, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		pings++
		check("client", pings, data)
		send(ep, pong, key<<1|1, size)
	})
	client.handle(pong, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		pongs++
		check("server.", pongs, data)
	})
	ep := l.connect(client, server)
	for _, size = range classSizes(ep, client.mod) {
		rounds := 8
		if size > 64<<10 {
			rounds = 1
		}
		for range rounds {
			key++
			send(ep, ping, key<<1, size)
			l.until(fmt.Sprintf("pong %d of %d bytes", key, size),
				func() bool { return pongs == key })
		}
	}
	l.settle()
	if pings != key || pongs != key {
		t.Errorf("%d rounds: %d pings, %d pongs", key, pings, pongs)
	}
}

// testTaggedBW, model: fabtests benchmarks/rdm_tagged_bw. The sender has at most a window of
// messages that the receiving program has not answered; the receiver answers a window at a time.
func testTaggedBW(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	server, client := l.add(btl.Config{}), l.add(btl.Config{})
	const window, windows = 32, 8
	const ack btl.Tag = 10
	ep := l.connect(client, server)
	for _, size := range []int{64, 1200, 16 << 10} {
		s := l.stream(client, ep, server, spec{count: window * windows, size: fixed(size)})
		s.limit = window
		s.onGot = func(back *btl.Endpoint, _ int) {
			if s.got%window == 0 {
				reply(t, back, ack)
			}
		}
		acks := 0
		client.handle(ack, func(*btl.Endpoint, btl.Tag, []byte) {
			if acks++; s.got < acks*window {
				t.Errorf("answer %d after %d messages", acks, s.got)
			}
			s.limit = min(s.limit+window, s.count)
		})
		l.allDone(fmt.Sprintf("windows of %d bytes", size), s)
		l.until("the last answer", func() bool { return acks == windows })
		// Fast receive may deliver an answer before it books the ACKs that the answer carries.
		if s.most > 2*window {
			t.Errorf("%d bytes: %d messages under way, the window has %d", size, s.most, window)
		}
	}
	l.settle()
}

// reply sends an empty message.
func reply(t *testing.T, ep *btl.Endpoint, tag btl.Tag) {
	t.Helper()
	f, err := ep.Prepare(tag, nil)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Error(err)
	}
}

// testFlood, model: fabtests functional/flood (fi_bw -T). The receiver sleeps while the sender
// floods it: the sender is refused with ErrAgain, holds no more than its bounds, and nothing is
// lost.
func testFlood(t *testing.T, fx *fixture) {
	for _, size := range []int{256, 1400, 40000} {
		t.Run(fmt.Sprintf("%d_bytes", size), func(t *testing.T) {
			l := newLab(t, fx, opts{queueDatagrams: 92})
			cfg := btl.Config{
				SendBuffers: 256, FragmentsMax: 128, RecvBufferBytes: -1,
				ReassemblyBytesMax: 8 << 20, FragmentBytesMax: 1 << 20,
			}
			receiver, sender := l.add(cfg), l.add(cfg)
			ep := l.connect(sender, receiver)
			s := l.stream(sender, ep, receiver, spec{count: 300, size: fixed(size)})
			const nap = 250 * time.Millisecond
			receiver.at.pause(nap)
			l.run(nap - 50*time.Millisecond)
			if s.refused == 0 {
				t.Errorf("the sender was never refused: %v", s)
			}
			if packets, waiting := ep.Outstanding(); packets > 256 || waiting > 128 || s.most > 128 {
				t.Errorf("%d packets and %d fragments wait, up to %d messages were under way",
					packets, waiting, s.most)
			}
			if s.got > 1 { // the pass in which it went to sleep may have delivered one
				t.Errorf("a receiver that sleeps got %d messages", s.got)
			}
			l.allDone("the flood", s)
			l.settle()
		})
	}
}

// testUnexpected, model: fabtests functional/unexpected_msg. Messages for which the receiver is not
// ready: a BTL keeps none, so each is refused and its sender told, exactly once; the others arrive,
// and once there are handlers, set up in reverse order, all do.
func testUnexpected(t *testing.T, fx *fixture) {
	l := newLab(t, fx, opts{})
	server, client := l.add(btl.Config{}), l.add(btl.Config{})
	const first, count = btl.Tag(20), 5
	arrived := map[btl.Tag]int{}
	ready := func(tag btl.Tag) {
		server.handle(tag, func(_ *btl.Endpoint, tag btl.Tag, data []byte) {
			if !intact(data, uint64(tag)) {
				t.Errorf("tag %d: altered", tag)
			}
			arrived[tag]++
		})
	}
	ready(first + 1)
	ready(first + 3)
	ep := l.connect(client, server)
	for _, size := range []int{8, 1200, 10000} {
		for round, want := range []map[btl.Tag]error{
			{first: btl.ErrNoHandler, first + 2: btl.ErrNoHandler, first + 4: btl.ErrNoHandler},
			{}, // all have handlers
		} {
			clear(arrived)
			ends := 0
			for tag := first; tag < first+count; tag++ {
				f, err := ep.Alloc(tag, size)
				if err != nil {
					t.Fatal(err)
				}
				pattern(f.Bytes(), uint64(tag))
				f.Signal = true
				f.OnDone = func(_ *btl.Fragment, err error) {
					ends++
					if !errors.Is(err, want[tag]) {
						t.Errorf("%d bytes, tag %d: %v, want %v", size, tag, err, want[tag])
					}
				}
				if _, err := ep.Send(ep.Now(), f); err != nil {
					t.Fatal(err)
				}
			}
			l.until("all have ended", func() bool { return ends == count })
			l.settle()
			for tag := first; tag < first+count; tag++ {
				if n := arrived[tag]; (n == 1) != (want[tag] == nil) || n > 1 {
					t.Errorf("%d bytes, tag %d arrived %d times", size, tag, n)
				}
			}
			if round == 0 {
				for tag := first + 4; ; tag -= 2 {
					ready(tag)
					if tag == first {
						break
					}
				}
			}
		}
		for _, tag := range []btl.Tag{first, first + 2, first + 4} {
			server.handle(tag, nil)
		}
	}
}
