package call

import (
	"testing"

	"gobtl/btl"
)

// A peer that opens one stream after the other, has each answer, and takes nothing of it, keeps no
// more than answers may be, and what one stream has beside them. When all is taken nothing is
// counted any more.
func TestStreamAnswersNotTaken(t *testing.T) {
	const streamsMost, answer = 3, streamWindow * streamAnswerBytes
	n := &Node{
		cfg:     Config{AnswerBytes: streamsMost * answer},
		callers: map[*btl.Endpoint]*caller{},
		hosts:   map[string]*callerHost{}, hostOf: func(*btl.Endpoint) string { return "host" },
		ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	peer, id, untaken := new(btl.Endpoint), uint64(0), []account(nil)
	// ends has a call begin and end, with an answer of so many bytes that nobody takes.
	ends := func(of place, bytes int64) (left account, st status) {
		id++
		st, kept := n.enter(served{peer, id}, func() {}, streamHeadBytes, of)
		if st != statusOK {
			return account{}, st
		}
		left, room := n.leave(served{peer, id}, kept, streamHeadBytes, bytes)
		if !room {
			st = statusRoom
		}
		return left, st
	}
	streams := 0
	for ; streams <= streamsMost; streams++ {
		of, st := ends(place{}, 0)
		if st == statusBusy {
			break
		}
		n.sent(peer, of, false)
		s := new(stream)
		if !n.reserve(peer, s) {
			t.Fatalf("no room for the calls of stream %d", streams)
		}
		pulls := place{s, int(streamPull - streamPush)}
		for range streamWindow {
			of, st := ends(pulls, streamAnswerBytes)
			if st != statusOK || of.kept.stream != s {
				t.Fatalf("a pull of stream %d: status %d", streams, st)
			}
			untaken = append(untaken, of)
		}
		if of, _ := ends(pulls, 0); of.kept.stream != nil {
			t.Fatal("pulls beyond the window, none of which is answered")
		} else {
			n.sent(peer, of, false)
		}
		n.unreserve(peer, s)
	}
	if streams != streamsMost {
		t.Errorf("%d streams of which nothing is taken, want %d", streams, streamsMost)
	}
	for _, of := range untaken {
		n.sent(peer, of, false)
	}
	n.loseCalls(peer)
	if len(n.callers) != 0 || len(n.hosts) != 0 || n.load != (load{}) {
		t.Errorf("all is taken, and counted still: %d peers, %+v", len(n.callers), n.load)
	}
}
