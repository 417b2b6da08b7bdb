package fabrictest_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/fabric/mem"
)

// faultVariable names the fault that a child process of TestSuiteFindsFaults builds in.
const faultVariable = "FABRICTEST_FAULT"

// faults are providers that each break one rule, and the subtest that must detect the fault.
var faults = []struct{ name, subtest string }{
	{"", ""}, // no fault: the wrapper itself passes all subtests
	{"one name for all endpoints", "Attributes"},
	{"capacity and MTU of zero", "Attributes"},
	{"last byte altered", "Sizes"},
	{"zero-length lost", "Sizes"},
	{"everything twice", "ExchangeBothWays"},
	{"everything to the first peer", "EndpointsDoNotMix"},
	{"batches reversed", "BatchOrder"},
	{"bad send skipped in silence", "BatchStopsAtBadSend"},
	{"short last of a run lost", "EqualBursts"},
	{"batches end at the 64th", "EqualBursts"},
	{"runs go to the first peer", "MixedBursts"},
	{"runs come from nobody", "MixedBursts"},
	{"length never shrinks", "SizesChange"},
	{"what waits for a buffer is lost", "SurplusWaits"},
	{"poll invents completions", "PollNothing"},
	{"poll for one finds nothing", "PollOne"},
	{"buffer read at the next poll", "InjectLeavesBuffer"},
	{"injected sends complete", "InjectLeavesBuffer"},
	{"sends complete twice", "SendCompletions"},
	{"sends complete never", "SendCompletions"},
	{"full send queue loses", "TxQueueFull"},
	{"full receive queue forgets", "RxQueueFull"},
	{"a receive buffer is forgotten", "ReceiveBuffersRotate"},
	{"every fiftieth lost", "RecvCapacity"},
	{"capacity is twice the truth", "RecvCapacity"},
	{"every fiftieth lost", "RecvCapacityBursts"},
	{"capacity is twice the truth", "RecvCapacityBursts"},
	{"flood repeats datagrams", "Overflow"},
	{"oversize cut to the MTU", "Oversize"},
	{"length cut to the buffer", "Truncation"},
	{"buffer number wraps", "BuffersOutsideArena"},
	{"empty name taken", "MalformedNames"},
	{"malformed is another error", "MalformedNames"},
	{"remove undoes all inserts", "InsertIsCounted"},
	{"removed for ever", "RemoveAndInsertAgain"},
	{"source never known", "Source"},
	{"source before insert", "Source"},
	{"everybody is the first sender", "SourceNames"},
	{"source overwrites", "SourceNames"},
	{"region offset ignored", "Gather"},
	{"region bounds clipped", "GatherBounds"},
	{"runs gather from one place", "GatherLengths"},
	{"nothing lands", "Landing"},
	{"lands a byte too late", "Landing"},
	{"lands outside", "Landing"},
	{"landings overlap", "Landing"},
	{"only the first landing counts", "LandingsChange"},
	{"refuses landings", "LandingsChange"},
	{"wait returns at once", "WaitTimesOut"},
	{"wait sees no datagram", "WaitSeesDatagram"},
	{"wait sees no datagram", "WaitSeesEarlierDatagram"},
	{"wait sees no send completion", "WaitSeesSendCompletion"},
	{"wake does nothing", "WakeEndsWait"},
	{"wake does nothing", "WakeBeforeWait"},
	{"wait fails when interrupted", "WaitAndSignals"},
	{"closed endpoint is silent", "CloseEndpoint"},
	{"closed domain opens endpoints", "CloseDomain"},
	{"close with posted buffers fails", "CloseWithPostedBuffers"},
	{"fourth endpoint fails", "ReopenEndpoint"},
	{"poll allocates", "NoAllocations"},
	{"every fiftieth lost", "RandomTraffic"},
	{"everything twice", "RandomTraffic"},
	{"every fiftieth lost", "ConcurrentDomains"},
}

// TestSuiteFindsFaults runs the suite against each broken provider, in separate processes. A suite
// that passes a broken provider has lost a check.
func TestSuiteFindsFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each fault")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Run(f.name+"/"+f.subtest, func(t *testing.T) {
			pattern := "^TestBrokenProvider$"
			if f.subtest != "" {
				pattern += "/^" + f.subtest + "$"
			}
			cmd := exec.Command(self, "-test.run="+pattern, "-test.timeout=60s")
			cmd.Env = append(os.Environ(), faultVariable+"="+f.name, "FABRICTEST_CHILD=1")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			switch {
			case f.name == "" && err != nil:
				t.Fatalf("a provider without fault fails: %v\n%s", err, out)
			case f.name == "":
			case !errors.As(err, &exit):
				t.Fatalf("%s passes (%v):\n%s", f.subtest, err, out)
			case !strings.Contains(string(out), "--- FAIL: TestBrokenProvider/"+f.subtest+" "):
				t.Fatalf("the process failed, but not in %s:\n%s", f.subtest, out)
			default:
				t.Logf("%s", firstLine(string(out)))
			}
		})
	}
}

// firstLine returns the line that describes the failure.
func firstLine(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, ".go:") && !strings.Contains(line, ": seed ") {
			return strings.TrimSpace(line)
		}
	}
	return out
}

// TestBrokenProvider is the child process of TestSuiteFindsFaults.
func TestBrokenProvider(t *testing.T) {
	if os.Getenv("FABRICTEST_CHILD") == "" {
		t.Skip("run by TestSuiteFindsFaults")
	}
	fault := os.Getenv(faultVariable)
	nw := mem.New(mem.Config{QueueDatagrams: 200})
	fabrictest.Run(t, fabrictest.Fixture{
		Name:     "fault " + fault,
		Patience: 300 * time.Millisecond,
		Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
			d, err := nw.Open(cfg)
			if err != nil {
				tb.Fatal(err)
			}
			return &brokenDomain{Domain: d, waiter: d.(fabric.Waiter), fault: fault}
		},
	})
}

// brokenDomain is a mem domain with one fault.
type brokenDomain struct {
	fabric.Domain
	waiter  fabric.Waiter
	fault   string
	opened  int
	addrs   []fabric.Addr
	counts  map[fabric.Addr]int
	removed map[string]bool
	names   map[fabric.Addr]string
	ends    []*brokenEndpoint
}

func (d *brokenDomain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	d.opened++
	if d.fault == "fourth endpoint fails" && d.opened == 4 {
		return nil, errors.New("fourth")
	}
	e, err := d.Domain.OpenEndpoint(cfg)
	if err != nil {
		if d.fault == "closed domain opens endpoints" {
			return d.ends[0], nil
		}
		return nil, err
	}
	b := &brokenEndpoint{Endpoint: e, d: d}
	d.ends = append(d.ends, b)
	return b, nil
}

func (d *brokenDomain) Insert(name []byte) (fabric.Addr, error) {
	if d.removed[string(name)] {
		return d.addrs[0] + 1<<20, nil
	}
	a, err := d.Domain.Insert(name)
	switch {
	case err == nil:
	case d.fault == "empty name taken" && len(name) == 0:
		return 0, nil
	case d.fault == "malformed is another error":
		return a, errors.New("malformed")
	default:
		return a, err
	}
	if d.counts == nil {
		d.counts, d.names = map[fabric.Addr]int{}, map[fabric.Addr]string{}
	}
	d.counts[a]++
	d.names[a] = string(name)
	if !slices.Contains(d.addrs, a) {
		d.addrs = append(d.addrs, a)
	}
	return a, nil
}

func (d *brokenDomain) Remove(a fabric.Addr) error {
	err := d.Domain.Remove(a)
	if d.fault == "remove undoes all inserts" {
		for d.counts[a]--; d.counts[a] > 0; d.counts[a]-- {
			d.Domain.Remove(a)
		}
	}
	if d.fault == "removed for ever" {
		d.removed = map[string]bool{d.names[a]: true}
	}
	return err
}

func (d *brokenDomain) Wait(timeout time.Duration) error {
	switch d.fault {
	case "wait returns at once":
		return nil
	case "wait sees no send completion":
		for _, e := range d.ends {
			if e.waiting > 0 {
				select {}
			}
		}
	case "wait sees no datagram":
		select {}
	case "wait fails when interrupted":
		return syscall.EINTR
	}
	return d.waiter.Wait(timeout)
}

func (d *brokenDomain) Wake() {
	if d.fault != "wake does nothing" {
		d.waiter.Wake()
	}
}

// brokenEndpoint is a mem endpoint with its domain's fault.
type brokenEndpoint struct {
	first []byte // source of a datagram
	fabric.Endpoint
	d       *brokenDomain
	one     [1]fabric.Send
	oneBuf  [1]fabric.Buf
	late    []fabric.Send
	extra   []fabric.Completion
	posts   int
	recvs   int
	waiting int
	posted  int         // receive buffers
	inPost  int         // index of a send in its batch
	before  fabric.Send // the previous send in the batch
	longest uint32      // datagram received
	lost    [1]fabric.Completion
	landing []byte
	swallow map[fabric.Buf]int // completions of sends that the caller did not make
	closed  bool
}

// AppendSource implements fabric.Sourcer.
func (e *brokenEndpoint) AppendSource(dst []byte, c *fabric.Completion) []byte {
	source := e.Endpoint.(fabric.Sourcer).AppendSource(nil, c)
	switch e.d.fault {
	case "everybody is the first sender":
		if e.first == nil {
			e.first = source
		}
		source = e.first
	case "source overwrites":
		return append(dst[:0], source...)
	}
	return append(dst, source...)
}

func (e *brokenEndpoint) Caps() fabric.Caps {
	c := e.Endpoint.Caps()
	switch e.d.fault {
	case "capacity is twice the truth":
		c.RecvCapacity *= 2
	case "capacity and MTU of zero":
		c.RecvCapacity, c.InjectBytes = 0, c.MTUBytes+1
	}
	return c
}

func (e *brokenEndpoint) Name() []byte {
	if e.d.fault == "one name for all endpoints" {
		return []byte("mem:\x00\x00\x00\x01")
	}
	return e.Endpoint.Name()
}

func (e *brokenEndpoint) Post(sends []fabric.Send) (int, error) {
	for i := range sends {
		if e.one[0], e.inPost = sends[i], i; i > 0 {
			e.before = sends[i-1]
		}
		s := &e.one[0]
		ok, err := e.bend(s)
		if ok {
			_, err = e.Endpoint.Post(e.one[:])
		}
		switch {
		case err == nil:
		case e.d.fault == "bad send skipped in silence" && !errors.Is(err, fabric.ErrAgain):
		case e.d.fault == "full send queue loses" && errors.Is(err, fabric.ErrAgain):
		default:
			return i, err
		}
		if int(s.Len) > 1024 {
			e.waiting++
		}
	}
	return len(sends), nil
}

// bend applies faults of sending. If ok is false, the send is not made.
func (e *brokenEndpoint) bend(s *fabric.Send) (ok bool, err error) {
	e.posts++
	injected := int(s.Len+s.RegionLen) <= e.Endpoint.Caps().InjectBytes
	arena := e.d.Arena()
	follows := e.inPost > 0 && s.To == e.before.To
	switch e.d.fault {
	case "zero-length lost":
		return s.Len > 0, nil
	case "short last of a run lost":
		return !follows || s.Len >= e.before.Len, nil
	case "batches end at the 64th":
		return e.inPost < 64, nil
	case "runs go to the first peer":
		if e.inPost > 0 && s.Len == e.before.Len {
			s.To = e.before.To
		}
	case "runs gather from one place":
		if follows && s.Region != 0 && s.Region == e.before.Region {
			s.RegionOff = e.before.RegionOff
		}
	case "everything twice":
		e.repeat(*s, injected)
	case "flood repeats datagrams":
		if e.posts%100 == 99 {
			e.repeat(*s, injected)
		}
	case "everything to the first peer":
		s.To = e.d.addrs[0]
	case "every fiftieth lost":
		if e.posts%50 != 0 {
			break
		}
		if !injected {
			e.extra = append(e.extra, sent(s.Buf))
		}
		return false, nil
	case "buffer read at the next poll":
		if injected {
			e.late = append(e.late, *s)
			return false, nil
		}
	case "injected sends complete":
		if injected {
			e.extra = append(e.extra, sent(s.Buf))
		}
	case "oversize cut to the MTU":
		s.Len = min(s.Len, uint32(e.Endpoint.Caps().MTUBytes))
	case "buffer number wraps":
		s.Buf %= fabric.Buf(arena.Len())
	case "region offset ignored":
		s.RegionOff = 0
	case "region bounds clipped":
		if s.RegionOff == 0 {
			s.RegionLen = min(s.RegionLen, 256)
		}
	}
	return true, nil
}

// repeat sends a datagram that the caller will send again, without a completion for the caller.
func (e *brokenEndpoint) repeat(s fabric.Send, injected bool) {
	n, _ := e.Endpoint.Post([]fabric.Send{s})
	if n == 1 && !injected {
		if e.swallow == nil {
			e.swallow = map[fabric.Buf]int{}
		}
		e.swallow[s.Buf]++
	}
}

func sent(b fabric.Buf) fabric.Completion {
	return fabric.Completion{From: fabric.AddrUnknown, Buf: b, Op: fabric.OpSend}
}

func (e *brokenEndpoint) Poll(out []fabric.Completion) (int, error) {
	if e.late != nil {
		e.Endpoint.Post(e.late)
		e.late = nil
	}
	if e.closed && e.d.fault == "closed endpoint is silent" {
		return 0, nil
	}
	if e.d.fault == "poll for one finds nothing" && len(out) == 1 {
		return 0, nil
	}
	if e.d.fault == "poll allocates" {
		garbage = make([]byte, 16)
	}
	if e.d.fault == "poll invents completions" && len(out) > 0 {
		out[0] = fabric.Completion{From: fabric.AddrUnknown, Op: fabric.OpRecv}
		return 1, nil
	}
	n, err := e.Endpoint.Poll(out)
	n = e.bendCompletions(out, n)
	if len(e.extra) > 0 && n < len(out) {
		out[n] = e.extra[0]
		e.extra = e.extra[1:]
		n++
	}
	return n, err
}

var garbage []byte

// bendCompletions applies faults of polling to out[:n].
func (e *brokenEndpoint) bendCompletions(out []fabric.Completion, n int) int {
	arena := e.d.Arena()
	kept := out[:0]
	for _, c := range out[:n] {
		send := c.Op == fabric.OpSend
		if send && e.swallow[c.Buf] > 0 {
			e.swallow[c.Buf]--
			continue
		}
		if send {
			e.waiting--
		} else {
			e.posted--
		}
		switch e.d.fault {
		case "runs come from nobody":
			if !send && len(kept) > 0 {
				c.From = fabric.AddrUnknown
			}
		case "lands outside":
			if c.Landed > 0 {
				before := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&e.landing[0]), -1)), 1)
				before[0]++
			}
		case "landings overlap":
			c.LandedOff = 0
		case "length never shrinks":
			if !send {
				c.Len, e.longest = max(c.Len, e.longest), max(c.Len, e.longest)
			}
		case "last byte altered":
			if !send && c.Len > 0 {
				arena.Bytes(c.Buf)[c.Len-1] ^= 1
			}
		case "sends complete never":
			if send {
				continue
			}
		case "sends complete twice":
			if send {
				e.extra = append(e.extra, c)
			}
		case "length cut to the buffer":
			c.Len = min(c.Len, uint32(arena.Size()))
		case "source never known":
			c.From = fabric.AddrUnknown
		case "source before insert":
			if !send {
				c.From = 1
			}
		}
		kept = append(kept, c)
	}
	if e.d.fault == "batches reversed" {
		slices.Reverse(kept)
	}
	return len(kept)
}

func (e *brokenEndpoint) Recv(bufs []fabric.Buf) (int, error) {
	for i, b := range bufs {
		e.recvs++
		if e.d.fault == "a receive buffer is forgotten" && e.recvs%37 == 0 {
			continue
		}
		if e.d.fault == "buffer number wraps" {
			arena := e.d.Arena()
			b %= fabric.Buf(arena.Len())
		}
		e.oneBuf[0] = b
		_, err := e.Endpoint.Recv(e.oneBuf[:])
		if e.d.fault == "what waits for a buffer is lost" && e.posted == 0 && err == nil {
			if n, _ := e.Endpoint.Poll(e.lost[:]); n == 1 {
				_, err = e.Endpoint.Recv(e.oneBuf[:])
			}
		}
		e.posted++
		if err != nil && e.d.fault != "full receive queue forgets" {
			return i, err
		}
	}
	return len(bufs), nil
}

func (e *brokenEndpoint) Land(mem []byte, headBytes int) bool {
	switch e.d.fault {
	case "nothing lands":
		return true
	case "lands a byte too late":
		headBytes++
	case "refuses landings":
		return false
	case "only the first landing counts":
		if e.landing != nil {
			return true
		}
	}
	e.landing = mem
	return e.Endpoint.(fabric.Lander).Land(mem, headBytes)
}

func (e *brokenEndpoint) Close() error {
	e.closed = true
	err := e.Endpoint.Close()
	if e.d.fault == "close with posted buffers fails" && e.recvs > 0 {
		return errors.New("busy")
	}
	return err
}
