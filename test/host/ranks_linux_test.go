package host

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/shm" // registers itself
	"gobtl/internal/mono"
)

const (
	processes = 4
	perEach   = 4 // ranks of a process
	ranks     = processes * perEach
	messages  = 12 // from each rank to each other one
	childRole = "GOBTL_TEST_RANKS"
	patience  = 2 * time.Minute
	// ringBytesMax is what a ring has at most, by the documentation of fabric/shm, with its header.
	ringBytesMax = 4<<20 + 4096
)

// sizes of messages: tiny, of one packet, of several.
var sizes = [...]int{16, 700, 5000, 60_000, 300_000, 64}

func TestMain(m *testing.M) {
	run := child
	switch os.Getenv(childRole) {
	case "":
		os.Exit(m.Run())
	case talkerRole:
		run = talkerChild
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// rank is a module and what it has sent and got.
type rank struct {
	m     *btl.Module
	begin time.Time
	next  [ranks]int // the next message expected of each
	got   int
	ended int
	err   error
}

func openRank() (*rank, error) {
	// Modest depths: sixteen modules and their peers share this host.
	return openRankWith(btl.Config{SendBuffers: 128, RecvDepth: 256})
}

func openRankWith(cfg btl.Config) (*rank, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "shm"})
	if err != nil {
		return nil, err
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, err
	}
	dom, err := fabric.Open(infos[0], dc)
	if err != nil {
		return nil, err
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		return nil, errors.Join(err, dom.Close())
	}
	r := &rank{m: m, begin: time.Now()}
	m.Handle(1, r.onMessage)
	m.OnEndpoint(func(_ *btl.Endpoint, ev btl.Event, err error) {
		if ev == btl.EventFailed {
			r.err = errors.Join(r.err, err)
		}
	})
	return r, nil
}

func (r *rank) now() mono.Time { return mono.Time(time.Since(r.begin)) }

// fill writes message n of a rank: who, which, and bytes that follow from both.
func fill(mem []byte, from, n int) {
	binary.LittleEndian.PutUint32(mem, uint32(from))
	binary.LittleEndian.PutUint32(mem[4:], uint32(n))
	for i := 8; i < len(mem); i++ {
		mem[i] = byte(i*7 + from*31 + n)
	}
}

func (r *rank) onMessage(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	from, n := int(binary.LittleEndian.Uint32(data)), int(binary.LittleEndian.Uint32(data[4:]))
	bad := from >= ranks || n >= messages || len(data) != sizes[n%len(sizes)]
	for i := 8; i < len(data) && !bad; i++ {
		bad = data[i] != byte(i*7+from*31+n)
	}
	if bad {
		r.err = errors.Join(r.err, fmt.Errorf("message %d of rank %d, %d bytes, is altered", n, from,
			len(data)))
		return
	}
	r.next[from]++
	r.got++
}

// pass makes progress, and sleeps if there was nothing to do.
func (r *rank) pass() error {
	n, err := r.m.Progress(r.now())
	if err != nil || r.err != nil {
		return errors.Join(err, r.err)
	}
	if n == 0 {
		if d := min(r.m.Deadline().Sub(r.now()), time.Millisecond); d > 0 {
			return r.m.Wait(d)
		}
	}
	return nil
}

// talk sends to all others and waits until all has arrived, here and there.
func (r *rank) talk(me int, names [][]byte) error {
	want := (ranks - 1) * messages
	for to, name := range names {
		if to == me {
			continue
		}
		ep, err := r.m.Connect(r.now(), name)
		if err != nil {
			return err
		}
		for n := range messages {
			mem := make([]byte, sizes[n%len(sizes)])
			fill(mem, me, n)
			f, err := ep.Prepare(1, mem)
			if err != nil {
				return err
			}
			f.Signal = true
			f.OnDone = func(_ *btl.Fragment, err error) {
				r.ended++
				r.err = errors.Join(r.err, err)
			}
			if _, err := ep.Send(r.now(), f); err != nil {
				return err
			}
		}
	}
	for r.got < want || r.ended < want {
		if r.now() > mono.Time(patience) {
			return fmt.Errorf("rank %d: %d of %d messages came, %d sent ended", me, r.got, want, r.ended)
		}
		if err := r.pass(); err != nil {
			return fmt.Errorf("rank %d: %w", me, err)
		}
	}
	for from, n := range r.next {
		if from != me && n != messages {
			return fmt.Errorf("rank %d got %d messages of rank %d", me, n, from)
		}
	}
	return nil
}

// child is a process with some of the ranks. It says their names, is told all, lets the ranks talk,
// says how that ended, and goes on for the others until its input ends.
func child() error {
	var mine [perEach]*rank
	for i := range mine {
		r, err := openRank()
		if err != nil {
			return err
		}
		mine[i] = r
		fmt.Println(hex.EncodeToString(r.m.Name()))
	}
	in := bufio.NewReader(os.Stdin)
	var first int
	names := make([][]byte, ranks)
	if _, err := fmt.Fscanln(in, &first); err != nil {
		return err
	}
	for i := range names {
		var text string
		if _, err := fmt.Fscanln(in, &text); err != nil {
			return err
		}
		var err error
		if names[i], err = hex.DecodeString(text); err != nil {
			return err
		}
	}
	done, quit, left := make(chan error), make(chan struct{}), make(chan struct{})
	for i, r := range mine {
		go func() {
			defer func() { left <- struct{}{} }()
			done <- r.talk(first+i, names)
			for {
				select {
				case <-quit:
					return
				default:
					_ = r.pass() // of peers that leave
				}
			}
		}()
	}
	var err error
	for range mine {
		err = errors.Join(err, <-done)
	}
	count, bytes := ringMappings()
	fmt.Println("done", count, bytes, err == nil)
	_, _ = io.Copy(io.Discard, in) // until the parent has heard all
	close(quit)
	for range mine {
		<-left
	}
	for _, r := range mine {
		err = errors.Join(err, r.m.Close())
	}
	return err
}

// ringMappings counts the rings that this process has mapped, and their bytes.
func ringMappings() (count, bytes int) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(maps)) {
		var from, to int
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil &&
			strings.Contains(line, "memfd:gobtl-ring") {
			count++
			bytes += to - from
		}
	}
	return count, bytes
}

// process is a child as its parent sees it.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t *testing.T) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childRole+"=1")
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // an error says that it has ended
	p.out = bufio.NewReader(out)
	return p
}

func needShm(t *testing.T) {
	t.Helper()
	if _, err := fabric.GetInfo(fabric.Hints{Provider: "shm"}); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no shared memory: %v", err)
		}
		t.Skipf("needs shared memory: %v", err)
	}
}

// TestAllToAll: sixteen ranks in four processes each send to all others, and get all; the rings of
// each process are no more than one for each pair of endpoints that talk.
func TestAllToAll(t *testing.T) {
	needShm(t)
	var all [processes]*process
	var names strings.Builder
	for i := range all {
		all[i] = start(t)
		for range perEach {
			line, err := all[i].out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			names.WriteString(line)
		}
	}
	for i, p := range all {
		if _, err := fmt.Fprintf(p.in, "%d\n%s", i*perEach, names.String()); err != nil {
			t.Fatal(err)
		}
	}
	const pairs = perEach * (ranks - 1) * 2 // both ways
	for i, p := range all {
		var count, bytes int
		var ok bool
		if _, err := fmt.Fscanf(p.out, "done %d %d %t\n", &count, &bytes, &ok); err != nil || !ok {
			t.Errorf("process %d: all to all failed (%v)", i, err)
		}
		t.Logf("process %d: %d rings, %d MiB mapped", i, count, bytes>>20)
		// Each pair of ranks has two channels, and thus up to two rings each way.
		if count < pairs || count > 2*pairs || bytes > 2*pairs*ringBytesMax {
			t.Errorf("process %d: %d rings of %d bytes, want %d to %d of at most %d each", i, count, bytes,
				pairs, 2*pairs, ringBytesMax)
		}
	}
	for i, p := range all {
		if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
}
