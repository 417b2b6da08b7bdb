package btl

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// Operations by the dozen share packets. Each that is allowed is done once, whatever is refused
// beside it and whatever the network does; each that is not says why.
func TestJoinedOperations(t *testing.T) {
	weathers(t, func(t *testing.T, l *remoteLab) {
		const bursts, burst = 12, 40
		noRight, err := l.mods[1].Expose(make([]byte, 8), RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		wants := []struct {
			target Handle
			offset uint64
			reason AccessReason // 0: allowed
		}{
			{l.region.Handle(), 0, 0},
			{l.region.Handle(), 4, ReasonBounds},
			{noRight.Handle(), 0, ReasonRight},
			{noRight.Handle() ^ 1<<40, 0, ReasonRegion},
		}
		allowed, ended := uint64(0), 0
		seen := map[uint64]bool{}
		for range bursts {
			for range burst {
				want := wants[max(0, l.rng.IntN(20)-16)]
				a := Atomic{
					Target: want.target, Offset: want.offset, Action: ActionAdd, WidthBytes: 8, Operand: 1,
					Fetch: l.rng.IntN(2) == 0,
				}
				f, err := l.ep.PrepareAtomic(a)
				if err != nil {
					t.Fatal(err)
				}
				if want.reason == 0 {
					allowed++
				}
				f.OnDone = func(f *Fragment, err error) {
					ended++
					var access *AccessError
					switch {
					case want.reason == 0 && err != nil,
						want.reason != 0 && (!errors.As(err, &access) || access.Reason != want.reason):
						t.Errorf("ended with %v, want %v", err, want.reason)
					case err == nil && a.Fetch && (seen[f.Value()] || f.Value() >= allowed):
						t.Errorf("found %d of %d, or twice", f.Value(), allowed)
					}
					if err == nil && a.Fetch {
						seen[f.Value()] = true
					}
				}
				if _, err := l.ep.Send(l.now, f); err != nil {
					t.Fatal(err)
				}
			}
			want := ended - ended%burst + burst
			l.until("a burst ends", 100*time.Microsecond, 60*time.Second, func() bool {
				return ended == want
			})
		}
		if got := binary.NativeEndian.Uint64(l.mem); got != allowed {
			t.Errorf("%d adds make %d", allowed, got)
		}
		st := l.mods[0].Stats()
		if n := st.Get(CntPacked); n < bursts*burst/2 {
			t.Errorf("%d operations of %d shared a packet", n, bursts*burst)
		}
		l.rest()
	})
}

// addsTo is a pack of operations that add 1 at each of these offsets of a region; a negative one
// has no old value.
func addsTo(h Handle, offsets ...int) (b []byte) {
	for place, offset := range offsets {
		a := frag.Atomic{
			Handle: uint64(h), Offset: uint64(max(offset, -offset)), Operand: 1, Action: frag.ActionAdd,
			WidthBytes: 8, Fetch: offset >= 0,
		}
		body := make([]byte, frag.AtomicBytes)
		a.Marshal(body)
		o := frag.OpRecord{
			Number: uint32(100 + place), Code: frag.OpAtomic, Place: uint8(place), Payload: body,
		}
		record := make([]byte, frag.RecordHeaderBytes+frag.OpRecordExtraBytes+len(body))
		b = append(b, record[:o.Marshal(record)]...)
	}
	return b
}

// joiner is a module with a region, and a scripted peer that knows operations and packs of them.
type joiner struct {
	*script
	mem    []byte
	region *Region
	in     *Endpoint
}

func newJoiner(t *testing.T, features uint64) *joiner {
	t.Helper()
	_, s := newStranger(t, smallConfig())
	j := &joiner{script: s, mem: make([]byte, 64)}
	var err error
	if j.region, err = s.m.Expose(j.mem, RemoteAll); err != nil {
		t.Fatal(err)
	}
	s.hello.Features = features
	j.in = s.connect()
	s.run(20)
	return j
}

// pack sends a pack with number n; the answers are returned.
func (j *joiner) pack(n seq.Num, payload []byte) []sentPacket {
	j.l.tb.Helper()
	j.raw(1, encode(frag.Header{Kind: frag.KindPack, Conn: j.conn, Seq: n}, payload))
	return j.run(20)
}

// A pack of operations is done as a whole or not at all, once, and only for who may send any.
func TestJoinedAllOrNone(t *testing.T) {
	j := newJoiner(t, frag.FeatureOps|frag.FeatureJoin)
	n := j.next
	nacks := kinds(j.pack(n, addsTo(j.region.Handle(), 0, -8, 60, 16)), frag.KindNack)
	if len(nacks) != 1 || nacks[0].hdr.Tag != frag.NackOperation ||
		!slices.Equal(nacks[0].payload, []byte{2, frag.NackBounds}) {
		t.Fatalf("refused: %+v", nacks)
	}
	if !slices.Equal(j.mem, make([]byte, 64)) {
		t.Fatalf("a pack that was refused did something: %x", j.mem)
	}
	for range 2 { // and a copy
		answers := j.pack(n, addsTo(j.region.Handle(), 0, -8, 16))
		for i, want := range []byte{1, 1, 1} {
			if j.mem[8*i] != want {
				t.Fatalf("number %d is %d", i, j.mem[8*i])
			}
		}
		for _, p := range kinds(answers, frag.KindPack) {
			if !frag.IsOperation(p.payload) {
				t.Errorf("an answer that is none: %+v", p)
			}
		}
	}
	if j.in.answering != 0 {
		t.Errorf("%d answers have not left", j.in.answering)
	}
	without := newJoiner(t, frag.FeatureOps)
	answers := without.pack(without.next, addsTo(without.region.Handle(), 0))
	if got := without.in.rcv.Next(); got != without.next || without.mem[0] != 0 {
		t.Errorf("without the feature: %d is next, want %d; %+v", got, without.next, answers)
	}
}

// A peer gets at most as many answers as it may wait for, in packs too.
func TestJoinedCrowd(t *testing.T) {
	j := newJoiner(t, frag.FeatureOps|frag.FeatureJoin)
	j.in.answering = asksMax - 1
	answers := j.pack(j.next, addsTo(j.region.Handle(), 0, -8, 16))
	nacks := kinds(answers, frag.KindNack)
	if len(nacks) != 1 || !slices.Equal(nacks[0].payload, []byte{2, frag.NackAccess}) {
		t.Errorf("one answer too many: %+v", nacks)
	}
	j.in.answering = 0
}

// asks sends so many operations, every other one of which wants a value, in a pack; n is its
// number.
func (j *joiner) asks(t *testing.T, count int) (n seq.Num, ends []error) {
	t.Helper()
	ends = make([]error, count)
	for i := range ends {
		f, err := j.in.PrepareAtomic(Atomic{
			Target: 7, Offset: uint64(8 * i), Action: ActionAdd, WidthBytes: 8, Operand: 1,
			Fetch: i%2 == 0,
		})
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = errPending
		f.OnDone = func(_ *Fragment, err error) { ends[i] = err }
		j.in.bursts, j.in.sentIn = true, j.m.sendEpoch // none leaves alone
		if _, err := j.in.Send(j.l.now, f); err != nil {
			t.Fatal(err)
		}
	}
	packs := kinds(j.run(5), frag.KindPack)
	if len(packs) != 1 {
		t.Fatalf("%d packs", len(packs))
	}
	return packs[0].hdr.Seq, ends
}

// refuse sends a Nack of packet n; the packs that it brings are returned.
func (j *joiner) refuse(n seq.Num, reason uint8, says ...byte) []sentPacket {
	j.l.tb.Helper()
	j.raw(0, encode(frag.Header{Kind: frag.KindNack, Tag: reason, Conn: j.conn, Seq: n}, says))
	return kinds(j.run(5), frag.KindPack)
}

// Whatever a peer refuses of a pack fails once, is not asked for again, and the rest comes under
// the same number.
func TestJoinedRefusals(t *testing.T) {
	j := newJoiner(t, frag.FeatureOps|frag.FeatureJoin)
	n, ends := j.asks(t, 4)
	refuse := func(place, reason uint8) []sentPacket {
		return j.refuse(n, frag.NackOperation, place, reason)
	}
	places := func(p sentPacket) (list []uint8) {
		for rest := p.payload; len(rest) > 0; {
			var data []byte
			_, data, rest = frag.NextRecord(rest)
			list = append(list, frag.DecodeOpRecord(data).Place)
		}
		return list
	}
	if again := refuse(9, frag.NackBounds); len(again) != 0 {
		t.Errorf("a place that is not there: %+v", again)
	}
	for _, reason := range []uint8{frag.NackBounds, frag.NackMemory} { // then it is not there
		again := refuse(1, reason)
		if reason == frag.NackBounds && (len(again) != 1 || again[0].hdr.Seq != n ||
			!slices.Equal(places(again[0]), []uint8{0, 2, 3})) {
			t.Fatalf("without place 1: %+v", again)
		}
	}
	if again := refuse(3, 99); len(again) != 1 || !slices.Equal(places(again[0]), []uint8{0, 2}) {
		t.Fatalf("without place 3: %+v", again)
	}
	j.ack(n)
	j.run(5)
	for i, want := range []error{errPending, ErrRemoteAccess, errPending, ErrRemoteAccess} {
		if !errors.Is(ends[i], want) {
			t.Errorf("operation %d ended with %v, want %v", i, ends[i], want)
		}
	}
	var access *AccessError
	if !errors.As(ends[3], &access) || access.Reason != ReasonRegion || access.Offset != 24 {
		t.Errorf("a reason that is none: %v", ends[3])
	}
	if err := j.m.Check(); err != nil {
		t.Error(err)
	}
}

// A peer that takes its time to refuse many operations of a packet, one by one, is alive: each that
// it names is an answer to the oldest packet in flight.
func TestJoinedRefusalsAnswer(t *testing.T) {
	j := newJoiner(t, frag.FeatureOps|frag.FeatureJoin)
	n, _ := j.asks(t, 4)
	for place := range uint8(3) {
		j.in.oldestAt, j.in.oldestResends = 0, owedResendsMin
		j.refuse(n, frag.NackOperation, place, frag.NackBounds)
		if j.in.oldestAt == 0 || j.in.oldestResends > 1 {
			t.Errorf("place %d: owed since %v, sent again %d times", place, j.in.oldestAt,
				j.in.oldestResends)
		}
	}
	j.in.oldestAt = 0
	if j.refuse(n, frag.NackOperation, 1, frag.NackBounds); j.in.oldestAt != 0 {
		t.Error("what was refused before counts as an answer")
	}
}

// A peer that refuses a pack of operations as a whole, as none does, ends all of them.
func TestJoinedRefusedWhole(t *testing.T) {
	j := newJoiner(t, frag.FeatureOps|frag.FeatureJoin)
	n, ends := j.asks(t, 4)
	j.refuse(n, frag.NackOperation, 1, frag.NackBounds)
	j.refuse(n, frag.NackAccess)
	j.ack(n)
	j.run(5)
	for i, err := range ends {
		var access *AccessError
		want := ReasonRegion
		if i == 1 {
			want = ReasonBounds
		}
		if !errors.As(err, &access) || access.Reason != want {
			t.Errorf("operation %d ended with %v, want %v", i, err, want)
		}
	}
	if j.in.asks.waiting != 0 {
		t.Errorf("%d operations wait for ever", j.in.asks.waiting)
	}
}

// Operations that share packets allocate nothing.
func TestJoinedAllocs(t *testing.T) {
	b := newBench(t, mem.Config{InjectBytes: 1472}, 2, Config{})
	region, err := b.mods[1].Expose(make([]byte, 8), RemoteAll)
	if err != nil {
		t.Fatal(err)
	}
	ep := b.connect(0, 1)
	left := 0
	onDone := func(_ *Fragment, err error) {
		if left--; err != nil {
			t.Error(err)
		}
	}
	round := func() {
		for i := range 40 {
			f, err := ep.PrepareAtomic(Atomic{
				Target: region.Handle(), Action: ActionAdd, WidthBytes: 8, Operand: 1, Fetch: i%3 > 0,
			})
			if err != nil {
				t.Fatal(err)
			}
			f.OnDone = onDone
			if _, err := ep.Send(b.now, f); err != nil {
				t.Fatal(err)
			}
			left++
		}
		for left > 0 {
			b.now = b.now.Add(5 * time.Microsecond)
			for _, m := range b.mods {
				if _, err := m.Progress(b.now); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for range 300 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations in 40 operations", n)
	}
	if st := b.mods[0].Stats(); st.Get(CntPacked) < 300*40/2 {
		t.Errorf("%d operations shared a packet", st.Get(CntPacked))
	}
}
