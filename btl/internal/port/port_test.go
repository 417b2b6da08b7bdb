package port

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

const (
	testSends = 256
	testDepth = 16
	testSpare = 4
)

// open opens a Port over an in-process network.
func open(t *testing.T) *Port {
	t.Helper()
	const buffers = testSends + ControlBuffers + 2*testDepth + testSpare
	dom, err := mem.New(mem.Config{}).Open(fabric.DomainConfig{Buffers: buffers, BufferBytes: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dom.Close() })
	p := new(Port)
	err = p.Open(dom, Config{
		SendBuffers: testSends, RecvDepth: testDepth, CommandDepth: testDepth, Spare: testSpare,
		CommandBytes: 512, DataBytes: 2048,
		PollBatch: 8, IdlePollEvery: 16, Reliable: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fullFor is a fabric that takes no sends to some addresses.
type fullFor struct {
	fabric.Endpoint
	full   []fabric.Addr
	refuse fabric.Addr
	calls  int
	bufs   []fabric.Buf
}

var errRefused = errors.New("refused")

func (e *fullFor) Post(sends []fabric.Send) (int, error) {
	e.calls++
	for i := range sends {
		switch {
		case e.refuse != 0 && sends[i].To == e.refuse:
			return i, errRefused
		case slices.Contains(e.full, sends[i].To):
			return i, fabric.ErrAgain
		}
		e.bufs = append(e.bufs, sends[i].Buf)
	}
	return len(sends), nil
}

// fill has a channel post to a fabric that is full for some peers.
func fill(c *Channel, fake *fullFor, injects bool) {
	c.Interpose(func(ep fabric.Endpoint) fabric.Endpoint {
		fake.Endpoint = ep
		return fake
	})
	c.Caps.InjectBytes = 0
	if injects {
		c.Caps.InjectBytes = 1 << 20
	}
	c.Caps.TxDepth = 1 << 10
}

// Behind a send that the fabric cannot take, all sends to others leave, in few calls whatever their
// number, and the rest keeps its order.
func TestPostOthers(t *testing.T) {
	for _, c := range []struct {
		full  []fabric.Addr
		calls int
		kept  int
	}{
		{[]fabric.Addr{1}, 3, 1 + 50}, {[]fabric.Addr{1, 3}, 3, 1 + 100}, {[]fabric.Addr{9}, 1, 0},
	} {
		p := open(t)
		p.Info.Reliable = true
		ch, fake := &p.Data, &fullFor{full: c.full}
		fill(ch, fake, true)
		add := func(to fabric.Addr, n int) {
			for range n {
				ch.Put(fabric.Buf(len(ch.Batch)), 8, to)
			}
		}
		add(1, 1)
		add(2, 100)
		add(3, 50)
		add(1, 50)
		add(4, 50)
		ch.Post()
		if fake.calls != c.calls || len(ch.Batch) != c.kept || len(fake.bufs) != 251-c.kept {
			t.Errorf("no room for %v: %d calls, %d kept, %d sent; want %d, %d", c.full, fake.calls,
				len(ch.Batch), len(fake.bufs), c.calls, c.kept)
		}
		if !slices.IsSortedFunc(ch.Batch, func(a, b fabric.Send) int { return int(a.Buf) - int(b.Buf) }) {
			t.Errorf("no room for %v: what is kept is out of order", c.full)
		}
		if err := p.Check([2]int{}); err != nil {
			t.Error(err)
		}
	}
}

// An address that is left is removed when the sends to it have completed, also when other sends
// have passed them.
func TestLastSend(t *testing.T) {
	p := open(t)
	p.Info.Reliable = true
	c, fake := &p.Data, &fullFor{full: []fabric.Addr{1}}
	fill(c, fake, false)
	for i, to := range []fabric.Addr{2, 1, 3, 1, 2} {
		c.Put(fabric.Buf(i), 1, to)
	}
	c.Post()
	if !slices.Equal(fake.bufs, []fabric.Buf{0, 2, 4}) || len(c.Batch) != 2 || c.Posted != 3 ||
		c.Batch[0].Buf != 1 || c.Batch[1].Buf != 3 {
		t.Errorf("posted %v, %d counted, %+v wait", fake.bufs, c.Posted, c.Batch)
	}
	waits, gone := c.lastSend(1), c.lastSend(2)
	if waits.mark != 5 || gone.mark != 5 {
		t.Errorf("marks %d and %d, want 5", waits.mark, gone.mark)
	}
	c.Put(5, 1, 4)
	if c.Post(); c.hasGone(&waits, 1) || c.hasGone(&gone, 2) || waits.mark != 6 || gone.mark != 5 {
		t.Errorf("marks %d and %d after another send, want 6 for the one that it has passed and 5",
			waits.mark, gone.mark)
	}
	fake.full[0] = 3
	if c.Post(); !slices.Equal(fake.bufs[4:], []fabric.Buf{1, 3}) || len(c.Batch) != 0 {
		t.Errorf("then posted %v, %+v wait", fake.bufs[4:], c.Batch)
	}
	done := func(bufs ...fabric.Buf) {
		for _, b := range bufs {
			c.SendDone(b)
		}
	}
	if done(0); c.hasGone(&waits, 1) || waits.waits {
		t.Errorf("%+v, five of six sends have yet to complete, none waits", waits)
	}
	if done(1, 2, 3, 4); !c.hasGone(&gone, 2) || c.hasGone(&waits, 1) {
		t.Error("with five of six sends complete, those to the second address have gone")
	}
	if done(5); !c.hasGone(&waits, 1) {
		t.Error("all sends are complete")
	}
}

// A refused send is told once, with its error; its buffer is free or in Done, as its owner has
// said.
func TestRefused(t *testing.T) {
	p := open(t)
	c, fake := &p.Data, &fullFor{refuse: 7}
	fill(c, fake, true)
	c.Put(0, 8, 1)
	c.Put(1, 8, 7)
	c.Put(2, 8, 1)
	p.ReleaseWhenDone(1)
	c.Post()
	if p.Settled() {
		t.Error("settled")
	}
	refused := p.Refused()
	if len(refused) != 1 || refused[0].Send.Buf != 1 || !errors.Is(refused[0].Err, errRefused) {
		t.Errorf("refused %+v", refused)
	}
	if done := p.Done(); !slices.Equal(done, []fabric.Buf{1}) {
		t.Errorf("done: %v", done)
	}
	if !slices.Equal(fake.bufs, []fabric.Buf{0, 2}) || !p.Settled() || len(p.Refused()) != 0 {
		t.Errorf("sent %v, settled %v", fake.bufs, p.Settled())
	}
}

// One address takes no more than half of the control buffers, and gets them back when they have
// gone.
func TestTakeControl(t *testing.T) {
	p := open(t)
	c := &p.Data
	fill(c, &fullFor{}, true)
	taken := 0
	for b, ok := p.TakeControl(c, 5); ok; b, ok = p.TakeControl(c, 5) {
		c.Put(b, 8, 5)
		taken++
	}
	if taken != ControlBuffers/2 {
		t.Errorf("one address took %d of %d", taken, ControlBuffers)
	}
	if _, ok := p.TakeControl(c, 6); !ok {
		t.Error("another one got none")
	}
	c.Post()
	if done := p.Done(); len(done) != taken || len(p.FreeCtl) != ControlBuffers-1 {
		t.Errorf("%d done, %d free", len(done), len(p.FreeCtl))
	}
}

// Addresses for answers are bounded: the oldest leaves.
func TestAnswers(t *testing.T) {
	p := open(t)
	for i := range 3 * AnswersMax {
		b, to, ok := p.TakeForAnswer(1, &p.Command, p.Command.Name)
		if !ok {
			t.Fatal("no buffer for an answer")
		}
		p.Command.Put(b, 24, to)
		p.Command.Post()
		p.Done()
		all, answers := p.Inserted()
		if want := min(i+1, AnswersMax); answers != want || all != i+1-p.inserted+all {
			t.Errorf("%d inserted, %d for answers, want %d", all, answers, want)
		}
	}
	p.RemoveLeft(1)
	if all, answers := p.Inserted(); all != AnswersMax || answers != AnswersMax ||
		len(p.Leaving) != 0 {
		t.Errorf("%d inserted, %d for answers, %d leaving", all, answers, len(p.Leaving))
	}
	if err := p.CheckAddresses(0); err != nil {
		t.Error(err)
	}
}

// A channel rests after polls in vain, but for one pass in some, and 20 us at most.
func TestRests(t *testing.T) {
	p := open(t)
	c := &p.Data
	now := Time(time.Second)
	for range 16 {
		if c.Rests(now) {
			t.Fatal("rests, and was not idle")
		}
		c.NoteIdle()
	}
	rests := 0
	for c.Rests(now) {
		rests++
	}
	if rests != 15 {
		t.Errorf("%d passes without a poll, want 15", rests)
	}
	if !c.MayRest(now) || c.MayRest(now.Add(time.Millisecond)) {
		t.Error("rests for long, or not at all")
	}
	if c.NoteFound(); c.Rests(now) {
		t.Error("rests, and something has come")
	}
}

// Check finds each of these.
func TestCheck(t *testing.T) {
	var lent [2]int
	for _, c := range []struct {
		name, want string
		spoil      func(p *Port)
	}{
		{"nothing", "", func(*Port) {}},
		{"address leaked", "addresses inserted", func(p *Port) { p.inserted++ }},
		{"answers", "for answers, at most", func(p *Port) {
			p.answers = make([]fabric.Addr, AnswersMax+1)
			p.inserted += len(p.answers)
		}},
		{"control buffer leaked", "control buffers", func(p *Port) { p.FreeCtl = p.FreeCtl[1:] }},
		{"control buffer twice", "control buffer", func(p *Port) {
			p.FreeCtl = append(p.FreeCtl, p.FreeCtl[0])
		}},
		{"completion lost", "on the wire", func(p *Port) { p.Data.Posted++ }},
		{"queue depth", "at most", func(p *Port) { p.Data.Posted = p.Data.Caps.TxDepth + 1 }},
		{"batch", "is not busy", func(p *Port) {
			p.Data.Batch = append(p.Data.Batch, fabric.Send{Buf: 0})
		}},
		{"nobody looked", "nobody has looked at", func(p *Port) { p.done = append(p.done, 1) }},
		{"receive buffer lost", "receive buffers", func(p *Port) { p.Command.receiving-- }},
		{"receive buffer twice", "there twice", func(p *Port) {
			p.Command.Repost = append(p.Command.Repost, p.FirstReceive(), p.FirstReceive())
			p.Command.receiving -= 2
		}},
		{"receive buffer that is a send buffer", "is none", func(p *Port) {
			p.Data.Repost = append(p.Data.Repost, p.FirstReceive()-1)
			p.Data.receiving--
		}},
		{"receive buffer that is kept", "kept", func(p *Port) {
			p.Data.Repost = append(p.Data.Repost, p.FirstReceive())
			p.Data.receiving--
			p.Keeper.refs[0]++
		}},
		{"kept packet not counted", "packets kept", func(p *Port) { p.Keeper.refs[0]++ }},
		{"spare receive buffer lost", "packets kept", func(p *Port) {
			p.Keeper.spare = p.Keeper.spare[:2]
		}},
		{"spare receive buffer twice", "in use", func(p *Port) {
			p.Keeper.spare[0] = p.Keeper.spare[1]
		}},
		{"packet in hand", "in hand", func(p *Port) { p.Keeper.Hold(p.FirstReceive()) }},
	} {
		p := open(t)
		c.spoil(p)
		err := errors.Join(p.CheckAddresses(0), p.Check(lent))
		if c.want == "" && err != nil || c.want != "" && !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A batch that is put, posted and completed allocates nothing.
func TestPostAllocs(t *testing.T) {
	p := open(t)
	c := &p.Data
	fill(c, &fullFor{bufs: make([]fabric.Buf, 0, 1<<20)}, false)
	n := testing.AllocsPerRun(100, func() {
		b, _ := p.TakeControl(c, 3)
		c.Put(b, 8, 3)
		c.Put(0, 8, 3)
		p.ReleaseWhenDone(0)
		c.Post()
		c.SendDone(b)
		c.SendDone(0)
		if len(p.Done()) != 2 || len(p.Refused()) != 0 {
			t.Fatal("not done")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHasGoneBehindLaterSends checks a send that the fabric has accepted after later sends of the
// same batch. Its address must stay until this send has completed.
func TestHasGoneBehindLaterSends(t *testing.T) {
	p := open(t)
	c := &p.Command
	const to = fabric.Addr(7)
	c.Batch = append(c.Batch, fabric.Send{To: to})
	l := c.lastSend(to)
	c.Batch, c.total, c.Posted = c.Batch[:0], c.total+3, 1
	if c.hasGone(&l, to) {
		t.Error("the last of three sends has not completed, and its address may be removed")
	}
	if c.Posted = 0; !c.hasGone(&l, to) {
		t.Error("all sends have completed, and the address stays")
	}
}
