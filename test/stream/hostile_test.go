//go:build linux

package stream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/stream"
)

// Programs beside peers that are bad: docs/explanation/peers.md has the rules.

// visit says a line at a meeting and returns the answer.
func visit(t *testing.T, address string, line any) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // the read below tells
	fmt.Fprintln(conn, line)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// refused are the counts of peers that were refused, by reason.
func (p *process) refused() (counts map[string]uint64) {
	p.t.Helper()
	var r struct{ Refused map[string]uint64 }
	for line := range strings.Lines(p.stdout.String()) {
		if strings.HasPrefix(line, "{") {
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	return r.Refused
}

// TestLiars: many who say a fitting line at the meeting and are nobody cost their own time.
func TestLiars(t *testing.T) {
	liar := func(role stream.Role) stream.Identity {
		return stream.Identity{Role: role, Key: 5, Name: []byte("gone")}
	}
	for _, listens := range []string{"receiver", "sender"} {
		t.Run(listens, func(t *testing.T) {
			t.Parallel()
			first, second, role := []string{}, []string{"-s"}, stream.RoleSender
			if listens == "sender" {
				first, second, role = second, first, stream.RoleReceiver
			}
			args := []string{"-m1000", "-t50", "-b2", "-c5", "--format", "json", "--wait", "20s"}
			one := start(t, t.TempDir(), append(append(args, "--listen", "127.0.0.1:0"), first...)...)
			at := one.listening()
			for range 70 {
				visit(t, at, liar(role))
			}
			other := start(t, t.TempDir(), append(append(args, "--connect", at), second...)...)
			other.ok()
			one.ok()
		})
	}
}

// TestMisfitAlone: a peer with another -m is refused, with the reason at both ends, counted and
// shown in metrics; the one that fits is served.
func TestMisfitAlone(t *testing.T) {
	for _, listens := range []string{"receiver", "sender"} {
		t.Run(listens, func(t *testing.T) {
			t.Parallel()
			first, second := []string{}, []string{"-s"}
			if listens == "sender" {
				first, second = second, first
			}
			args := []string{"-t50", "-b2", "-c5", "--format", "json", "--wait", "20s"}
			one := start(t, t.TempDir(), append(append(args, "-m1000", "--listen", "127.0.0.1:0",
				"--metrics", "127.0.0.1:0"), first...)...)
			connect := append(append(args, "--connect", one.listening()), second...)
			bad := start(t, t.TempDir(), append(connect, "-m2000")...)
			if status := bad.wait(); status != 1 || !strings.Contains(bad.stderr.String(), "messages have") {
				t.Errorf("status %d: %s", status, bad.stderr.String())
			}
			found(t, &one.stderr, `(refused, \S+: .*messages have)`)
			url := found(t, &one.stderr, `metrics on (\S+)`)
			eventually(t, "a metric of refusals", func() bool {
				resp, err := http.Get(url)
				if err != nil {
					return false
				}
				defer resp.Body.Close()
				for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "gobtl_stream_refused_") &&
						strings.HasSuffix(lines.Text(), " 1") {
						return true
					}
				}
				return false
			})
			good := start(t, t.TempDir(), append(connect, "-m1000")...)
			good.ok()
			one.ok()
			if n := one.refused(); n["mismatch"]+n["there"] != 1 {
				t.Errorf("refused: %v", n)
			}
		})
	}
}

// TestTerminal: what a stranger says does nothing to a terminal.
func TestTerminal(t *testing.T) {
	rx := start(t, t.TempDir(), "--listen", "127.0.0.1:0", "--wait", "1s", "-l7")
	answer := visit(t, rx.listening(), "\x1b]0;hello\x07\x1b[2J")
	rx.wait()
	for _, text := range []string{answer, rx.stderr.String()} {
		if strings.ContainsAny(text, "\x1b\x07") {
			t.Errorf("%q", text)
		}
	}
}

// TestPipeExchange: a pipe in the place of an exchange file is told, and ends neither --wait nor
// what a signal does.
func TestPipeExchange(t *testing.T) {
	for _, by := range []string{"wait", "signal"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := syscall.Mkfifo(filepath.Join(dir, "x.send"), 0o600); err != nil {
				t.Fatal(err)
			}
			wait := "300ms"
			if by == "signal" {
				wait = "10m"
			}
			rx := start(t, dir, "-x", "x", "--wait", wait, "--node", "127.0.0.1")
			status := 1
			if by == "signal" {
				eventually(t, "its own file", func() bool {
					_, err := filepath.EvalSymlinks(filepath.Join(dir, "x.recv"))
					return err == nil
				})
				rx.signal(syscall.SIGTERM)
				status = 128 + int(syscall.SIGTERM)
			}
			if got := rx.wait(); got != status {
				t.Errorf("status %d, want %d: %s", got, status, rx.stderr.String())
			}
			if text := rx.stderr.String(); by == "wait" && !strings.Contains(text, "no regular file") {
				t.Error(text)
			}
		})
	}
}

// TestTakenAgain: two senders want one receiver after the other; the one that comes second comes
// again until it has its own.
func TestTakenAgain(t *testing.T) {
	args := []string{"-m1000", "-t200", "-b2", "-c5", "--format", "json", "--wait", "30s"}
	rx := start(t, t.TempDir(), append(args, "--listen", "127.0.0.1:0", "--streams", "3")...)
	var senders []*process
	for range 3 {
		senders = append(senders, start(t, t.TempDir(), append(args, "-s", "--rate", "0.001", "--connect",
			rx.listening())...))
	}
	for _, tx := range senders {
		tx.ok()
	}
	rx.ok()
	messages := uint64(0)
	for _, r := range rx.reports() {
		messages += r.Messages
	}
	if messages != 600 {
		t.Errorf("%d messages", messages)
	}
}
