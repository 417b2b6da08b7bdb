//go:build linux

package recovery

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/btl"
	"gobtl/test/netns"
)

// patience is how long a test waits for what takes well below a second on a machine that is not
// busy.
const patience = 20 * time.Second

// crowd is a server and the processes that send to it, each on a host of its own.
type crowd struct {
	t      *testing.T
	server *child
	name   string
	to     netns.Port
	from   []netns.Port
}

func newCrowd(t *testing.T, senders int, set ...string) *crowd {
	lab := netns.New(t)
	router := lab.Host("router")
	router.Sysctl("net/ipv4/ip_forward", "1")
	c := &crowd{t: t}
	var exit netns.Port
	c.to, exit = lab.Cable(lab.Host("receiver"), router, mtuBytes)
	c.to.Host.IP("route add default via " + exit.V4.String())
	for range senders {
		from, side := lab.Cable(lab.Host("sender"), router, mtuBytes)
		from.Host.IP("route add default via " + side.V4.String())
		c.from = append(c.from, from)
	}
	c.server = c.start(c.to, Spec{Kind: "btl", Role: "serve", Set: set})
	c.name = c.hear(c.server, "name").Name
	return c
}

func (c *crowd) start(at netns.Port, sp Spec) *child {
	c.t.Helper()
	sp.Node = at.V4.String()
	p, err := start(at, sp)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(p.kill)
	return p
}

func (c *crowd) hear(p *child, event string) message {
	c.t.Helper()
	m, err := p.hear(event, patience)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *crowd) goes(p *child) {
	c.t.Helper()
	if err := p.tell("go"); err != nil {
		c.t.Fatal(err)
	}
}

// sender starts a process that sends so many bytes and is connected.
func (c *crowd) sender(i int, sizeBytes int64) *child {
	c.t.Helper()
	p := c.start(c.from[i], Spec{
		Kind: "btl", Role: "stream", Peer: c.name, Tag: i, SizeBytes: incastBytes, Outstanding: 64,
		LimitBytes: sizeBytes, Each: patience, Set: []string{"peer_timeout=10s"},
	})
	c.hear(p, "ready")
	return p
}

// await waits until a process has sent so many bytes to its network.
func (c *crowd) await(p *child, sizeBytes uint64) {
	c.t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		devices, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", p.cmd.Process.Pid))
		if err != nil {
			c.t.Fatal(err)
		}
		for line := range strings.Lines(string(devices)) {
			const sentBytes = 9
			fields := strings.Fields(line)
			if fields[0] != "eth0:" {
				continue
			}
			if n, err := strconv.ParseUint(fields[sentBytes], 10, 64); err != nil {
				c.t.Fatal(err)
			} else if n > sizeBytes {
				return
			}
		}
		if time.Since(begin) > patience {
			c.t.Fatalf("%s sends nothing:\n%s", p.what, devices)
		}
	}
}

// report ends the server, and returns what it has got of each sender, and its counters.
func (c *crowd) report() (got []int64, counters map[string]uint64) {
	c.t.Helper()
	if err := c.server.in.Close(); err != nil {
		c.t.Fatal(err)
	}
	r := c.hear(c.server, "report")
	return r.Ticks[len(r.Ticks)-1].Bytes, r.Counters
}

// TestSenderKilled kills one of several senders in the middle of its transfer: the others finish
// theirs, the receiver finds out in time, and the same host can begin anew.
func TestSenderKilled(t *testing.T) {
	const senders, sizeBytes = 4, int64(16 << 20)
	c := newCrowd(t, senders, "keep_alive=100ms", "peer_timeout=1s")
	all := make([]*child, senders)
	for i := range all {
		size := sizeBytes
		if i == 0 {
			size = 1 << 40 // it is never done
		}
		all[i] = c.sender(i, size)
	}
	for _, p := range all {
		c.goes(p)
	}
	c.await(all[0], 1<<20)
	all[0].kill()
	for _, p := range all[1:] {
		if r := c.hear(p, "report"); r.Bytes != sizeBytes {
			t.Errorf("%s: %d bytes of %d acknowledged", p.what, r.Bytes, sizeBytes)
		}
	}
	time.Sleep(1500 * time.Millisecond)
	again := c.sender(0, sizeBytes)
	c.goes(again)
	if r := c.hear(again, "report"); r.Bytes != sizeBytes {
		t.Errorf("after the kill: %d bytes of %d acknowledged", r.Bytes, sizeBytes)
	}
	got, counters := c.report()
	for i, n := range got {
		if want := sizeBytes; i > 0 && n != want || i == 0 && n < want {
			t.Errorf("of sender %d arrived %d bytes, not %d", i, n, want)
		}
	}
	if n := counters[btl.CntPeersFailed.String()]; n != 1 {
		t.Errorf("%d peers failed: %v", n, counters)
	}
}

// TestSenderStopped has one of several senders get no processor for a while, and finds all its
// timers expired: it goes on where it was, nobody takes anybody for dead, and next to nothing is
// sent again.
func TestSenderStopped(t *testing.T) {
	const senders, sizeBytes = 4, int64(32 << 20)
	c := newCrowd(t, senders)
	all := make([]*child, senders)
	for i := range all {
		all[i] = c.sender(i, sizeBytes)
	}
	for _, p := range all {
		c.goes(p)
	}
	c.await(all[0], 1<<20)
	stopped := all[0].cmd.Process.Pid
	if err := unix.Kill(stopped, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(pauseTime)
	if err := unix.Kill(stopped, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		r := c.hear(p, "report")
		if r.Bytes != sizeBytes {
			t.Errorf("%s: %d bytes of %d acknowledged", p.what, r.Bytes, sizeBytes)
		}
		// What the receiver's socket drops while it gets no processor is none of a timer's doing.
		sent, lost := r.Counters["sent"], r.Counters[`gobtl_retransmits_total{cause="lost"}`]
		if again := r.Counters["resent"] - lost; again > sent/100 || lost > sent/10 {
			t.Errorf("%s: %d packets of %d were sent again, and %d as lost: %v", p.what, again, sent,
				lost, r.Counters)
		}
	}
	got, _ := c.report()
	for i, n := range got {
		if n != sizeBytes {
			t.Errorf("of sender %d arrived %d bytes, not %d", i, n, sizeBytes)
		}
	}
}
