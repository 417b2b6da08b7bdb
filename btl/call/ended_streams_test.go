package call

import (
	"testing"

	"gobtl/btl"
)

// pulledStream opens a stream, pulls two windows of chunks, and ends the stream. The transport has
// accepted the first window. The result "opened" is false if the server refuses the stream.
func pulledStream(t *testing.T, n *Node, peer *btl.Endpoint, id *uint64,
) (unacked, parked []account, opened bool) {
	t.Helper()
	call := func(of place, bytes int64) (account, bool) {
		*id++
		s := served{peer, *id}
		st, kept := n.enter(s, func() {}, streamHeadBytes, of)
		if st != statusOK {
			return account{}, false
		}
		left, _ := n.leave(s, kept, streamHeadBytes, bytes)
		return left, true
	}
	of, began := call(place{}, 0)
	if !began {
		return nil, nil, false
	}
	n.sent(peer, of, false)
	s := new(stream)
	if !n.reserve(peer, s) {
		return nil, nil, false
	}
	for i := range 2 * streamWindow {
		of, began := call(place{s, int(streamPull - streamPush)}, streamAnswerBytes)
		if !began {
			t.Fatalf("pull %d of a stream is refused", i)
		}
		if i >= streamWindow {
			parked = append(parked, of)
			continue
		}
		n.sent(peer, of, true)
		unacked = append(unacked, of)
	}
	n.unreserve(peer, s)
	return unacked, parked, true
}

// The answers of ended streams to the peers of one host count towards Total until they have ended.
// They leave calls, streams and answers to a peer of another host.
func TestAnswersOfEndedStreams(t *testing.T) {
	const peers = 64
	n, peer := idleNode(t)
	var bad []*btl.Endpoint
	unacked, parked := map[*btl.Endpoint][]account{}, map[*btl.Endpoint][]account{}
	id, held := uint64(0), 0
	for range peers {
		ep := peer("bad")
		bad = append(bad, ep)
		for {
			sent, waits, opened := pulledStream(t, n, ep, &id)
			if !opened {
				break
			}
			unacked[ep], parked[ep] = append(unacked[ep], sent...), append(parked[ep], waits...)
			held += len(sent) + len(waits)
		}
	}
	if held > n.cfg.Total+streamCalls || held < n.cfg.Total/2 {
		t.Errorf("the ended streams of one host hold %d answers, Total is %d", held, n.cfg.Total)
	}
	good := peer("good")
	if !n.mayAnswer(n.caller(good), n.cfg.AnswerBytes) {
		t.Error("a peer of another host does not get an answer of AnswerBytes")
	}
	for range 4 {
		if _, _, opened := pulledStream(t, n, good, &id); !opened {
			t.Error("a stream of a peer of another host is refused")
		}
	}
	for _, ep := range bad {
		n.loseCalls(ep)
		for _, of := range unacked[ep] {
			n.answerEnded(n.unackedOf(ep, head{}, streamAnswerBytes, of), btl.ErrClosed)
		}
		for _, of := range parked[ep] {
			n.sent(ep, of, false)
		}
	}
	if len(n.callers) != 1 || len(n.hosts) != 1 || n.load != n.callers[good].load {
		t.Errorf("all endpoints of one host have ended, but %d peers, %d hosts and %+v are left",
			len(n.callers), len(n.hosts), n.load)
	}
}

// A client that has not acknowledged the answers of its latest stream can open one more stream,
// even if Total has room for one stream only. A further stream is refused until the client has
// acknowledged answers.
func TestNextStreamBesideEnded(t *testing.T) {
	for _, total := range []int{1, streamCalls, streamCalls + streamWindow - 1} {
		n, peer := idleNode(t)
		n.cfg.Total = total
		ep, id := peer("host"), uint64(0)
		unacked, parked, opened := pulledStream(t, n, ep, &id)
		if !opened {
			t.Fatalf("Total %d: the first stream is refused", total)
		}
		if _, _, opened = pulledStream(t, n, ep, &id); !opened {
			t.Errorf("Total %d: the second stream is refused", total)
		}
		if _, _, opened = pulledStream(t, n, ep, &id); opened {
			t.Errorf("Total %d: a stream is opened beside the answers of two ended streams", total)
		}
		for _, of := range unacked {
			n.answerEnded(n.unackedOf(ep, head{}, streamAnswerBytes, of), nil)
		}
		for _, of := range parked {
			n.sent(ep, of, false)
		}
		if _, _, opened = pulledStream(t, n, ep, &id); !opened {
			t.Errorf("Total %d: a stream is refused after the answers of the first have ended", total)
		}
	}
}
