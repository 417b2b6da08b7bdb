package mpi

import (
	"bytes"
	"testing"

	"gobtl/btl"
)

// A notice is read as it was written, and nothing else is one.
func FuzzNotice(f *testing.F) {
	whole := notice{noticeVote, 7, 1 << 50, 3, 9 << 44, []int{1, RanksMax - 1}}
	good := whole.bytes()
	f.Add(good)
	for _, bad := range [][]byte{nil, good[:noticeHeadBytes-1], good[:len(good)-1], {4: 0, 39: 0}} {
		f.Add(bad)
	}
	var n notice
	if !n.read(good) || n.kind != whole.kind || n.round != 7 || n.context != 1<<50 || n.flags != 3 ||
		n.made != 9<<44 || len(n.dead) != 2 || n.dead[1] != RanksMax-1 {
		f.Fatalf("%+v is read as %+v", whole, n)
	}
	for at, value := range map[int]byte{0: 5, 1: 1, 3: 1, noticeHeadBytes + 3: 1} {
		bad := bytes.Clone(good)
		if bad[at] = value; n.read(bad) {
			f.Errorf("byte %d is %d, and it is read", at, value)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var n notice
		if n.read(b) && !bytes.Equal(n.bytes(), b) {
			t.Errorf("%x is read, and written as %x", b, n.bytes())
		}
	})
}

// All ranks of a job may be on one host.
func TestRoomForRanks(t *testing.T) {
	for _, ranks := range []int{1, 2000, 1 << 17} {
		cfg := btl.Config{}
		if makeRoom(&cfg, ranks); cfg.PeersPerHost < ranks || cfg.PeersMax < ranks {
			t.Errorf("%d ranks: %d peers, %d of a host", ranks, cfg.PeersMax, cfg.PeersPerHost)
		}
	}
	cfg := btl.Config{PeersMax: 9000, PeersPerHost: 7}
	if makeRoom(&cfg, 2); cfg.PeersMax != 9000 || cfg.PeersPerHost != 7 {
		t.Errorf("what the user has set is now %d, %d", cfg.PeersMax, cfg.PeersPerHost)
	}
}
