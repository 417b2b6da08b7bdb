//go:build linux

package stream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/stream"
)

// modes are both, with what a long stream in them takes.
var modes = [][]string{
	{"--mode", "reliable"},
	{"--mode", "unreliable"},
}

// each runs a test for both modes and either side, side by side: most of it is waiting.
func each(t *testing.T, test func(t *testing.T, mode []string, side string)) {
	for _, mode := range modes {
		for _, side := range []string{"sender", "receiver"} {
			t.Run(mode[1]+"/"+side, func(t *testing.T) {
				t.Parallel()
				test(t, mode, side)
			})
		}
	}
}

// long starts a pair whose stream goes on for long, and waits until it is under way.
func long(t *testing.T, mode []string, receiver, sender []string) (rx, tx *process) {
	t.Helper()
	both := append([]string{"-m8192", "-b64", "-c16", "-t100000000", "--timeout", "1s"}, mode...)
	rx, tx = pair(t, both, append([]string{"-v500", "-l6"}, receiver...),
		append([]string{"--rate", "0.1"}, sender...))
	found(t, &rx.stderr, `Gbit/s, (\d+) messages`)
	return rx, tx
}

// tornFiles lists files that were begun and not finished.
func tornFiles(t *testing.T, dir string) (list []string) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.part*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestKilled: the one that is left ends with status 1, in one line, in the time-out, its quarter
// and what a process needs to end.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, mode []string, killed string) {
		rx, tx := long(t, mode, []string{"-f", "out"}, nil)
		victim, left := tx, rx
		if killed == "receiver" {
			victim, left = rx, tx
		}
		victim.signal(syscall.SIGKILL)
		begin := time.Now()
		status := left.wait()
		// 1.25 s by the book; machines that do something else get more.
		if took := time.Since(begin); status != 1 || took > 10*time.Second {
			t.Errorf("%v, %s killed: status %d after %v", mode, killed, status, took)
		}
		if text := left.stderr.String(); !strings.Contains(text, "peer lost") {
			t.Errorf("%v, %s killed: %s", mode, killed, text)
		}
		if r := left.report(); r.Error == "" {
			t.Errorf("%+v", r)
		}
		if torn := tornFiles(t, rx.cmd.Dir); len(torn) > 0 {
			t.Errorf("torn: %v", torn)
		}
	})
}

// TestStopped: a side that stands still for less than the time-out costs nothing but time, and in
// the unreliable mode messages, which are counted.
func TestStopped(t *testing.T) {
	each(t, func(t *testing.T, mode []string, stopped string) {
		both := append([]string{"-m8192", "-b64", "-c16", "-t5000"}, mode...)
		rx, tx := pair(t, both, []string{"-v500", "-l6", "--verify"}, []string{"--rate", "0.1"})
		found(t, &rx.stderr, `Gbit/s, (\d+) messages`)
		victim := tx
		if stopped == "receiver" {
			victim = rx
		}
		victim.signal(syscall.SIGSTOP)
		time.Sleep(5 * time.Second)
		victim.signal(syscall.SIGCONT)
		tx.ok()
		rx.ok()
		r := rx.report()
		if r.Sent != 5000 || r.Messages+r.Late+r.Overrun+r.Missing != r.Sent ||
			mode[1] == "reliable" && r.Messages != r.Sent {
			t.Errorf("%v, %s stopped: %+v", mode, stopped, r)
		}
	})
}

// TestRunsLostAtSocket: a receiver that is stopped loses datagrams at its socket. The kernel counts
// a run of them as one packet; the report tells how many did not come.
func TestRunsLostAtSocket(t *testing.T) {
	both := []string{
		"-m6000", "-b16", "-c16", "-t40000", "--mode", "unreliable", "--datagram", "1472",
	}
	rx, tx := pair(t, both, []string{"--timeout", "60s", "--verify"},
		[]string{"--timeout", "60s", "-l6", "--rate", "2", "-v5000"})
	found(t, &tx.stderr, `Gbit/s, (\d+) messages`)
	rx.signal(syscall.SIGSTOP)
	found(t, &tx.stderr, `Gbit/s, (40000) messages`)
	rx.signal(syscall.SIGCONT)
	tx.ok()
	rx.ok()
	const grams = 5 // of a message
	r := rx.report()
	if r.Sent != 40_000 || r.Messages+r.Late+r.Overrun+r.Missing != r.Sent || r.SocketDrops == 0 ||
		r.MissingDatagrams < r.Missing || r.MissingDatagrams > grams*r.Missing ||
		r.MissingDatagrams <= r.SocketDrops || r.MissingDatagrams > 128*r.SocketDrops {
		t.Errorf("%+v", r)
	}
}

// TestInterrupted: Ctrl-C ends both sides in order, and files are whole.
func TestInterrupted(t *testing.T) {
	each(t, func(t *testing.T, mode []string, first string) {
		rx, tx := long(t, mode, []string{"-f", "out", "--record", "a.pcap", "--missing", "gaps"}, nil)
		one, other := tx, rx
		if first == "receiver" {
			one, other = rx, tx
		}
		one.signal(syscall.SIGINT)
		if status := one.wait(); status != 130 {
			t.Errorf("%v, %s: status %d\n%s", mode, first, status, one.stderr.String())
		}
		if status := other.wait(); status != 1 ||
			!strings.Contains(other.stderr.String(), "peer failed: interrupted") {
			t.Errorf("%v, %s: the other's status %d\n%s", mode, first, status, other.stderr.String())
		}
		for i := range 64 {
			name := filepath.Join(rx.cmd.Dir, fmt.Sprintf("out.%d", i))
			if st, err := os.Stat(name); err != nil || st.Size() != 8192*16 {
				t.Fatalf("%v, %s: %v", mode, first, err)
			}
		}
		if torn := tornFiles(t, rx.cmd.Dir); len(torn) > 0 {
			t.Errorf("torn: %v", torn)
		}
	})
}

// TestEndless is ended by Ctrl-C at the sender, and the receiver has all.
func TestEndless(t *testing.T) {
	for _, mode := range modes {
		rx, tx := pair(t, append([]string{"-m8192", "-b16", "-c8", "-t0"}, mode...),
			[]string{"-v500", "-l6", "--verify"}, []string{"--rate", "0.1"})
		found(t, &rx.stderr, `Gbit/s, (\d+) messages`)
		tx.signal(syscall.SIGINT)
		if status := tx.wait(); status != 130 {
			t.Errorf("status %d\n%s", status, tx.stderr.String())
		}
		rx.ok()
		if r, s := rx.report(), tx.report(); r.Sent != s.Messages || r.Messages != r.Sent-r.Missing {
			t.Errorf("receiver %+v\nsender %+v", r, s)
		}
	}
}

// TestDiskFull: the receiver's error, the sender has done its part; what was written is whole or
// not there, and an older file is as it was.
func TestDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("a small disk is for root")
		}
		t.Skip("needs root to mount a small tmpfs")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	old := bytes.Repeat([]byte("old"), 100)
	write(t, filepath.Join(dir, "out.5"), old)
	args := []string{"-m65536", "-b8", "-c4", "--format", "json"}
	rx := start(t, dir, append(args, "--listen", "127.0.0.1:0", "-f", "out")...)
	tx := start(t, t.TempDir(), append(args, "-s", "--connect", rx.listening())...)
	tx.ok()
	if status := rx.wait(); status != 1 || !strings.Contains(rx.stderr.String(), "no space left") {
		t.Errorf("status %d: %s", status, rx.stderr.String())
	}
	for i := range 8 {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out.%d", i)))
		if i == 5 && bytes.Equal(b, old) || i != 5 && os.IsNotExist(err) || len(b) == 4*65536 {
			continue
		}
		t.Errorf("file %d: %d bytes, %v", i, len(b), err)
	}
	if torn := tornFiles(t, dir); len(torn) > 0 {
		t.Errorf("torn: %v", torn)
	}
	// A ring that the disk has no room for is refused, not a signal at the first store.
	rx = start(t, dir, "-m65536", "-b8", "-c4", "--ring", "ring", "--listen", "127.0.0.1:0")
	if status := rx.wait(); status != 1 || !strings.Contains(rx.stderr.String(), "no space left") {
		t.Errorf("ring: status %d: %s", status, rx.stderr.String())
	}
}

// TestMismatch: what does not fit is refused at the meeting, on both sides, with a reason.
func TestMismatch(t *testing.T) {
	for _, c := range []struct {
		receiver, sender []string
		reason           string
	}{
		{[]string{"-m4096"}, []string{"-m8192"}, "messages have 8192 bytes, the receiver's 4096"},
		{[]string{"-t7"}, []string{"-t8"}, "8 messages in all, the receiver 7"},
		{nil, []string{"--mode", "unreliable"}, "the sender is unreliable, the receiver reliable"},
		{[]string{"--first", "3"}, nil, "begins with 0, the receiver with 3"},
		{nil, []string{"--first", "3"}, "begins with 3, the receiver with 0"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			rx, tx := pair(t, []string{"-b4", "-c4"}, append(c.receiver, "--wait", "2s"), c.sender)
			for _, p := range []*process{rx, tx} {
				if status := p.wait(); status != 1 || !strings.Contains(p.stderr.String(), c.reason) {
					t.Errorf("%v: status %d: %s", p.cmd.Args[1:], status, p.stderr.String())
				}
			}
		})
	}
}

// TestNobodyThere: every way of meeting ends in time.
func TestNobodyThere(t *testing.T) {
	var waiting []*process
	for _, args := range [][]string{
		{"--listen", "127.0.0.1:0"},
		{"--connect", "127.0.0.1:9"},
		{"-x", "nobody"},
		{},
	} {
		for _, role := range []string{"--log-level=5", "-s"} {
			all := slices.Concat(args, []string{role, "--wait", "200ms", "--node", "127.0.0.1"})
			waiting = append(waiting, start(t, t.TempDir(), all...))
		}
	}
	for _, p := range waiting {
		want := "time is over"
		if slices.Contains(p.cmd.Args, "--connect") {
			want = "nobody listens at 127.0.0.1:9"
		}
		if status := p.wait(); status != 1 || !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%v: status %d: %s", p.cmd.Args[1:], status, p.stderr.String())
		}
	}
	// Two receivers find out at once.
	rx := start(t, t.TempDir(), "--listen", "127.0.0.1:0")
	p := start(t, t.TempDir(), "--connect", rx.listening())
	if status := p.wait(); status != 1 || !strings.Contains(p.stderr.String(), "says no") {
		t.Errorf("status %d: %s", status, p.stderr.String())
	}
}

// TestUsage: mistakes on the command line have status 2 and one line.
func TestUsage(t *testing.T) {
	for _, args := range []string{
		"-m0", "-b-1", "-t-1", "-l8", "-dx", "--rate=1", "--mode=x", "-x a --listen :0", "--streams=2",
		"--receivers=0 --listen=:0 -s", "--group=10.0.0.1:5 -s --mode=unreliable", "--impair=loss=1%",
		"-s --verify", "-s --rate=-1", "--connect=nowhere", "-o ftp://x", "--nonsense", "-b 1048577",
		"-s --on-overrun drop", "-s --mode=unreliable -t0 --on-overrun=drop", "-p 70000", "--timeout 1ms",
		"-c99999999999",
	} {
		out, err := exec.Command(program, strings.Fields(args)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || bytes.Count(out, []byte("\n")) != 1 {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
		if strings.HasPrefix(args, "-c") && !bytes.Contains(out, []byte(": -c 9")) {
			t.Errorf("%s: no word of the flag\n%s", args, out)
		}
	}
}

// TestTooLarge: a ring for which there is no memory is an error before the stream starts, in one
// line that says how much memory the ring needs and how much the process can have.
func TestTooLarge(t *testing.T) {
	const limited = `ulimit -v 4000000; exec "$0" "$@"`
	for _, role := range []string{"-s", "--verify"} {
		cmd := exec.Command("sh", "-c", limited, program, role, "-m1000000", "-b8000")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || bytes.Count(out, []byte("\n")) != 1 ||
			!bytes.Contains(out, []byte("the ring needs 7630 MiB of memory, and the limit is")) ||
			!bytes.Contains(out, []byte("MiB (")) {
			t.Errorf("%s: %v\n%s", role, err, out)
		}
	}
}

// TestSharedRing: another process, this one, reads what the receiver fills, and fills what the
// sender sends.
func TestSharedRing(t *testing.T) {
	const messages = 2000
	g := stream.Geometry{MessageBytes: 1000, Regions: 6, RegionMessages: 10}
	dir := t.TempDir()
	args := []string{"-m1000", "-b6", "-c10", "-t2000", "--format", "json"}
	rx := start(t, dir, append(args, "--ring", "in", "--listen", "127.0.0.1:0")...)
	tx := start(t, dir, append(args, "-s", "--ring", "out", "--connect", rx.listening())...)
	open := func(name string) *stream.Ring {
		var ring *stream.Ring
		eventually(t, name, func() (ok bool) {
			r, err := stream.OpenRing(filepath.Join(dir, name))
			ring = r
			return err == nil
		})
		t.Cleanup(func() {
			if err := ring.Close(); err != nil {
				t.Error(err)
			}
		})
		if ring.Geometry() != g {
			t.Fatalf("%+v", ring.Geometry())
		}
		return ring
	}
	in, out := open("in"), open("out")
	reader := in.NewReader(0)
	filled, got := 0, 0
	eventually(t, "all is read", func() bool {
		for slot := filled / 10 % 6; filled < messages && out.Free(slot); slot = filled / 10 % 6 {
			for k := range 10 {
				copy(out.Message(slot, k), fmt.Sprintf("message %d.", filled+k))
			}
			out.SetPopulated(slot, true)
			filled += 10
		}
		for region, ok := reader.Next(); ok; region, ok = reader.Next() {
			for k := range region.Messages {
				if want := fmt.Sprintf("message %d.", got); !bytes.HasPrefix(region.Bytes[k*1000:],
					[]byte(want)) {
					t.Fatalf("%.20q, want %s", region.Bytes[k*1000:], want)
				}
				got++
			}
			reader.Release()
		}
		return got == messages
	})
	tx.ok()
	rx.ok()
}
