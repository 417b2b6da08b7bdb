//go:build linux

package vnic

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlvnic/agent"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the attacker's carrier
	"gobtl/internal/mono"
	"gobtl/vnic"
)

var hostileMessages = flag.Int("vnic.hostile-messages", 2_000,
	"hostile management messages on real sockets, by each of three attackers")

// TestHostileManagement: three attackers with transports of their own send management messages by
// UDP, malformed, forged, replayed, of other managers and by other names: one whom an agent takes
// for a second manager, one who connects to that agent unasked, one who connects to the manager.
// Each message is counted as what it is, no table changes, and nobody grows.
func TestHostileManagement(t *testing.T) {
	l := newLab(t, 1700)
	l.lease = "1m" // only who holds no lease may be an attacker
	l.write(blue("learning = true", "a", "b", "c"))
	l.manager("--metrics", "10.77.0.4:9479")
	l.agent("a")
	l.agent("c")
	l.settled("a")
	l.settled("c")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	second, unasked, guest := l.intruder(), l.intruder(), l.intruder()
	l.hosts["c"].Do(func() { second.introduce("10.77.0.3:4791") })
	l.agent("b", "--em", "10.77.0.3:4791")
	l.settled("b")
	first := second.await()
	reg, err := vnic.ParseMessage(first.data)
	if err != nil || reg.Attr != vnic.AttrRegister {
		t.Fatalf("the agent begins with %x: %v", first.data, err)
	}
	who, err := vnic.ParseRegistration(reg.Data)
	if err != nil {
		t.Fatal(err)
	}
	before, manager := l.managed("b"), l.metrics()
	sizes := map[string]int{"b": l.resident("b"), "m": l.resident("m")}
	n := uint64(*hostileMessages)
	toAgent, toManager := hostileToAgent(), hostileToManager(&who)
	var malformed uint64
	for i := range n {
		b := damage(r, toAgent)
		if _, err := vnic.ParseMessage(b); err != nil {
			malformed++
		}
		second.send(first.ep, b)
		if i%64 == 63 { // an agent ends the connection of who does not fetch its answers
			second.flush(first.ep)
		}
	}
	second.flush(first.ep) // nobody hears it while the next one is at work
	ep := unasked.connect(who.Ways.Module)
	for range n {
		ep = unasked.send(ep, damage(r, toAgent))
	}
	unasked.flush(ep)
	ep = guest.connect(l.managerModule())
	var toMalformed, registers uint64
	for range n {
		b := damage(r, toManager)
		m, err := vnic.ParseMessage(b)
		if err != nil {
			toMalformed++
		}
		register := err == nil && m.Method == vnic.MethodSet && m.Attr == vnic.AttrRegister
		if register { // it ends the connection, and with it what is still under way
			guest.flush(ep)
		}
		ep = guest.send(ep, b)
		if register {
			guest.until("the manager ends the connection", func() bool { return guest.ended[ep] })
			registers++
			ep = guest.connect(l.managerModule())
		}
	}
	var after state
	defer func() {
		if t.Failed() {
			t.Logf("sent to the agent: %d, of which %d malformed, and %d unasked; to the manager %d: %d "+
				"malformed, %d registrations, %d others; counted: agent: before %+v, after %+v; "+
				"manager: before %v, after %v; connections ended: %d, %d, %d", n, malformed, n, n,
				toMalformed, registers, n-toMalformed-registers, before, after, manager, l.metrics(),
				len(second.ended), len(unasked.ended), len(guest.ended))
		}
	}()
	everybody := []*intruder{second, unasked, guest}
	l.eventually("all messages are counted", func() bool {
		for _, x := range everybody {
			x.pump()
		}
		after = l.managed("b")
		m := l.metrics()
		return after.Strangers-before.Strangers == n &&
			after.Management.Malformed-before.Management.Malformed == malformed &&
			m["malformed"]-manager["malformed"] == toMalformed &&
			m["stranger"]-manager["stranger"] == n-toMalformed
	})
	if after.tables != before.tables {
		t.Errorf("the tables were\n%s\nand are\n%s", before.tables, after.tables)
	}
	m := l.metrics()
	refused := after.Management.Refused - before.Management.Refused
	if malformed == 0 || refused == 0 || m["malformed"] == manager["malformed"] ||
		m["stranger"] == manager["stranger"] {
		t.Errorf("agent: malformed %d, refused %d; manager %v", malformed, refused, m)
	}
	for host, was := range sizes {
		if now := l.resident(host); now-was > 32<<20 {
			t.Errorf("%s has grown from %d to %d bytes", host, was, now)
		} else {
			t.Logf("%s: %d KiB, then %d KiB", host, was>>10, now>>10)
		}
	}
	l.settled("b")
	t.Logf("%d from each: agent: malformed %d, refused %d, of strangers %d; manager: %v", n, malformed,
		refused, after.Strangers-before.Strangers, m)
}

var pingLoss = regexp.MustCompile(`([0-9.]+)% packet loss`)

// TestDeadMembers: members without power do not stop the frames between the others. The kernel
// keeps up to 208 KiB of datagrams for each neighbour that does not answer ARP, and they count
// towards the send buffer (2 MiB) of the agent's socket: ten dead hosts fill it. Here one dead host
// with the queue of twenty stands for twenty.
func TestDeadMembers(t *testing.T) {
	l := newLab(t, 1700)
	l.up(blue("", "a", "b", "c"))
	l.ping("a", "10.88.0.2")
	l.hosts["c"].IP("link set eth0 down")
	l.eventually("host a finds host c silent", func() bool {
		var s struct{ Silent []uint32 }
		l.show("a", "agent", &s)
		return slices.Equal(s.Silent, []uint32{3})
	})
	a := l.hosts["a"]
	a.Sysctl("net/ipv4/neigh/eth0/unres_qlen_bytes", strconv.Itoa(20*212992))
	a.IP("neigh flush to 10.77.0.3 dev eth0")
	for i := range 10 { // a ping without answers sends 100 frames a second
		l.start(fmt.Sprint("flood", i), a.Command("ping", "-b", "-q", "-i", "0.001", "-s", "1400", "-w",
			"30", "10.88.0.255"))
	}
	out, err := l.try("a", "ping", "-q", "-c", "100", "-i", "0.1", "-W", "1", "10.88.0.2")
	m := pingLoss.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	loss, _ := strconv.ParseFloat(m[1], 64) // it is made of digits
	dropped := l.counters("a", 1)["tx_fifo_errors"]
	t.Logf("%v %% of the pings are lost, %d copies to the dead host dropped", loss, dropped)
	if loss > 5 || dropped == 0 {
		t.Errorf("%v %% of the pings between living hosts are lost; %d copies to the dead host are "+
			"dropped", loss, dropped)
	}
	l.hosts["c"].IP("link set eth0 up")
	l.eventually("frames go to host c again", func() bool {
		_, err := l.try("a", "ping", "-q", "-c", "1", "-W", "1", "10.88.0.3")
		return err == nil
	})
}

// state is what must not change, and what counts.
type state struct {
	Strangers  uint64 `json:"management_strangers"`
	Management vnic.AgentStats
	tables     string
}

func (l *lab) managed(host string) (s state) {
	l.t.Helper()
	l.show(host, "agent", &s)
	for _, what := range []string{"ports", "macs", "fdb"} {
		out, err := exec.Command(binary, "show", what, "--format", "json", "--socket",
			l.socket(host)).Output()
		if err != nil {
			l.t.Fatal(err)
		}
		s.tables += string(out)
	}
	return s
}

var messageCount = regexp.MustCompile(`btlvnic_em_messages_total{kind="(\w+)"} (\d+)`)

// metrics are the manager's counts of messages.
func (l *lab) metrics() map[string]uint64 {
	l.t.Helper()
	var text []byte
	l.hosts["m"].Do(func() {
		c, err := net.Dial("tcp", "10.77.0.4:9479")
		if err != nil {
			l.t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
			l.t.Fatal(err)
		}
		if text, err = io.ReadAll(c); err != nil {
			l.t.Fatal(err)
		}
	})
	counts := make(map[string]uint64)
	for _, m := range messageCount.FindAllStringSubmatch(string(text), -1) {
		counts[m[1]], _ = strconv.ParseUint(m[2], 10, 64) // it is made of digits
	}
	return counts
}

// resident is the memory of a process in bytes.
func (l *lab) resident(name string) int {
	l.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", l.procs[name].cmd.Process.Pid))
	if err != nil {
		l.t.Fatal(err)
	}
	n, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		l.t.Fatal(err)
	}
	return n * os.Getpagesize()
}

// managerModule asks the manager for its module, as an agent does.
func (l *lab) managerModule() (name []byte) {
	l.t.Helper()
	l.hosts["c"].Do(func() {
		c, err := net.Dial("tcp", "10.77.0.4:4790")
		if err != nil {
			l.t.Fatal(err)
		}
		defer c.Close()
		var in agent.Introduction
		if err := json.NewDecoder(c).Decode(&in); err != nil {
			l.t.Fatal(err)
		}
		if name, err = hex.DecodeString(in.Module); err != nil {
			l.t.Fatal(err)
		}
	})
	return name
}

// intruder is a transport of somebody on host c.
type intruder struct {
	t     *testing.T
	m     *btl.Module
	start time.Time
	first *heard
	up    map[*btl.Endpoint]bool
	ended map[*btl.Endpoint]bool
}

type heard struct {
	ep   *btl.Endpoint
	data []byte
}

func (l *lab) intruder() *intruder {
	l.t.Helper()
	x := &intruder{
		t: l.t, start: time.Now(), up: make(map[*btl.Endpoint]bool),
		ended: make(map[*btl.Endpoint]bool),
	}
	l.hosts["c"].Do(func() {
		infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "10.77.0.3"})
		if err != nil {
			l.t.Fatal(err)
		}
		if x.m, err = agent.OpenModule(infos[0], nil); err != nil {
			l.t.Fatal(err)
		}
	})
	l.t.Cleanup(func() { _ = x.m.Close() }) // the test is over
	x.m.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, _ error) {
		x.up[ep], x.ended[ep] = ev == btl.EventConnected, ev != btl.EventConnected
	})
	if err := x.m.Handle(vnic.TagManagement, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
		if x.first == nil {
			x.first = &heard{ep, slices.Clone(data)}
		}
	}); err != nil {
		l.t.Fatal(err)
	}
	return x
}

func (x *intruder) now() mono.Time { return mono.Time(time.Since(x.start)) + 1 }

func (x *intruder) pump() {
	x.t.Helper()
	if _, err := x.m.Progress(x.now()); err != nil {
		x.t.Fatal(err)
	}
}

func (x *intruder) until(what string, condition func() bool) {
	x.t.Helper()
	for start := time.Now(); !condition(); {
		x.pump()
		if err := x.m.Wait(time.Millisecond); err != nil {
			x.t.Fatal(err)
		}
		if time.Since(start) > 30*time.Second {
			x.t.Fatalf("never: %s", what)
		}
	}
}

// introduce tells one who asks at an address that the manager lab is here.
func (x *intruder) introduce(addr string) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { listener.Close() })
	line, err := json.Marshal(agent.Introduction{
		Protocol: agent.Protocol, Manager: "lab", Module: hex.EncodeToString(x.m.Name()),
	})
	if err != nil {
		x.t.Fatal(err)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			_, _ = c.Write(append(line, '\n')) // an agent that has gone asks again
			c.Close()
		}
	}()
}

// await returns the first message that comes.
func (x *intruder) await() *heard {
	x.t.Helper()
	x.until("somebody registers", func() bool { return x.first != nil })
	return x.first
}

func (x *intruder) connect(name []byte) (ep *btl.Endpoint) {
	x.t.Helper()
	x.until("connected", func() bool {
		if ep == nil || x.ended[ep] {
			var err error
			if ep, err = x.m.Connect(x.now(), name); err != nil {
				ep = nil
			}
		}
		return ep != nil && x.up[ep]
	})
	return ep
}

// flush waits until the peer has all that was sent.
func (x *intruder) flush(ep *btl.Endpoint) {
	x.t.Helper()
	flushed := false
	ep.Flush(x.now(), func(err error) {
		if err != nil {
			x.t.Error(err)
		}
		flushed = true
	})
	x.until("the peer has all messages", func() bool { return flushed })
}

// send sends a message, and returns the endpoint that it went by.
func (x *intruder) send(ep *btl.Endpoint, data []byte) *btl.Endpoint {
	x.t.Helper()
	x.until("there is room for a message", func() bool {
		f, err := ep.Alloc(vnic.TagManagement, len(data))
		if errors.Is(err, btl.ErrAgain) {
			return false
		}
		if err != nil {
			x.t.Fatal(err)
		}
		copy(f.Bytes(), data)
		if _, err = ep.Send(x.now(), f); err == nil {
			return true
		}
		if free := ep.Free(f); free != nil || !errors.Is(err, btl.ErrAgain) {
			x.t.Fatal(err, free)
		}
		return false
	})
	x.pump()
	return ep
}

// hostileToAgent are messages of a manager's that has no right to them.
func hostileToAgent() (all [][]byte) {
	info := vnic.PowerOn()
	info.VESW, info.EncapSLID, info.ConfigState = 1, 2, vnic.StateDropAll
	lease := func(name string) []byte {
		return (&vnic.Lease{Manager: name, Instance: 7, Ms: 60_000, LID: 3}).Append(nil)
	}
	for _, m := range []vnic.Message{
		{Method: vnic.MethodSet, Attr: vnic.AttrLease, Data: lease("lab")},
		{Method: vnic.MethodSet, Attr: vnic.AttrLease, Data: lease("other")},
		{Method: vnic.MethodSet, Attr: vnic.AttrLIDs, Modifier: vnic.ModNew},
		{Method: vnic.MethodSet, Attr: vnic.AttrVportInfo, Modifier: 1, Data: info.Append(nil)},
		{Method: vnic.MethodSet, Attr: vnic.AttrMembers, Modifier: 1 | vnic.ModNew},
		{Method: vnic.MethodSet, Attr: vnic.AttrMACEntries, Modifier: 1 | vnic.ModNew},
		{Method: vnic.MethodSet, Attr: vnic.AttrDeleteVESW, Modifier: 1},
		{Method: vnic.MethodGet, Attr: vnic.AttrVportInfo, Modifier: 1},
		{Method: vnic.MethodTrap, Attr: vnic.AttrVportInfo, Modifier: 1},
		{Method: vnic.MethodResponse, Attr: vnic.AttrLIDs},
	} {
		all = append(all, m.Append(nil))
	}
	return all
}

// hostileToManager are messages of hosts that are there already, or that nobody knows.
func hostileToManager(replayed *vnic.Registration) (all [][]byte) {
	unknown, elsewhere := *replayed, *replayed
	unknown.Host, elsewhere.Manager = "nobody", "other"
	for _, m := range []vnic.Message{
		{Method: vnic.MethodSet, Attr: vnic.AttrRegister, Data: replayed.Append(nil)},
		{Method: vnic.MethodSet, Attr: vnic.AttrRegister, Data: unknown.Append(nil)},
		{Method: vnic.MethodSet, Attr: vnic.AttrRegister, Data: elsewhere.Append(nil)},
	} {
		all = append(all, m.Append(nil))
	}
	for i := range 30 { // less often than these
		info := vnic.PowerOn()
		m := vnic.Message{
			Method: vnic.MethodResponse, Attr: vnic.AttrVportInfo, TID: uint64(i), Modifier: 1,
			Data: info.Append(nil),
		}
		if i%2 == 0 {
			t := vnic.Trap{VESW: 1, Port: 1, OPAPort: 1, Index: uint8(i), Opcode: vnic.TrapUnicast}
			m.Method, m.Data = vnic.MethodTrap, t.Append(nil)
		}
		all = append(all, m.Append(nil))
	}
	return all
}

// damage picks a message and changes it, often.
func damage(r *rand.Rand, corpus [][]byte) []byte {
	b := slices.Clone(corpus[r.IntN(len(corpus))])
	for range r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			b = b[:1+r.IntN(len(b))]
		case 1:
			b = append(b, make([]byte, r.IntN(500))...)
		default:
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
	}
	return b
}
