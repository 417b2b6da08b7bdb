//go:build linux

package stream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"
)

// TestStandardInput is the first demonstration of the tool that this one follows: a person copies
// the identities from terminal to terminal. Files go in and come out.
func TestStandardInput(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	want := make([][]byte, 16)
	for i := range want {
		want[i] = make([]byte, 8192*32)
		for k := range want[i] {
			want[i][k] = byte(rng.Uint32())
		}
		write(t, filepath.Join(dir, fmt.Sprintf("in.%d", i)), want[i])
	}
	rx := start(t, dir, "-m8192", "-b16", "-c32", "-f", "out")
	tx := start(t, dir, "-m8192", "-b16", "-c32", "-d10", "-s", "-f", "in")
	const line = `identity of this \w+: (gobtl-stream\S+)\n`
	fmt.Fprintln(rx.stdin, "this is none") // asked for again
	fmt.Fprintln(rx.stdin, found(t, &tx.stdout, line))
	fmt.Fprintln(tx.stdin, "identity of this receiver: "+found(t, &rx.stdout, line)) // whole line
	rx.ok()
	tx.ok()
	for i := range want {
		if !bytes.Equal(read(t, filepath.Join(dir, fmt.Sprintf("out.%d", i))), want[i]) {
			t.Errorf("file %d differs", i)
		}
	}
	for _, text := range []string{
		"Memory contents:", "Memory region 0015: ", "0 missing from 512 total (0.0000 %)", "Gbps",
	} {
		if !strings.Contains(rx.stdout.String(), text) {
			t.Errorf("no %q in\n%s", text, rx.stdout.String())
		}
	}
}

// TestExchangeFiles is the long demonstration, shorter: over files, stale ones of earlier runs
// lying about, three runs in one place, the receiver or the sender first.
func TestExchangeFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		args := []string{"-b128", "-t20000", "-m8192", "-v5000", "-xtemprun", "--node", "127.0.0.1"}
		roles := [][]string{{"--verify", "-l6"}, {"-s"}}
		first := start(t, dir, append(args, roles[i%2]...)...)
		second := start(t, dir, append(args, roles[1-i%2]...)...)
		first.ok()
		second.ok()
		rx := first
		if i%2 == 1 {
			rx = second
		}
		if !strings.Contains(rx.stdout.String(), "0 missing from 20000 total") ||
			strings.Count(rx.stderr.String(), "Gbit/s") < 3 {
			t.Errorf("run %d:\n%s\n%s", i, rx.stdout.String(), rx.stderr.String())
		}
	}
	// With nobody there the stale file is not taken.
	tx := start(t, dir, "-xtemprun", "-s", "--wait", "300ms")
	if status := tx.wait(); status != 1 || !strings.Contains(tx.stderr.String(), "another run") {
		t.Errorf("status %d: %s", status, tx.stderr.String())
	}
}

// TestImpairment: the receiver counts what the impairment did, exactly; the data are right.
func TestImpairment(t *testing.T) {
	rx, tx := pair(t, []string{"-m1000", "-b64", "-c16", "-t50000", "--mode", "unreliable"},
		[]string{"--verify", "--impair", "loss=1%,dup=1%,reorder=2%,seed=7", "--missing", "gaps"},
		[]string{"--rate", "0.2"})
	tx.ok()
	rx.ok()
	r := rx.report()
	// What the kernel dropped before the impairment is told apart.
	if r.Sent != 50_000 || r.Missing != r.Impair.Lost+r.SocketDrops ||
		r.Duplicates != r.Impair.Duplicated || r.Messages+r.Late+r.Missing != r.Sent ||
		r.Impair.Lost == 0 || r.Impair.Reordered == 0 {
		t.Errorf("%+v %+v", r, r.Impair)
	}
	listed := uint64(0)
	for line := range strings.Lines(string(read(t, filepath.Join(rx.cmd.Dir, "gaps")))) {
		var first, last uint64
		if _, err := fmt.Sscanf(line, "%d-%d\n", &first, &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		listed += last - first + 1
	}
	if listed != r.Sent-r.Messages {
		t.Errorf("%d listed, %d of %d received", listed, r.Messages, r.Sent)
	}
}

// TestReliableFiles: random data, a slow reader, equal files.
func TestReliableFiles(t *testing.T) {
	dir := t.TempDir()
	block := make([]byte, 4*10_001)
	for i := range 3 {
		for k := range block {
			block[k] = byte(k*i + k>>8)
		}
		write(t, filepath.Join(dir, fmt.Sprintf("in.%d", i)), block)
	}
	args := []string{"-m10001", "-b3", "-c4", "-t1207", "--first", "4294967000", "--format", "json"}
	rx := start(t, dir, append(args, "--listen", "127.0.0.1:0", "-f", "out", "-d200")...)
	tx := start(t, dir, append(args, "-s", "--connect", rx.listening(), "-f", "in")...)
	rx.ok()
	tx.ok()
	if r := rx.report(); r.Messages != 1207 || r.Missing != 0 {
		t.Errorf("%+v", r)
	}
	for i := range 3 {
		in := read(t, filepath.Join(dir, fmt.Sprintf("in.%d", i)))
		if !bytes.Equal(read(t, filepath.Join(dir, fmt.Sprintf("out.%d", i))), in) {
			t.Errorf("file %d differs", i)
		}
	}
}

// TestStreams: several senders to one receiver, each a stream of its own.
func TestStreams(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-m4096", "-b8", "-c8", "-t3000", "--format", "json"}
	rx := start(t, dir, append(args, "--listen", "127.0.0.1:0", "--streams", "3", "--verify")...)
	at := rx.listening()
	var txs []*process
	for range 3 {
		txs = append(txs, start(t, dir, append(args, "-s", "--connect", at)...))
	}
	for _, tx := range txs {
		tx.ok()
	}
	rx.ok()
	list := rx.reports()
	if len(list) != 3 {
		t.Fatalf("%d reports", len(list))
	}
	for i, r := range list {
		if r.Stream != i || r.Messages != 3000 || r.Missing != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestReceivers: one sender to several receivers, in both modes, by addresses and by a group.
func TestReceivers(t *testing.T) {
	for _, extra := range [][]string{
		nil,
		{"--mode", "unreliable", "--rate", "0.2"},
		{"--mode", "unreliable", "--rate", "0.2", "--group", "239.77.1.2:47110"},
	} {
		dir := t.TempDir()
		args := []string{"-m4096", "-b16", "-c8", "-t3000", "--format", "json", "--node", "127.0.0.1"}
		tx := start(t, dir, append(append(args, "-s", "--listen", "127.0.0.1:0", "--receivers", "3"),
			extra...)...)
		at := tx.listening()
		var rxs []*process
		for range 3 {
			more := []string{"--connect", at, "--verify"}
			if len(extra) > 0 {
				more = append(more, "--mode", "unreliable")
			}
			rxs = append(rxs, start(t, dir, append(args, more...)...))
		}
		for _, rx := range rxs {
			rx.ok()
			if r := rx.report(); r.Sent != 3000 || r.Messages+r.SocketDrops < 3000 ||
				len(extra) == 0 && r.Missing != 0 {
				t.Errorf("%v: %+v", extra, r)
			}
		}
		tx.ok()
	}
}

// TestLateReceiver comes when the stream is under way.
func TestLateReceiver(t *testing.T) {
	args := []string{"-m1000", "-b64", "-c16", "-t20000", "--mode", "unreliable", "--format", "json"}
	tx := start(t, t.TempDir(), append(args, "-s", "-d50", "--listen", "127.0.0.1:0", "--receivers",
		"0", "-l6", "-v2000")...)
	found(t, &tx.stderr, `Gbit/s, (\d+) messages`)
	rx := start(t, t.TempDir(), append(args, "--connect", tx.listening(), "--missing", "gaps")...)
	tx.ok()
	rx.ok()
	r := rx.report()
	gaps := string(read(t, filepath.Join(rx.cmd.Dir, "gaps")))
	if r.Sent != 20_000 || r.Missing < 2000 || r.Messages+r.Missing != r.Sent ||
		!strings.HasPrefix(gaps, "0-") {
		t.Errorf("%+v, gaps %s", r, gaps)
	}
}

// TestRecord reads the arrivals again, and has tshark read them too.
func TestRecord(t *testing.T) {
	both := []string{"-m1000", "-b8", "-c16", "-t500", "--mode", "unreliable", "--first", "9"}
	rx, tx := pair(t, both, []string{"--record", "arrivals.pcap"}, []string{"--rate", "0.1"})
	tx.ok()
	rx.ok()
	file := filepath.Join(rx.cmd.Dir, "arrivals.pcap")
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reader, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for ; ; n++ {
		data, info, err := reader.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(data[8:]); got != 9+n || info.Length != 1000 {
			t.Fatalf("record %d: ordinal %d, %d bytes", n, got, info.Length)
		}
	}
	if r := rx.report(); n != r.Messages {
		t.Errorf("%d records of %d messages", n, r.Messages)
	}
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no tshark")
		}
		t.Skip("needs Debian's package tshark")
	}
	out, err := exec.Command(tshark, "-r", file, "-T", "fields", "-e", "frame.time_epoch").Output()
	if err != nil || uint64(strings.Count(string(out), "\n")) != n {
		t.Errorf("tshark: %v\n%.300s", err, out)
	}
}

// TestStrangerAtTheMeeting: a receiver that cannot be does not end the sender that listens, nor
// take the place of one that can.
func TestStrangerAtTheMeeting(t *testing.T) {
	args := []string{"-m1000", "-b8", "-c16", "-t500", "--format", "json"}
	tx := start(t, t.TempDir(), append(args, "-s", "--listen", "127.0.0.1:0")...)
	conn, err := net.Dial("tcp", tx.listening())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line := "gobtl-stream/1:receiver:" + base64.StdEncoding.EncodeToString([]byte("123456789")) + "\n"
	if _, err := conn.Write([]byte(line)); err != nil {
		t.Fatal(err)
	}
	found(t, &tx.stderr, `(a receiver that cannot be)`)
	rx := start(t, t.TempDir(), append(args, "--connect", tx.listening())...)
	rx.ok()
	tx.ok()
	if r := rx.report(); r.Messages != 500 || r.Missing != 0 {
		t.Errorf("%+v", r)
	}
}
