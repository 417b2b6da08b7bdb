//go:build linux

package vnic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/test/netns"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	testenv.HearSignals()
	dir, err := os.MkdirTemp("", "btlvnic")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // a test runs it as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "btlvnic")
	out, err := exec.Command("go", "build", "-o", binary, "gobtl/cmd/btlvnic").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building btlvnic: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// lab is three hosts a, b and c on one Ethernet, and the manager's host m.
type lab struct {
	t     *testing.T
	net   *netns.Lab
	hosts map[string]*netns.Host
	dir   string
	lease string // in the manager's file
	em    string // address of the manager's host
	// prefix is what the manager and the agents are started by: nothing, or "taskset -c 0".
	prefix []string
	procs  map[string]*process
}

// names are the hosts, in the order of their LIDs and addresses: 10.77.0.1 to .3; the manager has
// .4.
var names = []string{"a", "b", "c", "m"}

func newLab(t *testing.T, mtu int) *lab {
	t.Helper()
	l := &lab{
		t: t, net: netns.New(t), hosts: make(map[string]*netns.Host), dir: t.TempDir(), lease: "2s",
		em: "10.77.0.4", procs: make(map[string]*process),
	}
	l.net.Need("ping", "iputils-ping")
	l.net.Need("arping", "arping")
	l.net.Need("iperf3", "iperf3")
	wire := l.net.Host("wire")
	l.hosts["wire"] = wire
	wire.IP("link add br0 type bridge", "link set br0 up")
	for i, name := range names {
		h := l.net.Host(name)
		l.hosts[name] = h
		p, far := l.net.Cable(h, wire, mtu)
		wire.IP("link set " + far.Dev + " master br0")
		h.IP(fmt.Sprintf("addr flush dev %s", p.Dev), fmt.Sprintf("addr add 10.77.0.%d/24 dev %s",
			i+1, p.Dev))
	}
	wire.IP(fmt.Sprintf("link set br0 mtu %d", mtu))
	return l
}

// process is a running btlvnic.
type process struct {
	cmd    *exec.Cmd
	out    stream
	exited chan struct{}
}

// stream is what a process has written so far.
type stream struct {
	lock sync.Mutex
	buf  bytes.Buffer
}

func (s *stream) Write(b []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.buf.Write(b)
}

func (s *stream) String() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.buf.String()
}

// start starts a program on a host under a name. It is killed when the test ends.
func (l *lab) start(name string, cmd *exec.Cmd) *process {
	l.t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // some fork
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the status is in ProcessState
		close(p.exited)
	}()
	l.procs[name] = p
	l.t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its children, too
		<-p.exited
		if l.t.Failed() {
			l.t.Logf("%s wrote:\n%s", name, p.out.String())
		}
	})
	return p
}

// stop ends a process as its user would, and returns its status.
func (l *lab) stop(name string, sig syscall.Signal) int {
	l.t.Helper()
	p := l.procs[name]
	if err := p.cmd.Process.Signal(sig); err != nil {
		l.t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(20 * time.Second):
		l.t.Fatalf("%s does not end:\n%s", name, p.out.String())
	}
	delete(l.procs, name)
	return p.cmd.ProcessState.ExitCode()
}

func (l *lab) file() string { return filepath.Join(l.dir, "em.toml") }

// write writes the manager's file: the three hosts, then what is given.
func (l *lab) write(switches string) {
	l.t.Helper()
	text := fmt.Sprintf("name = \"lab\"\nlease = %q\n", l.lease)
	for i, name := range names[:3] {
		text += fmt.Sprintf("[[host]]\nname = %q\nlid = %d\n", name, i+1)
	}
	part := l.file() + ".new"
	if err := os.WriteFile(part, []byte(text+switches), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(part, l.file()); err != nil { // as an editor does
		l.t.Fatal(err)
	}
}

// blue is a switch with ports on hosts, and further keys.
func blue(keys string, hosts ...string) string {
	return virtual("blue", 1, keys, hosts...)
}

func virtual(name string, id int, keys string, hosts ...string) string {
	text := fmt.Sprintf("[[switch]]\nname = %q\nid = %d\n%s\n", name, id, keys)
	for _, h := range hosts {
		text += fmt.Sprintf("[[switch.port]]\nhost = %q\n", h)
	}
	return text
}

func (l *lab) manager(more ...string) {
	l.t.Helper()
	p := l.start("m", l.command("m", append([]string{
		"em", l.file(), "--node", strings.Trim(l.em, "[]"), "--listen", l.em + ":4790",
		"--socket", l.socket("m"),
	}, more...)...))
	l.eventually("the manager listens", func() bool {
		return strings.Contains(p.out.String(), "listening on")
	})
}

func (l *lab) socket(host string) string { return filepath.Join(l.dir, host+".sock") }

func (l *lab) agentArgs(host string, more ...string) []string {
	return append([]string{
		"agent", "--host", host, "--manager", "lab", "--em", l.em + ":4790", "--node", "eth0",
		"--socket", l.socket(host),
	}, more...)
}

func (l *lab) agent(host string, more ...string) {
	l.t.Helper()
	l.start(host, l.command(host, l.agentArgs(host, more...)...))
}

// command is btlvnic on a host.
func (l *lab) command(host string, args ...string) *exec.Cmd {
	line := slices.Concat(l.prefix, []string{binary}, args)
	return l.hosts[host].Command(line[0], line[1:]...)
}

// up starts manager and agents, and gives the devices of port 1 the addresses 10.88.0.1 to .3.
func (l *lab) up(switches string, agentFlags ...string) {
	l.t.Helper()
	l.write(switches)
	l.manager()
	for _, h := range names[:3] {
		l.agent(h, agentFlags...)
	}
	for i, h := range names[:3] {
		l.settled(h)
		l.hosts[h].IP(fmt.Sprintf("addr add 10.88.0.%d/24 dev vnic1", i+1), "link set vnic1 up")
		l.forwarding(h, 1)
	}
}

// settled waits until a host has what the file gives it.
func (l *lab) settled(host string) {
	l.t.Helper()
	l.eventually("host "+host+" is as the file wants it", func() bool {
		var hosts []struct {
			Name   string
			Synced bool
		}
		l.show("m", "hosts", &hosts)
		for _, h := range hosts {
			if h.Name == host {
				return h.Synced
			}
		}
		return false
	})
}

func (l *lab) forwarding(host string, port int) {
	l.t.Helper()
	l.eventually(fmt.Sprintf("port %d of %s forwards", port, host), func() bool {
		p := l.port(host, port)
		return p != nil && p.State == "forwarding"
	})
}

// portInfo is what these tests read of "show ports".
type portInfo struct {
	Port      int
	Device    string
	Switch    int
	MAC       string
	MTU       int
	WantedMTU int `json:"wanted_mtu"`
	State     string
	Members   int
	Entries   int    `json:"mac_entries"`
	Digest    uint32 `json:"mac_digest"`
	LargeTCP  bool   `json:"large_tcp"`
	Learned   int
	Problems  map[string]string
}

func (l *lab) port(host string, port int) *portInfo {
	l.t.Helper()
	var list []portInfo
	l.show(host, "ports", &list)
	for i := range list {
		if list[i].Port == port {
			return &list[i]
		}
	}
	return nil
}

// show asks a process; one that does not answer yet leaves v as it is.
func (l *lab) show(host, what string, v any) {
	l.t.Helper()
	out, err := exec.Command(binary, "show", what, "--format", "json", "--socket",
		l.socket(host)).Output()
	if err != nil {
		return
	}
	if err := json.Unmarshal(out, v); err != nil {
		l.t.Fatalf("show %s: %v\n%s", what, err, out)
	}
}

// counters are those of port 1 of a host, or of another one.
func (l *lab) counters(host string, port int) map[string]uint64 {
	l.t.Helper()
	var list []struct {
		Port     int
		Counters map[string]uint64
	}
	l.show(host, "counters", &list)
	for _, p := range list {
		if p.Port == port {
			return p.Counters
		}
	}
	l.t.Fatalf("host %s has no counters of port %d", host, port)
	return nil
}

func (l *lab) eventually(what string, condition func() bool) {
	l.t.Helper()
	for start := time.Now(); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			l.t.Fatalf("never: %s", what)
		}
	}
}

// try runs a program on a host.
func (l *lab) try(host, program string, args ...string) (string, error) {
	out, err := l.hosts[host].Command(program, args...).CombinedOutput()
	return string(out), err
}

// ping expects answers to all of some pings.
func (l *lab) ping(host, to string, more ...string) {
	l.t.Helper()
	args := append([]string{"-c", "3", "-i", "0.05", "-W", "5", "-q"}, more...)
	if out, err := l.try(host, "ping", append(args, to)...); err != nil {
		l.t.Fatalf("ping %s from %s: %v\n%s", to, host, err, out)
	}
}

// iperf runs iperf3 from a to b, and returns the bits a second that b received.
func (l *lab) iperf(args ...string) float64 {
	l.t.Helper()
	l.iperfServer()
	out, err := l.hosts["a"].Command("iperf3", append([]string{
		"-c", "10.88.0.2", "-J", "--connect-timeout", "5000",
	}, args...)...).Output()
	return l.received(out, err)
}

// iperfServer starts a server on b for one client. The one before has the port until it has ended,
// which may be after its client has.
func (l *lab) iperfServer() {
	l.t.Helper()
	if before := l.procs["iperf3"]; before != nil {
		select {
		case <-before.exited:
		case <-time.After(20 * time.Second):
			l.t.Fatalf("iperf3's server of the round before does not end:\n%s", before.out.String())
		}
	}
	p := l.start("iperf3", l.hosts["b"].Command("iperf3", "-s", "-1", "--forceflush"))
	l.eventually("iperf3 listens", func() bool {
		return strings.Contains(p.out.String(), "listening")
	})
}

func (l *lab) received(out []byte, err error) float64 {
	l.t.Helper()
	var r struct {
		Error string
		End   struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			Sum struct {
				Bits float64 `json:"bits_per_second"`
				Lost float64 `json:"lost_percent"`
			}
		}
	}
	if jsonErr := json.Unmarshal(out, &r); jsonErr != nil || err != nil || r.Error != "" {
		l.t.Fatalf("iperf3: %v %v %s\n%s", err, jsonErr, r.Error, out)
	}
	return max(r.End.Received.Bits, r.End.Sum.Bits*(1-r.End.Sum.Lost/100))
}
