package wireshark

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// unseen are the fields that a run of btlbench cannot show: nothing is refused there, nobody has a
// label, no path becomes narrower, and its addresses are of IPv4. The vectors and the listing have
// them.
var unseen = []string{
	"gobtl.nack.reason", "gobtl.nack.record_tag", "gobtl.reject.reason", "gobtl.reject.version_min",
	"gobtl.reject.version_max", "gobtl.hello.command_addr6", "gobtl.hello.data_addr6",
	"gobtl.hello.away_ms", "gobtl.bye.code",
	"gobtl.reject.code", "gobtl.reject.nonce", "gobtl.hello.label", "gobtl.hello.extension",
	"gobtl.hello.extension.type", "gobtl.hello.extension.critical",
	"gobtl.hello.extension.length", "gobtl.hello.extension.value", "gobtl.retry.seen_addr6",
	"gobtl.part.offset", "gobtl.part.total", "gobtl.part.slice",
	"gobtl.record.frag_id", "gobtl.record.size", "gobtl.record.offset", "gobtl.record.first",
	"gobtl.record.chunk",
	// btlbench asks for none of these
	"gobtl.op", "gobtl.op.code", "gobtl.op.notice_bytes", "gobtl.op.reserved",
	"gobtl.record.op", "gobtl.record.op_code", "gobtl.record.place", "gobtl.record.op_reserved",
	"gobtl.nack.place", "gobtl.nack.why",
}

// TestCapture: every packet of a real run, with loss, duplication and reordering, is dissected as
// package frag reads it.
func TestCapture(t *testing.T) {
	file := captureRun(t, "ofi/udp", []string{
		"--test", "lat,put_bw", "--size", "8,4K", "--impair", "loss=5%,dup=3%,reorder=5%,seed=7",
		"--profile", "adaptive",
	}, []string{
		"--test", "bw", "--size", "0,700,16K", "--impair", "loss=2%,seed=3", "--profile", "usnic",
	})
	// A random port may be one that another dissector has registered.
	first := []string{"-o", "udp.try_heuristic_first:TRUE"}
	packets, seen := checkFields(t, file, "!(udp.payload contains \""+sentinel+"\")", first...)
	kinds := map[string]int{}
	for _, p := range packets {
		kinds[fmt.Sprintf("%v put=%v bye=%v", p.Kind, p.put(), p.mark())]++
	}
	t.Logf("%d packets: %v", len(packets), kinds)
	for _, f := range onWire {
		if seen[f.name] == 0 && !slices.Contains(unseen, f.name) {
			t.Errorf("no packet has %s", f.name)
		}
	}
	checkConcluded(t, file, packets, first)
}

// TestCaptureJoined: with segmentation offload the loopback interface shows many packets as one
// datagram; each is dissected.
func TestCaptureJoined(t *testing.T) {
	file := captureRun(t, "udp", []string{"--test", "bw", "--size", "8,16K", "--mtu", "1500"})
	first := []string{"-o", "udp.try_heuristic_first:TRUE"}
	packets, seen := checkFields(t, file, "!(udp.payload contains \""+sentinel+"\")", first...)
	frames := rows(t, file, []string{"gobtl.joined"}, append(first, "-Y", "gobtl")...)
	joined := 0
	for _, row := range frames {
		if row[0] != "" {
			joined++
		}
	}
	t.Logf("%d packets in %d frames, %d of them of several", len(packets), len(frames), joined)
	if joined == 0 {
		t.Log("this kernel cuts datagrams itself: nothing is joined")
	} else if len(packets) == len(frames) {
		t.Error("frames are marked as joined, and none is")
	}
	for _, name := range []string{"gobtl.record.payload", "gobtl.chunk.offset"} {
		if seen[name] == 0 {
			t.Errorf("no packet has %s", name)
		}
	}
}

// sentinel ends the capture: when it is in the file, so is everything before.
const sentinel = "end of the capture"

// captureRun captures runs of btlbench on the loopback interface, on an address of their own.
func captureRun(t *testing.T, provider string, runs ...[]string) string {
	bench := buildBench(t)
	pid := os.Getpid()
	host := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, 1+pid%250)
	file := filepath.Join(t.TempDir(), "run.pcapng")
	stop := startCapture(t, host, file)
	for _, args := range runs {
		cmd := exec.CommandContext(t.Context(), bench, append([]string{
			"pair", "--provider", provider, "--node", host, "--iterations", "40", "--warmup", "2",
			"--rounds", "1", "--window", "8", "--format", "json",
		}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("btlbench %q: %v\n%s", args, err, out)
		}
	}
	conn, err := net.Dial("udp", host+":9")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(sentinel)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the capture has all", func() bool {
		b, err := os.ReadFile(file)
		return err == nil && bytes.Contains(b, []byte(sentinel))
	})
	stop()
	return file
}

func buildBench(t *testing.T) string {
	t.Helper()
	bench := filepath.Join(t.TempDir(), "btlbench")
	out, err := exec.Command("go", "build", "-o", bench, "gobtl/cmd/btlbench").CombinedOutput()
	if err != nil {
		t.Fatalf("building btlbench: %v\n%s", err, out)
	}
	out, err = exec.Command(bench, "info", "--provider", "ofi/udp").CombinedOutput()
	if err != nil || strings.Contains(string(out), "not available") {
		testenv.Missing(t, "needs libfabric's udp provider: %v\n%s", err, out)
	}
	return bench
}

// output is what a process has written so far.
type output struct {
	lock sync.Mutex
	buf  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.buf.String()
}

// startCapture starts dumpcap, and returns when it listens. At most 16 MB are written.
func startCapture(t *testing.T, host, file string) (stop func()) {
	t.Helper()
	path, err := exec.LookPath("dumpcap")
	if err != nil {
		testenv.Missing(t, "needs dumpcap, which comes with Debian's tshark: %v", err)
	}
	cmd := exec.Command(path, "-q", "-i", "lo", "-f", "udp and host "+host, "-w", file, "-B", "16",
		"-a", "filesize:16000")
	var stderr output
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		testenv.Missing(t, "dumpcap does not start: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // What it wrote tells.
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	waitFor(t, "dumpcap listens", func() bool {
		select {
		case <-exited:
			testenv.Missing(t, "capturing needs root, or on Debian the group wireshark:\n%s",
				stderr.String())
		default:
		}
		return strings.Contains(stderr.String(), "File: ")
	})
	return func() {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		select {
		case <-exited:
		case <-time.After(time.Minute):
			t.Fatalf("dumpcap does not end after SIGINT:\n%s", stderr.String())
		}
	}
}

func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited a minute: %s", what)
		}
	}
}

// model is what should follow from a capture, computed in the plainest way.
type model struct {
	peer  map[uint64]uint64            // of a tag: the tag of the other end
	first map[uint64]seq.Num           // of a tag: the first number that its owner sends
	sent  map[uint64]map[seq.Num][]int // to a tag: the packets with each number
	acked map[uint64]map[seq.Num]int   // to a tag: the first packet that acknowledges each number
}

func newModel(packets []*packet) *model {
	m := &model{
		peer: map[uint64]uint64{}, first: map[uint64]seq.Num{},
		sent: map[uint64]map[seq.Num][]int{}, acked: map[uint64]map[seq.Num]int{},
	}
	for i, p := range packets {
		if p.hello != nil {
			if _, known := m.first[p.hello.Tag]; !known {
				m.first[p.hello.Tag] = p.Seq
			}
			if p.Conn != 0 {
				m.peer[p.Conn], m.peer[p.hello.Tag] = p.hello.Tag, p.Conn
			}
			continue
		}
		if m.sent[p.Conn] == nil {
			m.sent[p.Conn], m.acked[p.Conn] = map[seq.Num][]int{}, map[seq.Num]int{}
		}
		if p.Kind.HasSeq() {
			m.sent[p.Conn][p.Seq] = append(m.sent[p.Conn][p.Seq], i)
		}
		if p.Flags&frag.FlagAck != 0 {
			by := m.peer[p.Conn]
			for n := range m.sent[by] {
				if _, done := m.acked[by][n]; !done && !p.Ack.Before(n) {
					m.acked[by][n] = i
				}
			}
		}
	}
	return m
}

// checkConcluded compares what the dissector concludes with the model.
func checkConcluded(t *testing.T, file string, packets []*packet, args []string) {
	t.Helper()
	m := newModel(packets)
	names := []string{
		"frame.number", "gobtl.sender_tag", "gobtl.seq_relative", "gobtl.ack_relative",
		"gobtl.acked_in", "gobtl.retransmission_of", "gobtl.stream", "gobtl.retransmission",
		"gobtl.duplicate_ack",
	}
	table := rows(t, file, names, append(args, "-2", "-Y", "gobtl")...)
	if len(table) != len(packets) {
		t.Fatalf("%d packets, then %d", len(packets), len(table))
	}
	frame := func(i int) string { return table[i][0] }
	streams := map[uint64]string{}
	resent, acked, repeated := 0, 0, 0
	for i, p := range packets {
		row := table[i]
		want := make([]string, 5)
		from := m.peer[p.Conn]
		if p.hello != nil {
			from = p.hello.Tag
			if p.Seq == m.first[from] {
				want[1] = "1"
			}
		}
		want[0] = fmt.Sprintf("0x%016x", from)
		if p.Kind.HasSeq() {
			want[1] = strconv.Itoa(int(p.Seq.Sub(m.first[from])) + 1)
			copies := m.sent[p.Conn][p.Seq]
			if a, ok := m.acked[p.Conn][p.Seq]; ok {
				want[3] = frame(a)
				acked++
			}
			if copies[0] != i {
				want[4] = frame(copies[0])
				resent++
			}
		}
		if p.Flags&frag.FlagAck != 0 {
			want[2] = strconv.Itoa(int(p.Ack.Sub(m.first[p.Conn])) + 1)
		}
		if got := row[1:6]; !slices.Equal(got, want) {
			t.Errorf("frame %s, %v: concluded %q, want %q (%v)", row[0], p.Kind, got, want, names[1:6])
		}
		if (row[7] != "") != (want[4] != "") {
			t.Errorf("frame %s: retransmission is noted: %q", row[0], row[7])
		}
		if row[8] != "" {
			repeated++
		}
		if s, ok := streams[from]; ok && s != row[6] {
			t.Errorf("frame %s: connection %s, was %s", row[0], row[6], s)
		}
		streams[from] = row[6]
	}
	t.Logf("%d acknowledged, %d sent again, %d duplicate acks", acked, resent, repeated)
	if acked == 0 || resent == 0 || repeated == 0 {
		t.Error("the run shows too little")
	}
	if len(streams) != 4 {
		t.Errorf("%d ends, want 4: two runs", len(streams))
	}
}
