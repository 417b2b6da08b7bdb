package btl

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// Answers to gets are gathered from their region. Once that is closed nothing of it is read, though
// packets of theirs are in flight, and some lost: what comes to who asked is from before.
func TestAnswersGathered(t *testing.T) {
	for _, rough := range []bool{false, true} {
		t.Run(fmt.Sprint("rough: ", rough), func(t *testing.T) {
			const mtu = 6000
			net := mem.Config{MTUBytes: mtu, InjectBytes: mtu, FreeRegions: true}
			l := newRemoteLab(t, net, smallConfig(), rough)
			l.until("it is connected", time.Millisecond, time.Minute, l.ep.Connected)
			whole := 0
			for round := range 24 {
				whole += gatherAndClose(t, l, round)
			}
			s := l.mods[1].counted()
			if n := s.Get(CntSentGatheredBytes); n == 0 || whole == 0 || whole == 24*2 {
				t.Errorf("%d bytes gathered, %d of 48 gets are whole", n, whole)
			}
			l.rest()
		})
	}
}

// gatherAndClose has two gets read a region that is closed after some steps, and then written over.
// It returns how many have got all.
func gatherAndClose(t *testing.T, l *remoteLab, round int) (whole int) {
	r := new(Region)
	copy(l.mem, filled(len(l.mem), byte(round)))
	before := bytes.Clone(l.mem)
	if err := l.mods[1].ExposeAs(r, l.mem, RemoteRead, nil); err != nil {
		t.Fatal(err)
	}
	var into [2][]byte
	ended := 0
	for i := range into {
		into[i] = make([]byte, 70_000)
		f, err := l.ep.PrepareGet(into[i], r.Handle(), uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		f.Signal, f.OnDone = true, func(_ *Fragment, err error) {
			if ended++; err == nil {
				whole++
			} else if !errors.Is(err, ErrRemoteAccess) {
				t.Error(err)
			}
			if err == nil && !bytes.Equal(into[i], before[i:][:len(into[i])]) {
				t.Errorf("round %d: a get has brought something else", round)
			}
		}
		if _, err := l.ep.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
	}
	for range round {
		l.step(20 * time.Microsecond)
	}
	r.Close()
	fill(l.mem, 0xEE)
	l.until("both end", 100*time.Microsecond, time.Minute, func() bool { return ended == len(into) })
	if r.is.Reader() != nil {
		t.Errorf("round %d: an answer reads what is closed", round)
	}
	return whole
}
