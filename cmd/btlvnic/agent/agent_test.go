//go:build linux

package agent

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp"
	"gobtl/internal/bounded"
	"gobtl/internal/mono"
	"gobtl/internal/testenv"
	"gobtl/vnic"
	"gobtl/vnic/offload"
	"gobtl/vnic/tap"
)

// newAgent is an agent on the loopback device whose threads the test is.
func newAgent(t *testing.T) *Agent {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Host: "h", Manager: "m", Fabric: infos[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

// passes has agents do passes until cond holds.
func passes(t *testing.T, cond func() bool, agents ...*Agent) {
	t.Helper()
	for start := time.Now(); !cond(); {
		if time.Since(start) > 20*time.Second {
			t.Fatal("it never comes to that")
		}
		for _, a := range agents {
			if _, err := a.station.Progress(clock()); err != nil {
				t.Fatal(err)
			}
			a.sendTrains(clock())
		}
	}
}

// mate has an agent connect to another.
func (a *Agent) mate(lid uint32, name []byte) *peer {
	p := &peer{lid: lid, name: name}
	a.mates[lid] = p
	a.connect(clock(), p)
	return p
}

// offer gives an agent trains of one packet each.
func offer(a *Agent, port *port, to uint32, n, bytes int) {
	for range n {
		tr := newTrain(vnic.TrainHeaderBytes + bytes)
		tr.port, tr.to, tr.frames, tr.mem = port, to, 1, tr.mem[:vnic.TrainHeaderBytes+bytes]
		a.trains <- tr
		a.sendTrains(clock())
	}
}

// TestSlowMember: a member that stands still, and one that never was there, take their shares and
// no more; another gets its trains, and management has descriptors.
func TestSlowMember(t *testing.T) {
	a, slow, good, gone := newAgent(t), newAgent(t), newAgent(t), newAgent(t)
	port := &port{num: 1}
	ps := a.mate(2, slow.module.Name())
	pg := a.mate(3, good.module.Name())
	pn := a.mate(4, gone.module.Name())
	slow.mate(1, a.module.Name())
	good.mate(1, a.module.Name())
	passes(t, func() bool { return ps.ep.Connected() && pg.ep.Connected() }, a, slow, good)
	before, began := good.module.Stats(), clock()
	offer(a, port, 2, 5000, 20_000)
	offer(a, port, 4, 5000, 20_000)
	_, quiet := a.shares(clock())
	for what, p := range map[string]*peer{"slow": ps, "never connected": pn} {
		if p.flying > quiet.trains || p.flyingBytes > quiet.bytes || len(p.queue) > peerQueueMax ||
			p.queueBytes > quiet.bytes {
			t.Errorf("the %s one has %d trains, %d bytes; %d wait with %d", what, p.flying,
				p.flyingBytes, len(p.queue), p.queueBytes)
		}
	}
	if pn.flying != 0 {
		t.Errorf("%d trains are on their way to nobody", pn.flying)
	}
	lost := 10_000 - ps.flying - len(ps.queue) - len(pn.queue)
	if got := port.trainsLost[vnic.TxFIFO]; lost == 0 || got != uint64(lost) ||
		port.trainsLost[vnic.TxErrors] != got {
		t.Errorf("of %d that did not leave the port counts %d", lost, got)
	}
	offer(a, port, 3, 200, 20_000)
	if len(pg.queue) > 0 || pg.flying == 0 {
		t.Fatalf("behind the slow ones %d trains wait", len(pg.queue))
	}
	f, err := pg.ep.Alloc(vnic.TagManagement, vnic.MessageBytesMax)
	if err != nil {
		t.Fatalf("management: %v", err)
	}
	if err := pg.ep.Free(f); err != nil {
		t.Fatal(err)
	}
	passes(t, func() bool { return pg.flying == 0 }, a, good)
	if good.module.Stats() == before {
		t.Error("nothing has come")
	}
	if a.shares(clock()); !pg.works(began) || ps.works(began) || pn.works(began) {
		t.Error("the share of those that work is not that of the one that acknowledges")
	}
	// The slow one ends: what waited for it is counted.
	waiting := uint64(len(ps.queue))
	ps.ep.Abort()
	passes(t, func() bool { return ps.ep == nil }, a, good)
	if n := port.trainsLost[vnic.TxNoPeer]; n < waiting || ps.flying != 0 || ps.queueBytes != 0 {
		t.Errorf("%d of %d are counted; %d still fly", n, waiting, ps.flying)
	}
	offer(a, port, 2, 1, 60)
	if n := port.trainsLost[vnic.TxNoPeer]; n < waiting+1 {
		t.Error("a train to nobody is not counted")
	}
}

// TestTrainsOfStrangers: a train costs nothing before its sender is known, because anybody can send
// hundreds of them in a datagram.
func TestTrainsOfStrangers(t *testing.T) {
	a, ep := newAgent(t), new(btl.Endpoint)
	good := append(make([]byte, vnic.TrainHeaderBytes), 1)
	for _, data := range [][]byte{nil, good} {
		a.strangers = vnic.Counts{}
		n := testing.AllocsPerRun(100, func() { a.takeTrain(ep, vnic.TagTrain, data) })
		if n > 0 || a.strangers[vnic.RxForged] != 101 || a.local.now != 0 {
			t.Errorf("%d bytes: %v allocations, %d of 101 counted, clock %v", len(data), n,
				a.strangers[vnic.RxForged], a.local.now)
		}
	}
}

// TestMalformedTrains: the connection of a peer with many malformed trains ends. A train for a
// switch of other hosts leaves no flow behind. Neither does a train with a large entropy, which a
// later version could send, and which ends no connection.
func TestMalformedTrains(t *testing.T) {
	a, other := newAgent(t), newAgent(t)
	p := a.mate(2, other.module.Name())
	other.mate(1, a.module.Name())
	passes(t, func() bool { return p.ep.Connected() }, a, other)
	ep := p.ep
	train := append(make([]byte, vnic.TrainHeaderBytes), 1)
	for vesw := range uint16(100) {
		(&vnic.Train{Seq: 1, VESW: vesw}).Put(train)
		a.takeTrain(ep, vnic.TagTrain, train)
	}
	if n := a.strangers[vnic.RxBadVESW]; n != 100 || p.order.Early != 0 {
		t.Errorf("of 100 trains for other switches %d are counted, %d wait", n, p.order.Early)
	}
	a.local.host.SetTables(vnic.NewIngress(nil, nil, nil), &vnic.Tables{
		Info: vnic.VportInfo{VESW: 200},
	})
	for i := range uint16(100) {
		(&vnic.Train{Seq: 1, VESW: 200, Entropy: vnic.TrainFlows + i}).Put(train)
		a.takeTrain(ep, vnic.TagTrain, train)
	}
	if n := a.strangers[vnic.RxMalformed]; n != 100 || p.malformed != 0 || p.order.Early != 0 {
		t.Errorf("of 100 trains with a large entropy %d are counted, %d against the host, %d wait", n,
			p.malformed, p.order.Early)
	}
	a.strangers = vnic.Counts{}
	for range malformedMax - 1 {
		a.takeTrain(ep, vnic.TagTrain, nil)
	}
	if !ep.Connected() || p.ep != ep {
		t.Fatal("a few malformed trains end a connection")
	}
	a.takeTrain(ep, vnic.TagTrain, nil)
	passes(t, func() bool { return p.ep == nil }, a, other)
	if n := a.strangers[vnic.RxMalformed]; n != malformedMax || ep.Connected() {
		t.Errorf("%d malformed trains are counted, connected %v", n, ep.Connected())
	}
	p.retry = 0
	if a.connect(clock(), p); p.ep == nil || p.malformed != 0 {
		t.Error("the next connection begins with the malformed trains of the last one")
	}
}

// TestOrdersNeverFall: the counts of trains out of order stay when a peer's endpoint ends, and when
// the peer leaves the switch.
func TestOrdersNeverFall(t *testing.T) {
	a, ends, leaves := newAgent(t), newAgent(t), newAgent(t)
	pe, pl := a.mate(2, ends.module.Name()), a.mate(3, leaves.module.Name())
	ends.mate(1, a.module.Name())
	leaves.mate(1, a.module.Name())
	passes(t, func() bool { return pe.ep.Connected() && pl.ep.Connected() }, a, ends, leaves)
	pe.order.Early, pe.order.Late = 3, 5
	pl.order.Early, pl.order.Skipped = 10, 20
	want := OrderReport{Early: 13, Late: 5, Skipped: 20}
	if got := a.orders(); got != want {
		t.Fatalf("before: %+v", got)
	}
	pe.ep.Abort()
	passes(t, func() bool { return pe.ep == nil }, a, leaves)
	if got := a.orders(); got != want {
		t.Errorf("after an endpoint has ended: %+v, want %+v", got, want)
	}
	a.dial(clock()) // no port names a peer
	if got := a.orders(); len(a.mates) > 0 || got != want {
		t.Errorf("after %d peers are left: %+v, want %+v", len(a.mates), got, want)
	}
}

// TestTwoLIDsOneName: a name belongs to the LID that had it first.
func TestTwoLIDsOneName(t *testing.T) {
	a, b := newAgent(t), newAgent(t)
	first := a.mate(2, b.module.Name())
	second := a.mate(3, b.module.Name())
	if second.ep != nil || a.byEnd[first.ep] != first {
		t.Error("two have one endpoint")
	}
}

// TestTrainMemory: a train has memory of its size, not of the largest.
func TestTrainMemory(t *testing.T) {
	for want, bytes := range map[int]int{
		512: 100, 4 << 10: 1600, 16 << 10: 9100, vnic.TrainBytesMax: 70_000,
	} {
		tr := newTrain(bytes)
		if cap(tr.mem) != want {
			t.Errorf("%d bytes have %d, want %d", bytes, cap(tr.mem), want)
		}
		tr.recycle()
	}
	if newTrain(vnic.TrainBytesMax+1) != nil {
		t.Error("more than a train holds")
	}
}

// fakeQueue is a device that fails as it is told.
type fakeQueue struct {
	reads   []error
	write   func(f *offload.Joined) error
	written int
}

func (*fakeQueue) FD() int { return -1 }

func (q *fakeQueue) Read([]byte) (offload.Header, int, error) {
	if len(q.reads) == 0 {
		return offload.Header{}, 0, nil
	}
	err := q.reads[0]
	q.reads = q.reads[1:]
	return offload.Header{}, 0, err
}

func (q *fakeQueue) Write(f *offload.Joined) error {
	err := q.write(f)
	if err == nil {
		q.written++
	}
	return err
}

// TestFailedReads: one read that fails costs a frame, many a queue, until the control thread looks.
func TestFailedReads(t *testing.T) {
	a := newAgent(t)
	s := a.senders[0]
	q := &fakeQueue{reads: []error{unix.ENOMEM, unix.EIO}}
	o := &outlet{port: &port{num: 1}, queue: q, out: vnic.NewEgress(nil, nil, nil, 1)}
	s.serve(o)
	s.serve(o)
	if o.queue == nil || o.out.Counts[vnic.TxFIFO] != 1 {
		t.Fatalf("queue %v after one failure; %d counted", o.queue, o.out.Counts[vnic.TxFIFO])
	}
	for range readFailuresMax {
		q.reads = append(q.reads, unix.ENOMEM)
	}
	for range readFailuresMax {
		if o.queue != nil {
			s.serve(o)
		}
	}
	if o.queue != nil {
		t.Error("a queue that always fails is read for ever")
	}
	a.runOps()
	a.lookAt = 1
	o.queue, o.failures = &fakeQueue{reads: []error{unix.EBADFD}}, 0
	s.serve(o)
	if a.runOps(); o.queue != nil || a.lookAt != 0 {
		t.Error("nobody looks for a device that is gone")
	}
}

// TestRefusedWrites: large frames end when the kernel refuses them again and again, not when the
// device is down, has no memory, or refuses one.
func TestRefusedWrites(t *testing.T) {
	large := func(kind uint8) *offload.Joined {
		return &offload.Joined{
			Parts: [][]byte{make([]byte, 3000)}, Frames: 2, Header: offload.Header{Type: kind},
		}
	}
	var fail error
	q := &fakeQueue{write: func(f *offload.Joined) error {
		if f.Frames > 1 {
			return fail
		}
		return nil
	}}
	n := newInlet(&port{num: 1})
	n.queue = q
	for _, err := range []error{unix.EIO, unix.ENOBUFS, unix.EAGAIN} {
		fail = err
		for range 2 * refusedMax {
			n.write(large(offload.TCP4))
		}
	}
	if c := n.in.Counts; n.joiner.NoTCP || c[vnic.RxEthDown] != 4*refusedMax ||
		c[vnic.RxFIFO] != 8*refusedMax {
		t.Fatalf("large frames off: %v; %d and %d frames are counted", n.joiner.NoTCP,
			c[vnic.RxEthDown], c[vnic.RxFIFO])
	}
	for range 2 * refusedMax {
		fail = unix.EINVAL
		n.write(large(offload.TCP4))
		fail = nil
		n.write(large(offload.TCP4))
	}
	if n.joiner.NoTCP {
		t.Fatal("single refusals end large frames")
	}
	fail = unix.EINVAL
	for range refusedMax {
		n.write(large(offload.TCP4))
	}
	if !n.joiner.NoTCP || n.joiner.NoUDP {
		t.Errorf("after %d refusals: TCP off %v, UDP off %v", refusedMax, n.joiner.NoTCP, n.joiner.NoUDP)
	}
	for range 2 * refusedMax { // an older kernel takes fewer frames of UDP
		long := large(offload.UDP4)
		long.Frames = offload.FramesOld + 1
		n.write(long)
	}
	if n.joiner.NoUDP || n.joiner.UDPFrames != offload.FramesOld {
		t.Errorf("UDP off %v, %d frames at most", n.joiner.NoUDP, n.joiner.UDPFrames)
	}
}

// TestPathOfPorts: of several paths the smallest holds for a port, until it carries more.
func TestPathOfPorts(t *testing.T) {
	a := newAgent(t)
	tables := &vnic.Tables{Members: []uint32{1, 2, 3}}
	for _, c := range []struct {
		lid        uint32
		size, want int
	}{
		{1, 4304, 4304},
		{2, 1232, 1232},
		{3, 8118, 1232},
		{2, 8952, 4304},
		{1, 8952, 8118},
		{3, 8952, 0},
	} {
		a.paths[c.lid] = narrowPath(8952, c.size)
		if n := a.pathOf(tables); n != c.want {
			t.Errorf("after %d to host %d the paths carry %d, want %d", c.size, c.lid, n, c.want)
		}
	}
}

// narrowPath is a search that has found a path to carry packets of carries bytes.
func narrowPath(most, carries int) *vnic.PathSearch {
	number := uint64(0)
	p := vnic.NewPathSearch(func() uint64 { number++; return number })
	p.SetMost(0, most)
	var asks []vnic.SizeProbe
	for now := mono.Time(0); now < mono.Time(time.Minute); now = p.Due() {
		asks = p.Probes(now, asks[:0])
		for _, ask := range asks {
			if ask.Bytes <= carries {
				p.Answered(now, ask.Number)
			}
		}
	}
	return p
}

// TestPathFloor: one host's path does not take IPv6 off the interface of all hosts, and frames up
// to the floor still go to the others.
func TestPathFloor(t *testing.T) {
	if n := usableMTU(pathFloorBytes); n < 1280 || n > 1287 {
		t.Fatalf("the floor is an MTU of %d", n)
	}
	a := newAgent(t)
	for _, cut := range []bool{false, true} {
		p := &port{num: 1, problems: map[string]string{}}
		p.tables = &vnic.Tables{Info: vnic.VportInfo{EthMTU: 1500}, Options: vnic.Options{Cut: cut}}
		o := &outlet{
			port: p, mtuBytes: 1472, out: vnic.NewEgress(&p.fdb, &p.near, &p.learnMu, 1),
		}
		p.tables.Members = []uint32{7}
		p.outlets = []*outlet{o}
		p.inlets = []*inlet{newInlet(p), newInlet(p)}
		a.paths[7] = narrowPath(1472, 600)
		p.pathMTU = a.pathOf(p.tables)
		a.exchange(p)
		want, mtu := pathFloorBytes, usableMTU(pathFloorBytes)
		if cut {
			want, mtu = 528, 1500
		}
		if o.mtuBytes != want || p.wantedMTU(1472) != mtu {
			t.Errorf("cut %v: datagrams of %d, MTU %d", cut, o.mtuBytes, p.wantedMTU(1472))
		}
	}
}

// TestRefusedPackets: if the local system refuses too large a packet, the agent probes all paths.
func TestRefusedPackets(t *testing.T) {
	a := newAgent(t)
	p := &port{num: 1}
	o := &outlet{port: p, mtuBytes: 1472, out: vnic.NewEgress(&p.fdb, &p.near, &p.learnMu, 1)}
	a.paths[7] = narrowPath(1472, 1472)
	now := a.paths[7].Due() - 1
	a.measure(now)
	for _, n := range []uint32{1472, 1232} {
		a.senders[0].lost(o, fabric.Send{Len: n}, syscall.EMSGSIZE)
	}
	if n := o.out.Counts[vnic.TxOversize]; n != 2 || o.mtuBytes != 1472 || !a.doubted.Load() {
		t.Errorf("%d frames counted, datagrams of %d, doubted %v", n, o.mtuBytes, a.doubted.Load())
	}
	if n := a.measure(now); n == 0 || a.pathOf(&vnic.Tables{Members: []uint32{7}}) != 0 {
		t.Errorf("%d probes; the path carries %d", n, a.pathOf(&vnic.Tables{Members: []uint32{7}}))
	}
}

// TestRefusedPacketsProbeRarely: the own system refuses packets all the time, and all hosts answer
// at once. The agent probes the paths once a second. No refused packet is forgotten.
func TestRefusedPacketsProbeRarely(t *testing.T) {
	a := newAgent(t)
	p := &port{num: 1}
	o := &outlet{port: p, mtuBytes: 1472, out: vnic.NewEgress(&p.fdb, &p.near, &p.learnMu, 1)}
	for lid := range uint32(3) {
		a.paths[lid] = narrowPath(1472, 1472)
	}
	begin := a.paths[0].Due()
	var rounds []time.Duration
	for at := time.Duration(0); at < 6*time.Second; at += time.Millisecond {
		if at > 0 && at < 4500*time.Millisecond {
			a.senders[0].lost(o, fabric.Send{Len: 1472}, syscall.EMSGSIZE)
		}
		if a.measure(begin.Add(at)) == 0 {
			continue
		}
		rounds = append(rounds, at)
		for lid := range uint32(3) {
			a.sizeProbed(sizeProbe{lid, vnic.SizeTells, 1<<16 | 1472})
		}
		a.measure(begin.Add(at))
	}
	if len(rounds) != 7 || rounds[6]-rounds[5] != doubtPause { // the first round confirms the sizes
		t.Errorf("%d rounds of probes: %v", len(rounds), rounds[:min(len(rounds), 10)])
	}
}

// TestProbeFromGroup: a probe that says that it comes from a group is not answered to the group.
func TestProbeFromGroup(t *testing.T) {
	const own, other, group vnic.MAC = 0x02_00_00_00_00_01, 0x02_00_00_00_00_02, 0x03_00_00_00_00_02
	a := newAgent(t)
	p := &port{num: 1}
	n := newInlet(p)
	new(vnic.Host).SetTables(n.in, &vnic.Tables{Info: vnic.VportInfo{BaseMAC: own}})
	for src, answers := range map[vnic.MAC]int{other: 1, group: 0} {
		a.senders[0].inject = nil
		ar := vnic.Arrival{
			Port: n.in, Info: vnic.FrameInfo{Src: src, Dst: own},
			Frame: probeFrame(own, src, probeAsks, 1),
		}
		a.probe(p, &ar)
		a.runOps()
		if got := len(a.senders[0].inject); got != answers {
			t.Errorf("from %v: %d answers, want %d", src, got, answers)
		}
	}
}

// TestOpsBounded: who asks without end does not keep the control thread from frames.
func TestOpsBounded(t *testing.T) {
	a := newAgent(t)
	ran := 0
	var again func()
	again = func() {
		if ran++; ran < 10*opsWaiting {
			a.later(again)
		}
	}
	a.later(again)
	if a.runOps() != opsWaiting || ran != opsWaiting {
		t.Errorf("%d of them in one pass", ran)
	}
}

// TestRefusalTold: a host that the manager's file does not name says so.
func TestRefusalTold(t *testing.T) {
	a := newAgent(t)
	var told atomic.Pointer[string]
	a.cfg.Log = func(format string, _ ...any) { told.Store(&format) }
	conn, err := a.station.Dial(clock(), newAgent(t).module.Name())
	if err != nil {
		t.Fatal(err)
	}
	no := vnic.Message{
		Method: vnic.MethodResponse, Status: vnic.StatusInvalid, Attr: vnic.AttrRegister,
	}
	a.core.Receive(clock(), conn, no.Append(nil))
	a.tellRefusal()
	if told.Load() == nil || !strings.Contains(a.refusal(), `"h"`) {
		t.Fatal("nobody is told")
	}
	told.Store(nil)
	a.tellRefusal()
	if told.Load() != nil {
		t.Error("it is told again and again")
	}
}

// TestLanes: the frames that one thread takes for all flows are spread over the queues of a device,
// those of one flow always to the same.
func TestLanes(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "root, to have a TAP device")
	}
	dev, err := tap.Open(tap.Config{Name: "lanes%d", Queues: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	queues := dev.Queues()
	n := newInlet(&port{num: 1})
	for range 2 { // the device is made anew
		n.attachAll(queues, dev)
		for entropy := range 256 {
			l := n.lane(uint16(entropy))
			if l.queue.FD() != queues[entropy%len(queues)].FD() || l.in != n.in || l.port != n.port {
				t.Fatalf("flow %d goes to descriptor %d", entropy, l.queue.FD())
			}
		}
	}
	one := newInlet(&port{num: 1})
	one.attach(queues[1], dev)
	if one.lane(7) != one {
		t.Error("the inlet of one queue gives its frames away")
	}
}

// TestProbesFromUnknownAddresses: on a switch with flood, the answers to probes from addresses that
// nobody has go to no member, and leave the port its frames to all members.
func TestProbesFromUnknownAddresses(t *testing.T) {
	const (
		unknown = vnic.MAC(0x00_11_22_00_00_00)
		probes  = 100
	)
	own, known := vnic.MACFor(5, 1), vnic.MACFor(5, 2)
	a := newAgent(t)
	p := &port{num: 1}
	tables := &vnic.Tables{
		Info: vnic.VportInfo{
			VESW: 5, BaseMAC: own, OperState: vnic.StateForwarding, EthMTU: 1500, EncapSLID: 1,
			McastDLID: vnic.GroupLID(5),
		},
		Options: vnic.Options{Flood: true, GroupRate: 10}, Members: []uint32{1, 2, 3},
	}
	n := newInlet(p)
	new(vnic.Host).SetTables(n.in, tables)
	o := &outlet{port: p, mtuBytes: 1472, out: vnic.NewEgress(&p.fdb, &p.near, &p.learnMu, 1)}
	o.out.SetTables(tables)
	s := a.senders[0]
	s.outlets = append(s.outlets, o)
	ask := func(src vnic.MAC) {
		a.probe(p, &vnic.Arrival{
			Port: n.in, Info: vnic.FrameInfo{Src: src, Dst: own},
			Frame: probeFrame(own, src, probeAsks, 1),
		})
		a.runOps()
		if _, err := s.work(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range vnic.MAC(probes) {
		ask(unknown + i)
	}
	c := &o.out.Counts
	if c[vnic.TxPackets] != 0 || c[vnic.TxStorm] != 0 || c[vnic.TxDLIDZero] != probes {
		t.Errorf("%d answers are sent, %d reach the rate limit, %d are dropped", c[vnic.TxPackets],
			c[vnic.TxStorm], c[vnic.TxDLIDZero])
	}
	if ask(known); c[vnic.TxPackets] != 1 {
		t.Error("the answer to a member is not sent")
	}
	f := probeFrame(vnic.Broadcast, own, probeAsks, 1)
	if d := o.out.Forward(clock(), f, len(f)); d.Verdict != vnic.ToGroup {
		t.Error("the port may send no frame to all members")
	}
}

// TestProbesOfOneHost: a host that probes a port's address without end gets a bounded number of
// answers in a second, and another host gets its answers.
func TestProbesOfOneHost(t *testing.T) {
	own := vnic.MACFor(5, 1)
	a := newAgent(t)
	p := &port{num: 1}
	n := newInlet(p)
	new(vnic.Host).SetTables(n.in, &vnic.Tables{Info: vnic.VportInfo{VESW: 5, BaseMAC: own}})
	k := &a.receivers[0].intake
	k.now = 1
	answers := map[vnic.MAC]int{}
	ask := func(lid uint32) {
		src := vnic.MACFor(5, lid)
		k.probed(lid, p, &vnic.Arrival{
			Port: n.in, Info: vnic.FrameInfo{Src: src, Dst: own},
			Frame: probeFrame(own, src, probeAsks, 1),
		})
		a.runOps()
		for _, i := range a.senders[0].inject {
			answers[vnic.MACOf(i.frame)]++
		}
		a.senders[0].inject = nil
	}
	for i := range 10_000 {
		if ask(2); i%100 == 0 {
			ask(3)
		}
	}
	if two, three := answers[vnic.MACFor(5, 2)], answers[vnic.MACFor(5, 3)]; two != probesMax ||
		three != 100 {
		t.Errorf("%d answers to the busy host, %d of 100 to the other", two, three)
	}
}

// fullQueue is an endpoint whose send queue is always full.
type fullQueue struct {
	fabric.Endpoint
	posts int
}

func (f *fullQueue) Post([]fabric.Send) (int, error) {
	f.posts++
	return 0, fabric.ErrAgain
}

// TestFullSendQueue: the control thread does not wait for room in a full send queue. A probe, an
// answer to a probe, and a proof are tried once.
func TestFullSendQueue(t *testing.T) {
	a, other := newAgent(t), newAgent(t)
	s := a.senders[0]
	full := &fullQueue{Endpoint: s.link.ep}
	s.link.ep, s.link.seen = full, a.peers.Load()
	s.byLID[7] = []fabric.Addr{0}
	free := len(s.free)
	s.probeSize(1, 7, vnic.SizeAsks, vnic.SizeProbe{Bytes: 1232, Number: 1})
	s.probeSize(1, 7, vnic.SizeTells, vnic.SizeProbe{Bytes: vnic.SizeProbeBytes, Number: 1})
	err := s.prove(other.receivers[0].link.ep.Name(), make([]byte, vnic.ProofBytes))
	if full.posts != 3 || err != nil || len(s.free) != free {
		t.Errorf("3 packets are tried %d times, error %v; %d of %d buffers are free", full.posts, err,
			len(s.free), free)
	}
}

// TestLogOfRefusalReasons: a manager that gives other reasons again and again does not fill the
// log.
func TestLogOfRefusalReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		a := &Agent{core: vnic.NewAgent(vnic.AgentConfig{Host: "h", Manager: "m"})}
		a.cfg.Log = func(format string, args ...any) {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
		a.core.Connect(1)
		refuse := func(n int) {
			for i := range n {
				m := vnic.Message{
					Method: vnic.MethodResponse, Attr: vnic.AttrRegister, Status: vnic.StatusInvalid,
				}
				if i%2 > 0 {
					m.Status = vnic.StatusBusy
				}
				a.core.Receive(1, 1, m.Append(nil))
				a.tellRefusal()
			}
		}
		refuse(1000)
		time.Sleep(time.Second)
		for range 3 { // the reason stays, and is told once
			a.tellAgain()
			a.tellRefusal()
		}
		left := fmt.Sprint(1000-bounded.LinesPerSecond, " more like this")
		if n := len(lines); n != bounded.LinesPerSecond+1 || !strings.Contains(lines[n-1], left) ||
			!strings.HasSuffix(lines[n-1], a.refusal()) {
			t.Errorf("%d lines, the last %q", n, lines[n-1])
		}
	})
}
