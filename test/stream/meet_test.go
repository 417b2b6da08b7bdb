//go:build linux

package stream

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gobtl/stream"
)

// TestDyingSender: a sender that dies between the meeting and its first word keeps no receiver from
// the next one, by an address and by files.
func TestDyingSender(t *testing.T) {
	dead := stream.Identity{Role: stream.RoleSender, Key: 5, Name: []byte("gone")}
	for _, by := range []string{"address", "files"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			args := []string{"-m1000", "-b8", "-c16", "-t500", "--format", "json", "--node", "127.0.0.1"}
			how := []string{"-x", "here"}
			if by == "address" {
				how = []string{"--listen", "127.0.0.1:0"}
			}
			rx := start(t, dir, append(args, how...)...)
			exchange := stream.ExchangeFiles(filepath.Join(dir, "here"))
			if by == "address" {
				how = []string{"--connect", rx.listening()}
				exchange = stream.ExchangeAt(rx.listening())
			}
			if _, err := exchange(t.Context(), dead); err != nil {
				t.Fatal(err)
			}
			tx := start(t, dir, append(append(args, "-s"), how...)...)
			tx.ok()
			rx.ok()
			if r := rx.report(); r.Messages != 500 || r.Missing != 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestVerifyOtherRing: the pattern is that of the sender's ring, whatever shape the receiver's has.
func TestVerifyOtherRing(t *testing.T) {
	for _, mode := range modes {
		rx, tx := pair(t, append([]string{"-m1001", "-t3000"}, mode...),
			[]string{"-b7", "-c31", "--verify"}, []string{"-b4", "-c5", "--rate", "0.1"})
		tx.ok()
		rx.ok()
	}
}

// TestEverySample: with -v there is a sample for each so many messages, however fast they come.
func TestEverySample(t *testing.T) {
	rx, tx := pair(t, []string{"-m64", "-b8", "-c8", "-t20000", "-l6", "-v100"}, []string{"-d1"}, nil)
	tx.ok()
	rx.ok()
	for _, p := range []*process{rx, tx} {
		// Several intervals may end in one pass. Forty a second would be ten.
		if n := strings.Count(p.stderr.String(), "Gbit/s"); n < 50 || n > 202 {
			t.Errorf("%d samples\n%s", n, p.stderr.String())
		}
	}
}

// TestSampleOfEachPass: without -v there is a sample for each pass over the regions of the ring,
// which may be of huge pages.
func TestSampleOfEachPass(t *testing.T) {
	args := []string{"-m64", "-b8", "-c8", "-t6400", "-l6", "--huge-pages"} // 100 passes
	rx, tx := pair(t, args, []string{"-d10"}, nil)
	tx.ok()
	rx.ok()
	for _, p := range []*process{rx, tx} {
		// Passes over so small a ring may end together.
		if n := strings.Count(p.stderr.String(), "Gbit/s"); n < 25 || n > 102 {
			t.Errorf("%d samples\n%s", n, p.stderr.String())
		}
	}
}

// TestRingEndless: a stream without end out of another process' ring ends when that has finished,
// or with Ctrl-C, and the receiver has all that was in the ring.
func TestRingEndless(t *testing.T) {
	for _, by := range []string{"producer", "interrupt"} {
		dir := t.TempDir()
		args := []string{"-m1000", "-b6", "-c10", "-t0", "--format", "json"}
		rx := start(t, dir, append(args, "--listen", "127.0.0.1:0", "-v10", "-l6")...)
		tx := start(t, dir, append(args, "-s", "--ring", "out", "--connect", rx.listening())...)
		var ring *stream.Ring
		eventually(t, "the ring", func() bool {
			r, err := stream.OpenRing(filepath.Join(dir, "out"))
			ring = r
			return err == nil
		})
		for i := range 4 {
			ring.SetPopulated(i, true)
		}
		status := 0
		if by == "producer" {
			ring.Finish()
		} else {
			found(t, &rx.stderr, `Gbit/s, (40) messages`)
			tx.signal(syscall.SIGINT)
			status = 130
		}
		if got := tx.wait(); got != status {
			t.Errorf("%s: status %d\n%s", by, got, tx.stderr.String())
		}
		rx.ok()
		if r := rx.report(); r.Messages != 40 || r.Sent != 40 {
			t.Errorf("%s: %+v", by, r)
		}
		if !ring.Over() {
			t.Errorf("%s: the producer does not learn that the stream is over", by)
		}
		if err := ring.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSilentMeeting: more than fit come to the meeting and say nothing; the peer is heard.
func TestSilentMeeting(t *testing.T) {
	rx := start(t, t.TempDir(), "--listen", "127.0.0.1:0", "-t5", "--format", "json")
	for range 100 {
		conn, err := net.Dial("tcp", rx.listening())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	tx := start(t, t.TempDir(), "-s", "--connect", rx.listening(), "-t5")
	tx.ok()
	rx.ok()
	if r := rx.report(); r.Messages != 5 {
		t.Errorf("%+v", r)
	}
}
