package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// pipe returns the two ends of a control connection.
func pipe(t *testing.T) (a, b *controlConn) {
	t.Helper()
	x, y := net.Pipe()
	t.Cleanup(func() { x.Close(); y.Close() })
	return newControlConn(x), newControlConn(y)
}

func TestControlExchange(t *testing.T) {
	a, b := pipe(t)
	sent := &message{Type: msgRound, Round: &plan.Spec{
		Test: plan.TestLat, Layer: plan.LayerBTL, SizeBytes: 8, Window: 1, Handle: 1<<64 - 1,
	}}
	go func() { _ = a.send(sent, time.Second) }()
	m, err := b.receive(5 * time.Second)
	if err != nil || m.Type != msgRound || *m.Round != *sent.Round {
		t.Fatalf("%+v, %v", m, err)
	}
	go a.sendError(errors.New("two\nlines"))
	var remote *remoteError
	_, err = b.receive(5 * time.Second)
	if !errors.As(err, &remote) || remote.Error() != "peer: two lines" {
		t.Fatalf("%v", err)
	}
}

func TestControlBadInput(t *testing.T) {
	for _, c := range []struct {
		name, input string
		want        error
	}{
		{"nothing", "", errPeerGone},
		{"half a line", `{"type":"hello"`, errPeerGone},
		{"no JSON", "GET / HTTP/1.1\r\n", errProtocol},
		{"binary", "\x16\x03\x01\x02\x00\x01\n", errProtocol},
		{"array", "[]\n", errProtocol},
		{"wrong kind", `{"type":5}` + "\n", errProtocol},
		{"empty setup", `{"type":"setup"}` + "\n", errProtocol},
		{"empty result", `{"type":"result","stop":{}}` + "\n", errProtocol},
		{"endless line", strings.Repeat("x", controlLineMax+2), errProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, y := net.Pipe()
			defer y.Close()
			go func() {
				_, _ = io.WriteString(x, c.input)
				x.Close()
			}()
			if _, err := newControlConn(y).receive(5 * time.Second); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestControlTimeout(t *testing.T) {
	_, b := pipe(t)
	_, err := b.receive(10 * time.Millisecond)
	if err == nil || errors.Is(err, errPeerGone) || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v", err)
	}
}

func TestCheckHello(t *testing.T) {
	if err := checkHello(newHello("")); err != nil {
		t.Error(err)
	}
	other := newHello("")
	other.Hello.Version++
	if err := checkHello(other); !errors.Is(err, errVersion) ||
		!strings.Contains(err.Error(), "use the same btlbench on both sides") {
		t.Error(err)
	}
	stranger := newHello("")
	stranger.Hello.Magic = "other"
	for _, m := range []*message{stranger, {Type: msgBye}} {
		if err := checkHello(m); !errors.Is(err, errProtocol) {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

// TestSessionNoticesDeath closes the peer's end while a round runs.
func TestSessionNoticesDeath(t *testing.T) {
	a, b := pipe(t)
	s := newSession(a)
	defer s.close()
	r := &layers.Round{}
	s.begin(r)
	b.close()
	<-s.failed
	if !errors.Is(s.err(), errPeerGone) {
		t.Errorf("%v", s.err())
	}
	for deadline := time.Now().Add(5 * time.Second); !r.Halted.Load(); {
		if time.Now().After(deadline) {
			t.Fatal("the round goes on")
		}
	}
	late := &layers.Round{}
	s.begin(late)
	if !late.Halted.Load() {
		t.Error("a round began after the end")
	}
	if _, err := s.await(msgReady, time.Second); !errors.Is(err, errPeerGone) {
		t.Errorf("%v", err)
	}
}

// TestSessionAsk has an answer of the right type, one of another, and none.
func TestSessionAsk(t *testing.T) {
	a, b := pipe(t)
	s := newSession(a)
	defer s.close()
	go func() {
		for _, answer := range []string{msgMet, msgBye} {
			if _, err := b.receive(0); err != nil {
				return
			}
			_ = b.send(&message{Type: answer}, 5*time.Second)
		}
		_, _ = b.receive(0)
	}()
	ask := func(timeout time.Duration) error {
		_, err := s.ask(&message{Type: msgMeet}, msgMet, 5*time.Second, timeout)
		return err
	}
	if err := ask(5 * time.Second); err != nil {
		t.Error(err)
	}
	if err := ask(5 * time.Second); !errors.Is(err, errProtocol) {
		t.Errorf("a goodbye is taken for an answer: %v", err)
	}
	if err := ask(time.Millisecond); err == nil || !strings.Contains(err.Error(), "no \"met\"") {
		t.Errorf("no answer: %v", err)
	}
}

// FuzzControl reads any bytes as messages.
func FuzzControl(f *testing.F) {
	for _, m := range []*message{
		newHello(""), {Type: msgRound, Round: &plan.Spec{}}, {Type: msgError},
	} {
		f.Add([]byte(fmt.Sprintf("%+v\n", m)))
	}
	f.Add([]byte(`{"type":"hello","hello":{"magic":"gobtl-bench-control","version":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newControlConn(&readOnlyConn{r: bytes.NewReader(data)})
		for {
			m, err := c.receive(0)
			var remote *remoteError
			if errors.As(err, &remote) {
				continue
			}
			if err != nil {
				return
			}
			_ = checkHello(m)
			if m.Round != nil {
				_ = m.Round.Validate()
			}
			if m.Setup != nil {
				_ = m.Setup.Config.Validate()
			}
		}
	})
}

// readOnlyConn is a connection that delivers bytes.
type readOnlyConn struct {
	net.Conn
	r io.Reader
}

func (c *readOnlyConn) Read(b []byte) (int, error)      { return c.r.Read(b) }
func (c *readOnlyConn) SetReadDeadline(time.Time) error { return nil }
