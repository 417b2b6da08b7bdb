//go:build unix

package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// long is a run that a test ends before its time.
var long = []string{"--test", "lat", "--size", "8", "--duration", "60s", "--rounds", "60"}

// oneRound is a run that is in its one round whenever a test ends it.
var oneRound = []string{"--test", "lat", "--size", "8", "--duration", "60s", "--rounds", "1"}

// margin is what a loaded machine may add to the time in which something must happen.
const margin = time.Minute

func TestPairReport(t *testing.T) {
	needUDP(t)
	p := start(t, "pair", "--test", "lat,bw", "--size", "8,4K", "--layer", "both", "--mtu", "1500",
		"--duration", "100ms", "--format", "json")
	if status := p.wait(2 * time.Minute); status != 0 || p.stderr.String() != "" {
		t.Fatalf("status %d, %q", status, p.stderr.String())
	}
	runs := p.report().Runs
	if len(runs) != 7 { // lat of 4K does not fit a bare datagram.
		t.Fatalf("%d runs", len(runs))
	}
	for _, r := range runs {
		if r.Iterations == 0 || r.Bandwidth == 0 || (r.Latency != nil) != (r.Test == "lat") {
			t.Errorf("%+v", r)
		}
		if r.CPUPercent.Client <= 0 || r.CPUPercent.Server <= 0 {
			t.Errorf("%s %s: CPU %+v", r.Test, r.Layer, r.CPUPercent)
		}
		for name, s := range map[string]*state{"client": &r.AtEnd.Client, "server": &r.AtEnd.Server} {
			if (s.Path != nil) != (r.Layer == "btl") || s.Path != nil && s.Path.WindowPackets == 0 ||
				len(s.Fabric) == 0 {
				t.Errorf("%s %s: the %s knows %+v at the end", r.Test, r.Layer, name, s)
			}
		}
		if p := r.AtEnd.Client.Path; r.Test == "lat" && p != nil &&
			(p.RoundTripUs < p.LeastUs || p.LeastUs <= 0 || p.LeastUs > r.Latency.Max*2) {
			t.Errorf("half round trips %+v, the path's %+v", r.Latency, p)
		}
	}
}

func TestPairImpairedVerified(t *testing.T) {
	needUDP(t)
	for _, sizes := range []string{"8,64K", "20M"} {
		p := start(t, "pair", "--test", "lat,bw,put_bw", "--size", sizes, "--verify", "--iterations", "6",
			"--rounds", "1", "--warmup", "0", "--impair", "loss=1%,dup=1%,reorder=5%,seed=7",
			"--format", "json")
		if status := p.wait(2 * time.Minute); status != 0 {
			t.Fatalf("status %d, %q", status, p.stderr.String())
		}
		for _, r := range p.report().Runs {
			if r.CorruptBytes != 0 || r.MissingMessages != 0 || r.DuplicatedMessages != 0 ||
				r.VerifiedBytes < 6*int64(r.SizeBytes) {
				t.Errorf("%+v", r)
			}
		}
	}
}

// TestServerKilled kills the server in the middle of a run.
func TestServerKilled(t *testing.T) {
	needUDP(t)
	for _, layer := range []string{"btl", "raw", "both"} {
		server, addr := startServe(t)
		args := append([]string{"run", addr, "--layer", layer, "--peer-timeout", "2s"}, oneRound...)
		client := start(t, args...)
		busy(t, server.cmd.Process.Pid)
		server.signal(syscall.SIGKILL)
		if status := client.wait(2*time.Second + margin); status != 1 {
			t.Errorf("%s: status %d", layer, status)
		}
		if line := client.oneLine(); !strings.Contains(line, "peer died") ||
			!strings.Contains(line, "in the middle of lat 8") {
			t.Errorf("%s: %s", layer, line)
		}
	}
}

// TestServerStopped stops the server, so that only the transport can notice.
func TestServerStopped(t *testing.T) {
	needUDP(t)
	for _, test := range []string{"lat", "bw", "put_lat", "put_bw", "bibw", "rate", "lat_load"} {
		server, addr := startServe(t)
		client := start(t, "run", addr, "--peer-timeout", "1s", "--test", test, "--size", "8",
			"--duration", "60s")
		busy(t, server.cmd.Process.Pid)
		server.signal(syscall.SIGSTOP)
		if status := client.wait(time.Second + margin); status != 1 {
			t.Errorf("%s: status %d", test, status)
		}
		if line := client.oneLine(); !strings.Contains(line, "peer does not answer") {
			t.Errorf("%s: %s", test, line)
		}
		server.signal(syscall.SIGCONT)
	}
}

// TestClientKilled kills a client in the middle of its run: the server says so, and serves the
// next.
func TestClientKilled(t *testing.T) {
	needUDP(t)
	server, addr := startServe(t)
	client := start(t, append([]string{"run", addr}, long...)...)
	busy(t, server.cmd.Process.Pid)
	client.signal(syscall.SIGKILL)
	client.wait(margin)
	eventually(t, "the server notices", func() bool {
		return strings.Contains(server.stderr.String(), "peer died")
	})
	next := start(t, "run", addr, "--test", "lat", "--size", "8", "--iterations", "100")
	if status := next.wait(margin); status != 0 {
		t.Errorf("the next client: status %d, %s", status, next.stderr.String())
	}
	server.signal(syscall.SIGTERM)
	if status := server.wait(margin); status != 128+int(syscall.SIGTERM) {
		t.Errorf("server: status %d", status)
	}
	if strings.Contains(server.stderr.String(), "goroutine ") {
		t.Error(server.stderr.String())
	}
}

// TestClientStopped stops a client: only the transport can notice, in time.
func TestClientStopped(t *testing.T) {
	needUDP(t)
	server, addr := startServe(t, "--once")
	client := start(t, append([]string{"run", addr, "--peer-timeout", "1s"}, oneRound...)...)
	busy(t, server.cmd.Process.Pid)
	client.signal(syscall.SIGSTOP)
	if status := server.wait(time.Second + margin); status != 1 {
		t.Errorf("status %d", status)
	}
	if text := server.stderr.String(); !strings.Contains(text, "peer does not answer") {
		t.Error(text)
	}
}

// children lists the processes that a process has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // The thread may be gone.
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// child waits until a pair has its server, in the middle of a run, and returns it. The Go runtime
// forks for purposes of its own too, so the server is known by its arguments.
func child(t *testing.T, p *process) (pid int) {
	t.Helper()
	eventually(t, "the pair has a server", func() bool {
		for _, candidate := range children(t, p.cmd.Process.Pid) {
			args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", candidate)) // It may be gone.
			if strings.Contains(string(args), "\x00serve\x00") {
				pid = candidate
			}
		}
		return pid != 0
	})
	busy(t, pid)
	return pid
}

// gone says whether a process has ended; a zombie has.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// TestNoOrphan kills the parent of a pair in ways that it can and cannot notice.
func TestNoOrphan(t *testing.T) {
	needUDP(t)
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, append([]string{"pair"}, long...)...)
		pid := child(t, p)
		p.signal(sig)
		p.wait(margin)
		eventually(t, fmt.Sprintf("the server ends after %v", sig), func() bool { return gone(pid) })
	}
}

func TestPairServerKilled(t *testing.T) {
	needUDP(t)
	p := start(t, append([]string{"pair"}, long...)...)
	pid := child(t, p)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := p.wait(margin); status != 1 {
		t.Errorf("status %d", status)
	}
	if line := p.oneLine(); !strings.Contains(line, "peer died") {
		t.Error(line)
	}
}

// TestInterrupted ends a pair early: what was measured is reported.
func TestInterrupted(t *testing.T) {
	needUDP(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for _, test := range []string{"lat", "bw"} {
			p := start(t, "pair", "--test", test, "--size", "8,64", "--duration", "30s", "--rounds", "1",
				"--layer", "both", "--verify", "--format", "json")
			child(t, p)
			p.signal(sig)
			if status := p.wait(margin); status != 128+int(sig) {
				t.Errorf("%s %v: status %d", test, sig, status)
			}
			if line := p.oneLine(); !strings.Contains(line, "interrupted") {
				t.Error(line)
			}
			r := p.report()
			if !r.Interrupted || len(r.Runs) != 1 || r.Runs[0].Iterations == 0 ||
				r.Runs[0].MissingMessages != 0 || r.Runs[0].CorruptBytes != 0 {
				t.Errorf("%s %v: %+v", test, sig, r)
			}
		}
	}
}

// TestServeOnce has a server end after its client, with its client's verdict.
func TestServeOnce(t *testing.T) {
	needUDP(t)
	server, addr := startServe(t, "--once")
	client := start(t, "run", addr, "--test", "lat", "--size", "8", "--iterations", "100")
	if status := client.wait(margin); status != 0 {
		t.Errorf("client: status %d, %s", status, client.stderr.String())
	}
	if status := server.wait(margin); status != 0 {
		t.Errorf("server: status %d, %s", status, server.stderr.String())
	}
}

// answering runs a listener that answers the first line of each client with a text.
func answering(t *testing.T, answer string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// TestForeignServers connects to what is no server of this version.
func TestForeignServers(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{
			`{"type":"hello","hello":{"magic":"gobtl-bench-control","version":99}}` + "\n",
			"use the same btlbench on both sides",
		},
		{`{"type":"hello","hello":{"magic":"other","version":1}}` + "\n", "is it the right port?"},
		{"HTTP/1.1 400 Bad Request\r\n\r\n", "is it the right port?"},
		{"\x00\x01\x02\xff\n", "is it the right port?"},
		{"", "is it the right port?"},
		{`{"type":"error","error":"go away\nplease"}` + "\n", "peer: go away please"},
	} {
		p := start(t, "run", answering(t, c.answer), "--test", "lat", "--size", "8")
		if status := p.wait(margin); status != 1 {
			t.Errorf("%q: status %d", c.answer, status)
		}
		if line := p.oneLine(); !strings.Contains(line, c.want) {
			t.Errorf("%q: %s", c.answer, line)
		}
	}
}

// TestUnreachable connects to a port whose queue of connections is full: nothing answers, and
// nothing refuses either.
func TestUnreachable(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			break
		}
		defer conn.Close()
	}
	p := start(t, "run", addr, "--timeout", "300ms")
	if status := p.wait(margin); status != 1 {
		t.Errorf("status %d", status)
	}
	if line := p.oneLine(); !strings.Contains(line, "cannot reach "+addr) {
		t.Error(line)
	}
}

// TestForeignClients talks to a server as a client of another version, and as none at all.
func TestForeignClients(t *testing.T) {
	server, addr := startServe(t, "--timeout", "500ms")
	for _, c := range []struct{ line, want string }{
		{
			`{"type":"hello","hello":{"magic":"gobtl-bench-control","version":99}}` + "\n",
			"version mismatch",
		},
		{"hello\n", "control protocol violated"},
		{"", "no answer"},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, c.line); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(margin)); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		var answer struct{ Type, Error string }
		if jerr := json.Unmarshal(text, &answer); err != nil || jerr != nil ||
			!strings.Contains(answer.Error, c.want) {
			t.Errorf("%q was answered by %q, %v, %v", c.line, text, err, jerr)
		}
		conn.Close()
	}
	eventually(t, "the server says so", func() bool {
		return strings.Count(server.stderr.String(), "refused") == 3
	})
}

// scrape reads the sums of some metrics over their labels.
func scrape(t *testing.T, url string) map[string]float64 {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	sums := make(map[string]float64)
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || !strings.HasPrefix(name, "gobtl_") {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		name, _, _ = strings.Cut(name, "{")
		sums[name] += v
	}
	return sums
}

var metricsURL = regexp.MustCompile(`http://\S+/metrics`)

// TestMetrics scrapes both sides of a pair during a run with losses, and the server of a run after
// it, when what it shows must be what the report counts.
func TestMetrics(t *testing.T) {
	needUDP(t)
	p := start(t, append([]string{"pair", "--metrics", "127.0.0.1:0", "--impair", "loss=1%,seed=5"},
		long...)...)
	child(t, p)
	var urls []string
	eventually(t, "the addresses are told", func() bool {
		urls = metricsURL.FindAllString(p.stderr.String(), -1)
		return len(urls) == 2
	})
	for _, url := range urls {
		before := scrape(t, url)["gobtl_retransmits_total"]
		eventually(t, "the counter moves", func() bool {
			return scrape(t, url)["gobtl_retransmits_total"] > before
		})
	}
	p.signal(syscall.SIGINT)
	p.wait(margin)

	server, addr := startServe(t, "--metrics", "127.0.0.1:0")
	client := start(t, "run", addr, "--test", "lat", "--size", "8", "--duration", "1s",
		"--rounds", "1", "--warmup", "0", "--impair", "loss=1%,seed=5", "--format", "json")
	if status := client.wait(30 * time.Second); status != 0 {
		t.Fatalf("status %d, %s", status, client.stderr.String())
	}
	var counted float64
	for name, n := range client.report().Runs[0].Counters.Server {
		if strings.HasPrefix(name, "gobtl_retransmits_total") {
			counted += float64(n)
		}
	}
	// The end of a connection is outside of any round; a few packets of it may be sent again too.
	shown := scrape(t, metricsURL.FindString(server.stderr.String()))["gobtl_retransmits_total"]
	if counted == 0 || shown < counted || shown > counted+5 {
		t.Errorf("the scrape shows %v retransmissions, the report %v", shown, counted)
	}
}
