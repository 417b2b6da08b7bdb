package remote

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"gobtl/frag"
)

// send is a fragment, for tests.
type send struct{ name string }

type (
	service   = Service[*send]
	peer      = Peer[*send]
	region    = Region[*send]
	operation = Operation[*send]
	outcome   = Outcome[*send]
)

// two is a service with a region of 64 bytes that all may use as its rights say, and a peer.
type two struct {
	service
	*peer
	region
	t *testing.T
}

func newTwo(t *testing.T, rights Rights) *two {
	b := &two{peer: NewPeer[*send](), t: t}
	b.service.Init(4)
	b.service.Expose(&b.region, make([]byte, 64), rights, nil, 7)
	t.Cleanup(b.check)
	return b
}

func (b *two) check() {
	b.t.Helper()
	if err := b.service.Check(); err != nil {
		b.t.Error(err)
	}
	if err := b.peer.Check(); err != nil {
		b.t.Error(err)
	}
}

// usual is a connection that packets may overtake each other on.
var usual = Link{FragBytesMax: 1 << 20}

// accept has the service take a packet.
func (b *two) accept(h *frag.Header, payload []byte, link Link) (did outcome, reason uint8) {
	reason = b.service.Accept(b.peer, h, payload, link, &did)
	b.check()
	return did, reason
}

func (b *two) put(op frag.OpCode, number uint32, offset uint64) *frag.Header {
	h := &frag.Header{
		Flags: frag.FlagPut, Handle: uint64(b.Handle()), PutOffset: offset, OpCode: op, Op: number,
	}
	if op != 0 {
		h.Flags |= frag.FlagOp
	}
	return h
}

// What a peer may not do is refused with its reason, and changes nothing.
func TestReach(t *testing.T) {
	b := newTwo(t, Write|Read)
	var mine region
	b.service.Expose(&mine, make([]byte, 64), All, b.peer, 9)
	var closed region
	b.service.Expose(&closed, make([]byte, 64), All, nil, 10)
	b.service.Withdraw(&closed)
	other := NewPeer[*send]()
	for _, c := range []struct {
		name   string
		by     *peer
		to     Handle
		offset uint64
		n      int
		need   Rights
		want   uint8
	}{
		{"all of it", nil, b.Handle(), 0, 64, Write | Read, 0},
		{"nothing, at its end", nil, b.Handle(), 64, 0, Write, 0},
		{"one byte too many", nil, b.Handle(), 0, 65, Write, frag.NackBounds},
		{"over the end", nil, b.Handle(), 60, 5, Read, frag.NackBounds},
		{"behind the end", nil, b.Handle(), 65, 0, Read, frag.NackBounds},
		{"far behind", nil, b.Handle(), ^uint64(0), 2, Read, frag.NackBounds},
		{"a right that is not given", nil, b.Handle(), 0, 8, Atomic, frag.NackRight},
		{"one of two rights", nil, b.Handle(), 0, 8, Write | Notify, frag.NackRight},
		{"the one that may", b.peer, mine.Handle(), 0, 8, All, 0},
		{"another peer", other, mine.Handle(), 0, 8, Write, frag.NackAccess},
		{"a peer of which nothing was asked", nil, mine.Handle(), 0, 8, Write, frag.NackAccess},
		{"no such handle", b.peer, b.Handle() ^ 1<<40, 0, 8, Write, frag.NackAccess},
		{"withdrawn", b.peer, closed.Handle(), 0, 8, Write, frag.NackAccess},
	} {
		r, reason := b.service.Reach(c.by, c.to, c.offset, c.n, c.need)
		if reason != c.want || (r != nil) != (c.want == 0) {
			t.Errorf("%s: reason %d, want %d", c.name, reason, c.want)
		}
	}
}

// The owner's regions and those of gets have places of their own.
func TestRoom(t *testing.T) {
	b := newTwo(t, All)
	regions := make([]region, 4)
	for i := range regions[:3] {
		b.service.Expose(&regions[i], nil, All, nil, uint64(i))
	}
	if b.service.MayExpose() || b.service.Exposed() != 4 || !b.service.MayGet(b.peer, false) {
		t.Errorf("%d regions are exposed, or no get may be made", b.service.Exposed())
	}
	o := b.service.AskGet(b.peer, &send{}, make([]byte, 8), 1, 0, 3)
	if b.service.MayExpose() {
		t.Error("a get has made room")
	}
	b.service.End(b.peer, o)
	b.service.Give(o)
	b.service.Withdraw(&regions[0])
	if !b.service.MayExpose() || regions[0].Exposed() || !regions[1].Exposed() {
		t.Error("a region that is withdrawn has not made room")
	}
}

// A put writes what it brings where it says; one that is refused does not.
func TestPut(t *testing.T) {
	b := newTwo(t, Write)
	did, reason := b.accept(b.put(0, 0, 5), []byte("abc"), usual)
	if reason != 0 || did.Written != 3 || string(b.Bytes()[4:9]) != "\x00abc\x00" {
		t.Errorf("reason %d, %+v: %q", reason, did, b.Bytes()[:10])
	}
	before := bytes.Clone(b.Bytes())
	if _, reason := b.accept(b.put(0, 0, 62), []byte("abc"), usual); reason != frag.NackBounds {
		t.Errorf("over the end: reason %d", reason)
	}
	_, reason = b.accept(b.put(frag.OpPart, 1, 0), []byte("abc"), usual)
	if reason != frag.NackRight {
		t.Errorf("with a notice: reason %d", reason)
	}
	if !bytes.Equal(b.Bytes(), before) {
		t.Error("a put that was refused has written")
	}
}

// notice is the payload of one.
func notice(total uint32, says string) []byte {
	b := make([]byte, frag.NoticeHeadBytes+len(says))
	return b[:frag.PutNotice(b, total, []byte(says))]
}

// A notice is there when it has come and all bytes of its put have, in any order; once.
func TestNotice(t *testing.T) {
	for _, last := range []string{"notice", "bytes"} {
		b := newTwo(t, Write|Notify)
		says := b.put(frag.OpNotice, 70, 0)
		says.Tag = 9
		var did outcome
		if last == "bytes" {
			did, _ = b.accept(says, notice(8, "here"), usual)
			if _, _, ok := did.Notice.Take(); ok || !did.Notice.Here() {
				t.Error("there before its bytes, or not here")
			}
		}
		did, _ = b.accept(b.put(frag.OpPart, 70, 0), []byte("1234"), usual)
		if _, _, ok := did.Notice.Take(); ok {
			t.Errorf("last %s: there with half of the bytes", last)
		}
		did, _ = b.accept(b.put(frag.OpPart, 70, 4), []byte("5678"), usual)
		if last == "notice" {
			if _, _, ok := did.Notice.Take(); ok || did.Notice.Here() {
				t.Error("there before it has come")
			}
			did, _ = b.accept(says, notice(8, "here"), usual)
		}
		tag, text, ok := did.Notice.Take()
		if !ok || tag != 9 || string(text) != "here" {
			t.Errorf("last %s: %d, %q, %v", last, tag, text, ok)
		}
		if _, _, ok := did.Notice.Take(); ok {
			t.Errorf("last %s: there twice", last)
		}
	}
}

// A put takes the place of the one 64 before, which is over: of that nothing counts.
func TestNoticePlaceAgain(t *testing.T) {
	b := newTwo(t, Write|Notify)
	b.accept(b.put(frag.OpPart, 3, 0), []byte("1234"), usual)
	did, _ := b.accept(b.put(frag.OpNotice, 3+64, 0), notice(4, ""), usual)
	if _, _, ok := did.Notice.Take(); ok {
		t.Error("the bytes of an earlier put count for a later one")
	}
}

// Where packets come in order a notice before its bytes is refused: they were.
func TestNoticeInOrder(t *testing.T) {
	b := newTwo(t, Write|Notify)
	_, reason := b.accept(b.put(frag.OpNotice, 1, 0), notice(4, ""), Link{InOrder: true})
	if reason != frag.NackAccess {
		t.Errorf("reason %d", reason)
	}
}

// A put with its notice in one packet: both ways of taking it.
func TestPlaced(t *testing.T) {
	b := newTwo(t, Write|Notify)
	h := b.put(frag.OpPlaced, 1, 8)
	h.OpBytes = 2
	did, reason := b.accept(h, []byte("abcdhi"), usual)
	if reason != 0 || string(did.Says) != "hi" || string(b.Bytes()[8:13]) != "abcd\x00" {
		t.Errorf("reason %d, says %q, %q", reason, did.Says, b.Bytes()[8:13])
	}
	h.PutOffset = 20
	says, ok := b.service.WritePlaced(b.peer, h, []byte("efghyo"))
	if !ok || string(says) != "yo" || string(b.Bytes()[20:25]) != "efgh\x00" {
		t.Errorf("%v, says %q, %q", ok, says, b.Bytes()[20:25])
	}
	h.PutOffset = 61
	if _, ok := b.service.WritePlaced(b.peer, h, []byte("efghyo")); ok || b.Bytes()[61] != 0 {
		t.Error("written over the end")
	}
	if n := b.Written(); n != 8 {
		t.Errorf("%d bytes written", n)
	}
}

// A get is over when all its bytes have come, and its memory is no region any more.
func TestGet(t *testing.T) {
	b := newTwo(t, Read)
	mem, f := make([]byte, 8), &send{"get"}
	o := b.service.AskGet(b.peer, f, mem, 0x1234, 16, 1<<63|5)
	var g frag.Get
	if !frag.DecodeGet(o.Body(), &g) || g.Handle != 0x1234 || g.Offset != 16 || g.SizeBytes != 8 ||
		g.Answer != uint64(o.Into().Handle()) || o.Fragment != f || o.Code != frag.OpGet {
		t.Fatalf("asks for %+v", g)
	}
	answer := &frag.Header{Flags: frag.FlagPut, Handle: g.Answer}
	if did, _ := b.accept(answer, []byte("12345678"), usual); did.Ended != nil {
		t.Error("over before it was sent")
	}
	if !b.peer.Asked(o) || b.peer.Waiting() != 1 {
		t.Error("it waits for nothing")
	}
	if did, _ := b.accept(answer, []byte("abcd"), usual); did.Ended != nil {
		t.Error("over with half of its bytes")
	}
	if b.service.WriteAnswer(b.peer, answer, []byte("abcd")) != nil {
		t.Error("half of the bytes are taken for all")
	}
	if _, reason := b.service.Reach(NewPeer[*send](), o.Into().Handle(), 0, 1, Write); reason == 0 {
		t.Error("another peer may answer")
	}
	answer.PutOffset = 4
	did, _ := b.accept(answer, []byte("efgh"), usual)
	if did.Ended != o || string(mem) != "abcdefgh" {
		t.Errorf("ended %v, %q", did.Ended, mem)
	}
	if !b.peer.Answered(o) || b.peer.Answered(o) || b.peer.Waiting() != 0 {
		t.Error("it waits still, or has ended twice")
	}
	if !b.service.End(b.peer, o) || b.service.End(b.peer, o) {
		t.Error("its place is not free, or twice")
	}
	b.service.Give(o)
	answer.PutOffset = 0
	if _, reason := b.accept(answer, []byte("zz"), usual); reason != frag.NackAccess || mem[0] != 'a' {
		t.Errorf("written when it was over: reason %d", reason)
	}
}

// All bytes of a get in one packet are taken at once.
func TestGetAtOnce(t *testing.T) {
	b := newTwo(t, Read)
	mem := make([]byte, 3)
	o := b.service.AskGet(b.peer, &send{}, mem, 1, 0, 5)
	h := &frag.Header{Flags: frag.FlagPut, Handle: uint64(o.Into().Handle())}
	if b.service.WriteAnswer(b.peer, h, []byte("xyz")) != nil || mem[0] != 0 {
		t.Error("taken before it was asked")
	}
	b.peer.Asked(o)
	if b.service.WriteAnswer(b.peer, h, []byte("xyz")) != o || string(mem) != "xyz" {
		t.Errorf("%q", mem)
	}
	if b.service.WriteAnswer(b.peer, b.put(0, 0, 0), make([]byte, 64)) != nil {
		t.Error("a put into a region of the owner is taken for an answer")
	}
	b.peer.Answered(o)
	b.service.End(b.peer, o)
}

// ask is a packet that asks for something.
func ask(code frag.OpCode, number uint32, body []byte) *frag.Header {
	return &frag.Header{Flags: frag.FlagOp, OpCode: code, Op: number, PayloadLen: uint16(len(body))}
}

// A get of a peer is owed until its answer has left, and read until it reads no more.
func TestServeGet(t *testing.T) {
	b := newTwo(t, Read)
	get := frag.Get{Handle: uint64(b.Handle()), Offset: 8, Answer: 77, SizeBytes: 16}
	body := make([]byte, frag.GetBytes)
	get.Marshal(body)
	did, reason := b.accept(ask(frag.OpGet, 5, body), body, usual)
	if reason != 0 || did.Read != &b.region || did.Get != get {
		t.Fatalf("reason %d, %+v", reason, did)
	}
	if _, reason := b.accept(ask(frag.OpGet, 5, body), body, Link{FragBytesMax: 15}); reason == 0 {
		t.Error("an answer that is larger than the peer takes")
	}
	var all []*operation
	for range AsksMax {
		all = append(all, b.service.AnswerGet(b.peer, &send{}, 5, did.Read))
	}
	if _, reason := b.accept(ask(frag.OpGet, 5, body), body, usual); reason != frag.NackAccess {
		t.Errorf("one more than is owed to anybody: reason %d", reason)
	}
	first, second := all[0], all[1]
	b.peer.Left(first, true)
	b.peer.Left(first, false) // which does nothing any more
	if !first.Reads(&b.region) || b.peer.Owed() != AsksMax-1 || first.Asks() != 5 {
		t.Errorf("%d are owed; the first reads: %v", b.peer.Owed(), first.Reads(&b.region))
	}
	b.peer.Left(second, false)
	if second.Reads(&b.region) {
		t.Error("an answer that has left reads still")
	}
	for _, o := range all {
		b.service.EndAnswer(b.peer, o)
	}
	if b.Reader() != nil || b.peer.Owed() != 0 {
		t.Errorf("%d are owed, the region is read: %v", b.peer.Owed(), b.Reader() != nil)
	}
}

// The region names every answer that reads it.
func TestReaders(t *testing.T) {
	b := newTwo(t, Read)
	for range 5 {
		b.service.AnswerGet(b.peer, &send{}, 1, &b.region)
	}
	found := 0
	for o := b.Reader(); o != nil; o = b.Reader() {
		found++
		b.service.EndAnswer(b.peer, o)
		b.check()
	}
	if found != 5 {
		t.Errorf("%d found", found)
	}
}

// An atomic operation changes a number in place; its old value is there for the answer.
func TestServeAtomic(t *testing.T) {
	b := newTwo(t, Atomic)
	body := make([]byte, frag.AtomicBytes)
	do := func(a frag.Atomic) (outcome, uint8) {
		a.Handle = uint64(b.Handle())
		a.Marshal(body)
		return b.accept(ask(frag.OpAtomic, 8, body), body, usual)
	}
	binary.NativeEndian.PutUint64(b.Bytes()[8:], 40)
	const add = frag.ActionAdd
	did, reason := do(frag.Atomic{Offset: 8, Action: add, WidthBytes: 8, Operand: 2, Fetch: true})
	got := binary.NativeEndian.Uint64(b.Bytes()[8:])
	if reason != 0 || !did.Fetched || did.Old != 40 || got != 42 {
		t.Errorf("reason %d, %+v, now %d", reason, did, got)
	}
	did, _ = do(frag.Atomic{Offset: 20, Action: frag.ActionSwap, WidthBytes: 4, Operand: 1 << 31})
	if got := binary.NativeEndian.Uint32(b.Bytes()[20:]); did.Fetched || got != 1<<31 {
		t.Errorf("%+v, now %#x", did, got)
	}
	if b.Bytes()[24] != 0 {
		t.Error("four bytes have changed more")
	}
	for _, offset := range []uint64{4, 12, 63, 64} {
		_, reason := do(frag.Atomic{Offset: offset, Action: add, WidthBytes: 8, Operand: 1})
		if reason != frag.NackBounds {
			t.Errorf("at %d: reason %d", offset, reason)
		}
	}
	for range AsksMax {
		b.service.AnswerResult(b.peer, &send{}, 1, 0)
	}
	if _, reason := do(frag.Atomic{Action: add, WidthBytes: 8, Fetch: true}); reason == 0 {
		t.Error("one more answer than is owed to anybody")
	}
	if _, reason := do(frag.Atomic{Action: add, WidthBytes: 8}); reason != 0 {
		t.Errorf("one without an answer: reason %d", reason)
	}
}

// An answer ends what it is for, and nothing else.
func TestAnswers(t *testing.T) {
	b := newTwo(t, 0)
	theirs := NewPeer[*send]()
	fetch := b.service.AskAtomic(b.peer, &send{"fetch"}, &frag.Atomic{Fetch: true}, 11)
	get := b.service.AskGet(b.peer, &send{"get"}, make([]byte, 8), 1, 0, 12)
	add := b.service.AskAtomic(b.peer, &send{"add"}, &frag.Atomic{}, 13)
	b.peer.Asked(fetch)
	b.peer.Asked(get)
	if b.peer.Asked(add) || b.peer.Waiting() != 2 || len(b.peer.All()) != 2 {
		t.Errorf("%d wait, of %d", b.peer.Waiting(), len(b.peer.All()))
	}
	result := b.service.AnswerResult(theirs, &send{}, fetch.Number, 99)
	failed := b.service.AnswerFailed(theirs, &send{}, get.Number, frag.NackRight)
	for _, wrong := range []struct {
		code   frag.OpCode
		number uint32
	}{{frag.OpResult, get.Number}, {frag.OpFailed, fetch.Number}, {frag.OpResult, 12345}} {
		did, _ := b.accept(ask(wrong.code, wrong.number, nil), make([]byte, 8), usual)
		if did.Ended != nil {
			t.Errorf("%+v has ended %s", wrong, did.Ended.Fragment.name)
		}
	}
	did, _ := b.accept(ask(result.Code, result.Number, nil), result.Body(), usual)
	if did.Ended != fetch || fetch.Value() != 99 || did.Failed {
		t.Errorf("%+v, value %d", did, fetch.Value())
	}
	did, _ = b.accept(ask(failed.Code, failed.Number, nil), failed.Body(), usual)
	if did.Ended != get || !did.Failed || did.Reason != frag.NackRight {
		t.Errorf("%+v", did)
	}
	b.peer.Answered(fetch)
	did, _ = b.accept(ask(result.Code, result.Number, nil), result.Body(), usual)
	if did.Ended != nil {
		t.Error("ended twice")
	}
}

// At most AsksMax operations wait for answers.
func TestFull(t *testing.T) {
	b := newTwo(t, 0)
	var last *operation
	for range AsksMax {
		if b.peer.Full() {
			t.Fatal("full too early")
		}
		last = b.service.AskAtomic(b.peer, &send{}, &frag.Atomic{Fetch: true}, 5)
	}
	if !b.peer.Full() {
		t.Fatal("not full")
	}
	if !b.service.End(b.peer, last) || b.peer.Full() {
		t.Error("the end of one makes no room")
	}
}

// A put with a notice waits until the one 64 before it is over.
func TestPlaces(t *testing.T) {
	b := newTwo(t, 0)
	puts := make([]*operation, 65)
	for i := range puts {
		puts[i] = b.service.NotifyPut(&send{}, 3, []byte("hi"))
		if has := i < 64; b.peer.HasNoPlace(puts[i]) == has {
			t.Fatalf("put %d has a place: %v", i, !has)
		}
		if i < 64 {
			b.peer.TakePlace(puts[i])
			b.peer.TakePlace(puts[i]) // which does nothing
		}
	}
	if o := puts[63]; o.Number != 64 || b.peer.HasNoPlace(o) || string(o.Notice()) != "hi" ||
		o.Tag() != 3 {
		t.Errorf("the last one has the number %d", o.Number)
	}
	b.service.End(b.peer, puts[5])
	if !b.peer.HasNoPlace(puts[64]) {
		t.Error("it takes the place of another than the one 64 before")
	}
	b.service.End(b.peer, puts[0])
	if b.peer.HasNoPlace(puts[64]) {
		t.Error("it does not take the place that is free")
	}
}

// Nothing was asked of a nil peer, and nothing is owed to it.
func TestNilPeer(t *testing.T) {
	var p *peer
	if p.Full() || p.Waiting() != 0 || p.Owed() != 0 || len(p.All()) != 0 || p.Check() != nil {
		t.Error("something was")
	}
}

func TestNeeds(t *testing.T) {
	b := newTwo(t, 0)
	for _, c := range []struct {
		o    *operation
		need Rights
		size int
		text string
	}{
		{b.service.NotifyPut(nil, 1, nil), Write | Notify, 0, "write, notify"},
		{b.service.AskGet(b.peer, nil, make([]byte, 9), 1, 0, 0), Read, 9, "read"},
		{b.service.AskAtomic(b.peer, nil, &frag.Atomic{
			Action: frag.ActionAdd, WidthBytes: 4,
		}, 0), Atomic, 4, "atomic"},
	} {
		if need, size := c.o.Needs(); need != c.need || size != c.size || need.String() != c.text {
			t.Errorf("%v and %d bytes, want %v, %d", need, size, c.need, c.size)
		}
	}
	if Rights(0).String() != "none" || PutNeeds(0) != Write || PutNeeds(frag.FlagOp) != Write|Notify {
		t.Error("no rights, or those of puts")
	}
}

// Operations that are over are used again, with nothing of before in them.
func TestGive(t *testing.T) {
	b := newTwo(t, 0)
	o := b.service.AskGet(b.peer, &send{}, make([]byte, 9), 1, 0, 0)
	b.peer.Asked(o)
	b.peer.Answered(o)
	b.service.End(b.peer, o)
	b.service.Give(o)
	again := b.service.AskAtomic(b.peer, nil, &frag.Atomic{}, 0)
	if again != o || again.Number != 0 || again.Waits() || again.Into().Bytes() != nil {
		t.Errorf("%+v", *again)
	}
	allocs := testing.AllocsPerRun(100, func() {
		o := b.service.AnswerResult(b.peer, nil, 1, 2)
		b.service.EndAnswer(b.peer, o)
	})
	if allocs != 0 {
		t.Errorf("%v allocations an answer", allocs)
	}
}

// Check notices what is wrong.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, want string
		do         func(b *two, o *operation)
	}{
		{"handle", "has the handle", func(b *two, _ *operation) { b.handle++ }},
		{"users", "regions are exposed", func(b *two, _ *operation) { b.users++ }},
		{"reader", "answer to another", func(b *two, o *operation) { b.readers = []*operation{o} }},
		{"number", "is not in its place", func(_ *two, o *operation) { o.Number++ }},
		{"waiting", "wait for an answer", func(b *two, _ *operation) { b.waiting++ }},
		{"owed", "are owed", func(b *two, _ *operation) { b.answering-- }},
		{"put", "is not in its place", func(_ *two, o *operation) { o.Code = frag.OpPart }},
	} {
		b := &two{peer: NewPeer[*send](), t: t}
		b.service.Init(4)
		b.service.Expose(&b.region, nil, All, nil, 7)
		o := b.service.AskGet(b.peer, nil, nil, 1, 0, 5)
		if err := b.service.Check(); err != nil {
			t.Fatal(err)
		}
		c.do(b, o)
		err := b.service.Check()
		if err == nil {
			err = b.peer.Check()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
