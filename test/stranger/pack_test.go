//go:build cgo

package stranger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
)

// records are messages for the handler that checks.
func records(texts ...string) (list []Record) {
	for _, text := range texts {
		list = append(list, Record{Tag: tagCheck, Bytes: []byte(text)})
	}
	return list
}

// burst is n messages, each of which says which it is; every third of them has a tag of its own.
func burst(n int, third uint8) (list []Record) {
	for i := range n {
		r := Record{Tag: tagCheck, Bytes: fmt.Appendf(nil, "%d:%s", i, pattern(i*7%61))}
		if i%3 == 2 {
			r.Tag = third
		}
		list = append(list, r)
	}
	return list
}

// arrive checks that the messages come that have a handler, each once, in any order.
func arrive(t *testing.T, side string, from chan []byte, list []Record) {
	t.Helper()
	want, got := []string{}, []string{}
	for _, r := range list {
		if r.Tag != tagUnknown {
			want = append(want, string(r.Bytes))
			got = append(got, string(receive(t, from, "a message at the "+side)))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: other messages came than were sent", side)
	}
	if len(from) != 0 {
		t.Errorf("%s: %d messages too many", side, len(from))
	}
}

// checkEnds checks the ends of messages: those without a handler are refused.
func checkEnds(t *testing.T, list []Record, ends []<-chan error) {
	t.Helper()
	for i, end := range ends {
		err := receive(t, end, "the end of a message")
		if refused := list[i].Tag == tagUnknown; refused != errors.Is(err, ErrRefused) ||
			!refused && err != nil {
			t.Errorf("message %d, tag %d: %v", i, list[i].Tag, err)
		}
	}
}

// sendBurst has the module send messages in one go; the channels tell how each ended.
func sendBurst(t *testing.T, m *module, ep *btl.Endpoint, list []Record) (ends []<-chan error) {
	t.Helper()
	for len(list) > 0 {
		must(t, m.Do(within(t), func(*btl.Module) error {
			for len(list) > 0 {
				f, err := ep.Alloc(btl.Tag(list[0].Tag), len(list[0].Bytes))
				if errors.Is(err, btl.ErrAgain) {
					return nil
				} else if err != nil {
					return err
				}
				end := make(chan error, 1)
				copy(f.Bytes(), list[0].Bytes)
				f.Signal = true
				f.OnDone = func(_ *btl.Fragment, err error) { end <- err }
				if _, err := ep.Send(ep.Now(), f); err != nil {
					return err
				}
				ends, list = append(ends, end), list[1:]
			}
			return nil
		}))
	}
	return ends
}

// TestPackedStrangers: two strangers understand each other's packs, refusals among them. What they
// have wrong both, the other tests tell.
func TestPackedStrangers(t *testing.T) {
	t.Parallel()
	for name, faults := range someFaults() {
		t.Run(name, func(t *testing.T) {
			msgs := make(chan []byte, 4096)
			q := openPeer(t, Config{
				OnMessage: func(_ *Conn, _ uint8, b []byte) { msgs <- bytes.Clone(b) },
				Accept:    func(tag uint8) bool { return tag != tagUnknown && tag != tagUnknown+1 },
			})
			p := openPeer(t, Config{Faults: faults})
			c, err := p.Dial(q.Name())
			must(t, err)
			must(t, c.Wait())
			for i, limit := range []int{1, 3, 40, 1000} {
				list := burst(400, []uint8{tagOther, tagUnknown}[i%2])
				checkEnds(t, list, c.StartPacked(list, limit))
				arrive(t, "other", msgs, list)
			}
			none := []Record{{Tag: tagUnknown, Bytes: []byte("a")}, {Tag: tagUnknown + 1}}
			for _, end := range c.StartPacked(none, 2) {
				if err := receive(t, end, "the end"); !errors.Is(err, ErrRefused) {
					t.Errorf("nothing of the pack has a handler: %v", err)
				}
			}
			if q.Count("void") == 0 || q.Count("packed") == 0 {
				t.Errorf("%d Voids, %d in packs", q.Count("void"), q.Count("packed"))
			}
		})
	}
}

// TestPacked sends bursts both ways, with and without a tag that has no handler.
func TestPacked(t *testing.T) {
	t.Parallel()
	for name, faults := range someFaults() {
		provider := map[string]string{"clean": "udp", "faulty": "ofi/udp"}[name]
		for what, third := range map[string]uint8{"all taken": tagOther, "refused": tagUnknown} {
			t.Run(name+", "+what, func(t *testing.T) {
				accept := func(tag uint8) bool { return tag != tagUnknown }
				pr := connect(t, btl.Config{}, Config{
					Provider: provider, Faults: faults, Accept: accept,
				}, false)
				list := burst(1500, third)
				ends := pr.c.StartPacked(list, 40)
				theirs := sendBurst(t, pr.m, pr.ep, list)
				checkEnds(t, list, ends)
				arrive(t, "module", pr.m.got, list)
				for i, end := range theirs {
					err := receive(t, end, "the end of a message of the module")
					if refused := list[i].Tag == tagUnknown; refused != errors.Is(err, btl.ErrNoHandler) ||
						!refused && err != nil {
						t.Errorf("module's message %d, tag %d: %v", i, list[i].Tag, err)
					}
				}
				arrive(t, "stranger", pr.msgs, list)
				if n := pr.p.Count("packed"); n < len(list)/4 {
					t.Errorf("only %d of %d messages of a burst came in packs", n, len(list))
				}
				flows(t, pr)
			})
		}
	}
}

// TestPackByHand: a module receives a pack whole or not at all.
func TestPackByHand(t *testing.T) {
	pack := func(seq uint32, list ...Record) Packet {
		return Packet{Kind: kindPack, Seq: seq, Records: list}
	}
	k := craft(t, btl.Config{})
	k.send(pack(0, records("a", "", "c")...))
	k.answered("a pack", "Ack 0")
	k.send(pack(0, records("a", "", "c")...))
	k.answered("the same again", "Ack 0 dup")
	k.send(pack(2, records("e", "f")...))
	k.answered("one behind a gap", "Ack 0")
	k.send(pack(2, records("other")...))
	k.answered("its number with other messages", "Ack 0 dup")
	k.delivered("the first two", "a", "", "c", "e", "f")
	bad := []Record{
		{Tag: tagCheck, Bytes: []byte("x")}, {Tag: tagUnknown}, {Tag: tagUnknown + 1}, {Tag: tagOther},
	}
	for range 2 {
		k.send(pack(1, bad...))
		k.answered("a pack with two tags that have no handler", "Nack 1 3 9")
	}
	k.delivered("a pack with two tags that have no handler")
	k.send(pack(1, bad[0], bad[2], bad[3]))
	k.answered("the pack without the first", "Nack 1 3 10")
	k.send(pack(1, bad[0], bad[3]))
	k.answered("the pack without both", "Ack 2")
	k.delivered("the rest of the pack", "x", "")
	k.send(pack(3, bad[1]))
	k.answered("a pack of a single record without a handler", "Nack 3 3 9")
	k.send(mark(3, tagVoid))
	k.answered("the Void", "Ack 3")
	k.send(pack(4, records("last")...))
	k.answered("a pack of a single record", "Ack 4")
	k.delivered("a pack of a single record", "last")
	k.send(pack(4+k.c.window+1, records("above")...))
	k.answered("a pack above the window")
	old := pack(5, records("bad")...)
	old.Flags, old.Ack = flagAck, 0
	k.send(old)
	k.answered("a pack with an ack of the next number")
	k.delivered("what does not count")
}

// TestPackRefusedByHand: a module takes refused messages out of its pack, and sends the rest again.
func TestPackRefusedByHand(t *testing.T) {
	k := craft(t, btl.Config{})
	list := burst(12, tagOther)
	k.send(Packet{Kind: kindAck, Flags: flagAck, Ack: 1<<32 - 1, Credit: 100})
	ends := sendBurst(t, k.m, k.ep, list)
	var pack Packet
	for pack.Kind != kindPack || len(without(pack.Records, tagOther)) == len(pack.Records) {
		pack = receive(t, k.log, "a pack with both tags")
	}
	n := int32(pack.Seq - k.c.expected)
	nack := func(behind uint32, reason uint8, tag ...byte) {
		k.send(Packet{Kind: kindNack, Tag: reason, Seq: pack.Seq - k.c.expected + behind, Payload: tag})
	}
	again := func(what string) (p Packet) {
		for p.Seq != pack.Seq || !p.numbered() {
			p = receive(t, k.log, what)
		}
		return p
	}
	for len(k.log) > 0 {
		<-k.log
	}
	nack(0, nackRecord, tagUnknown)
	nack(1000, nackRecord, tagOther)
	nack(0, nackRecord, tagOther)
	p, want := again("the pack without a tag"), without(pack.Records, tagOther)
	if !bytes.Equal(appendRecords(nil, p.Records), appendRecords(nil, want)) || p.Kind != kindPack {
		t.Errorf("after the Nack came kind %d, %v, not %v", p.Kind, p.Records, want)
	}
	nack(0, nackRecord, tagOther) // late
	nack(0, nackRecord, tagCheck)
	if p := again("a Void"); p.Kind != kindFrag || p.Tag != tagVoid {
		t.Errorf("when all is refused, kind %d comes, tag %d", p.Kind, p.Tag)
	}
	if pack.Seq != k.c.expected { // not the first packet of all
		nack(k.c.expected-pack.Seq, nackRecord, tagCheck) // that one is no pack
	}
	nack(0, nackRecord, tagCheck)
	for len(ends[len(ends)-1]) == 0 {
		// Acknowledge all that has come.
		for len(k.log) > 0 {
			if p := <-k.log; p.numbered() {
				n = max(n, int32(p.Seq-k.c.expected))
			}
		}
		k.send(Packet{Kind: kindAck, Flags: flagAck, Ack: uint32(n), Credit: 100})
		time.Sleep(2 * time.Millisecond)
	}
	checkRefusedEnds(t, list, ends, pack.Records)
}

// checkRefusedEnds checks that the messages of the pack failed, and the others did not.
func checkRefusedEnds(t *testing.T, list []Record, ends []<-chan error, pack []Record) {
	t.Helper()
	for i, end := range ends {
		packed := slices.ContainsFunc(pack, func(r Record) bool {
			return bytes.Equal(r.Bytes, list[i].Bytes)
		})
		err := receive(t, end, fmt.Sprintf("the end of message %d", i))
		if packed != errors.Is(err, btl.ErrNoHandler) || !packed && err != nil {
			t.Errorf("message %d, packed %v: %v", i, packed, err)
		}
	}
}
