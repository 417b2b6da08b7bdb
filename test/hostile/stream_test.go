//go:build linux

package hostile

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp"
	"gobtl/internal/mono"
	"gobtl/stream"
)

// The honest program is a stream, in either mode. A bad peer knows the receiver's meeting and its
// metrics, and the identity that the meeting gave it before the honest sender came.

// place is what a bad peer knows.
type place struct {
	meeting, metrics string
	receiver         stream.Identity
}

// kind is what a bad peer does until stop is closed.
type kind func(t *testing.T, at place, stop <-chan struct{})

var streamKinds = map[string]kind{
	"liars at the meeting": func(t *testing.T, at place, stop <-chan struct{}) {
		each(stop, 2*time.Millisecond, func() { say(at.meeting, liar().String()) })
	},
	"silent at the meeting": func(t *testing.T, at place, stop <-chan struct{}) {
		hold(stop, at.meeting, "")
	},
	"endless requests for metrics": func(t *testing.T, at place, stop <-chan struct{}) {
		hold(stop, at.metrics, "GET /metrics HTTP/1.1\r\nX: ")
	},
	"candidates that stop": func(t *testing.T, at place, stop <-chan struct{}) {
		r := newRogue(t, at, stop)
		r.run(stop, time.Millisecond, func(n int) { r.hello(at.receiver.Key, uint64(n)+1, 65536) })
	},
	"hellos that do not fit": func(t *testing.T, at place, stop <-chan struct{}) {
		r := newRogue(t, at, stop)
		r.run(stop, time.Millisecond, func(n int) { r.hello(at.receiver.Key, uint64(n)+1, 77) })
	},
	"answers not taken": func(t *testing.T, at place, stop <-chan struct{}) {
		const modules = 8
		for range modules {
			r := newRogue(t, at, stop)
			for n := 0; n < 5000 && r != nil && r.hello(12345, uint64(n)+1, 77); n++ {
				if n%64 == 0 {
					r.pass()
				}
			}
			select { // it makes no pass any more: nothing is acknowledged
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		<-stop
	},
}

// TestStream: a stream ends in order beside each kind of bad peer, and keeps its rate.
func TestStream(t *testing.T) {
	for _, mode := range []string{"reliable", "unreliable"} {
		for name, bad := range streamKinds {
			t.Run(mode+"/"+name, func(t *testing.T) {
				if *rounds == 0 {
					t.Parallel() // it mostly waits
				}
				compare(t, bad, func(t *testing.T, beside kind) float64 { return oneStream(t, mode, beside) })
			})
		}
	}
}

// oneStream runs a stream, beside something unless it is nil, and returns the megabytes a second
// that have arrived.
func oneStream(t *testing.T, mode string, beside kind) float64 {
	t.Helper()
	messages := int(40_000 * *length)
	both := []string{
		"--mode", mode, "-m", "65536", "-b", "16", "-c", "4", "-t", strconv.Itoa(messages), "--format",
		"json", "--quiet", "-l4", "--node", "127.0.0.1",
	}
	rx := start(t, "btlstream", append(both, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"-l5")...)
	at := place{meeting: rx.found(`listening on (\S+)\n`), metrics: rx.found(`http://(\S+)/metrics`)}
	line := say(at.meeting, liar().String())
	id, err := stream.ParseIdentity(line)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	at.receiver = id
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if beside != nil {
			beside(t, at, stop)
		}
	}()
	time.Sleep(50 * time.Millisecond) // the bad peer is first
	tx := []string{"-s", "--connect", at.meeting}
	if mode == "unreliable" {
		tx = append(tx, "--rate", "4")
	}
	start(t, "btlstream", append(both, tx...)...).ok()
	rx.ok()
	close(stop)
	<-ended
	var r struct {
		Messages uint64
		MBPerS   float64 `json:"megabytes_per_second"`
	}
	if rx.result(&r); r.Messages == 0 || mode == "reliable" && r.Messages != uint64(messages) {
		t.Errorf("%d messages have come", r.Messages)
	}
	return r.MBPerS
}

// liar is the identity of a sender that is nobody.
func liar() stream.Identity {
	return stream.Identity{Role: stream.RoleSender, Key: 5, Name: []byte("gone")}
}

// each does something again and again.
func each(stop <-chan struct{}, every time.Duration, fn func()) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(every):
			fn()
		}
	}
}

// say says a line to an address and returns the answer, if there is one.
func say(address, line string) string {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second)) // no answer is an answer
	fmt.Fprintln(conn, line)
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer)
}

// hold opens connections, begins to say something there, and keeps the latest of them.
func hold(stop <-chan struct{}, address, text string) {
	const kept = 300
	var conns []net.Conn
	each(stop, time.Millisecond, func() {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, text) // it may be refused
		if conns = append(conns, conn); len(conns) > kept {
			_ = conns[0].Close()
			conns = conns[1:]
		}
	})
	for _, c := range conns {
		_ = c.Close()
	}
}

// rogue is a module of the transport that says what it likes.
type rogue struct {
	m  *btl.Module
	ep *btl.Endpoint
	at time.Time
}

// newRogue connects to a receiver's module.
func newRogue(t *testing.T, at place, stop <-chan struct{}) *rogue {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		t.Errorf("no loopback: %v", err)
		return nil
	}
	var cfg btl.Config
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		t.Error(err)
	}
	dom, err := fabric.Open(infos[0], dc)
	if err != nil {
		t.Error(err)
		return nil
	}
	r := &rogue{at: time.Now()}
	if r.m, err = btl.Open(dom, cfg); err != nil {
		t.Error(err)
		return nil
	}
	t.Cleanup(func() { _ = r.m.Close() })
	const tagLetter = 1
	_ = r.m.Handle(tagLetter, func(*btl.Endpoint, btl.Tag, []byte) {})
	if r.ep, err = r.m.Connect(r.now(), at.receiver.Name); err != nil {
		t.Error(err)
		return nil
	}
	for !r.ep.Connected() && r.ep.Err() == nil {
		r.pass()
		select {
		case <-stop: // the receiver may have gone
			return r
		case <-time.After(100 * time.Microsecond):
		}
	}
	return r
}

func (r *rogue) now() mono.Time { return mono.Time(time.Since(r.at)) + 1 }
func (r *rogue) pass()          { _, _ = r.m.Progress(r.now()) }

// run makes passes until stop, and calls fn now and then.
func (r *rogue) run(stop <-chan struct{}, every time.Duration, fn func(n int)) {
	n := 0
	each(stop, every, func() {
		fn(n)
		n++
		r.pass()
	})
}

// hello asks for a receiver, and returns false if there is no room for the question.
func (r *rogue) hello(to, key uint64, messageBytes int) bool {
	b, err := json.Marshal(map[string]any{
		"kind": "hello", "key": strconv.FormatUint(key, 10), "hello": map[string]any{
			"version": 3, "to": strconv.FormatUint(to, 10), "mode": "reliable",
			"message_bytes": messageBytes, "messages": "4000", "first": "0", "ring_messages": "64",
		},
	})
	if err != nil {
		return false
	}
	f, err := r.ep.Alloc(1, len(b))
	if err != nil {
		return false
	}
	copy(f.Bytes(), b)
	if _, err := r.ep.Send(r.now(), f); err != nil {
		_ = r.ep.Free(f)
		return false
	}
	return true
}
