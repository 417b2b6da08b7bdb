package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/bounded"
	"gobtl/internal/plain"
	"gobtl/internal/report"
)

// The control connection carries JSON objects, one in each line, over TCP. The first line of each
// side is a hello with a magic word and the version of this protocol, which every version can read.
const (
	controlMagic   = "gobtl-bench-control"
	ControlVersion = 4
	// controlLineMax is the largest length of a line, which limits the memory that a peer can make
	// this side use.
	controlLineMax = 256 << 10
	// runBytesMax is the maximum length of a run's name.
	runBytesMax = 64
)

// message is one line, with a type and the content of that type.
type message struct {
	Type   string       `json:"type"`
	Hello  *helloMsg    `json:"hello,omitempty"`
	Setup  *setupMsg    `json:"setup,omitempty"`
	Opened *openedMsg   `json:"opened,omitempty"`
	Round  *plan.Spec   `json:"round,omitempty"`
	Ready  *readyMsg    `json:"ready,omitempty"`
	Stop   *stopMsg     `json:"stop,omitempty"`
	Result *RoundResult `json:"result,omitempty"`
	Error  string       `json:"error,omitempty"`
}

// The method whole reports whether a message has the part of its type, so that the receiver need
// not check that.
func (m *message) whole() bool {
	switch m.Type {
	case msgHello:
		return m.Hello != nil
	case msgSetup:
		return m.Setup != nil
	case msgOpened:
		return m.Opened != nil
	case msgRound:
		return m.Round != nil
	case msgReady:
		return m.Ready != nil
	case msgStop:
		return m.Stop != nil
	case msgResult:
		return m.Result != nil
	}
	return true
}

// The constants below are the types of messages, with an arrow for the direction.
const (
	msgHello  = "hello"  // both
	msgSetup  = "setup"  // -> server: open these layers
	msgOpened = "opened" // <- client: they are open
	msgMeet   = "meet"   // -> server: connect your ends
	msgMet    = "met"    // <- client: they are connected
	msgRound  = "round"  // -> server: prepare this round
	msgReady  = "ready"  // <- client: the server is in its hot loop
	msgStop   = "stop"   // -> server: leave it
	msgResult = "result" // <- client: what the server saw of the round
	msgBye    = "bye"    // -> server: that was all
	msgError  = "error"  // both: the session is over, and why
)

type helloMsg struct {
	Magic   string `json:"magic"`
	Version int    `json:"version"`
	// Software is only for display.
	Software string `json:"software"`
	// Run is equal in all connections of one run of a client, and differs between runs.
	Run string `json:"run,omitempty"`
}

// setupMsg opens a session. setupMsg contains the addresses of the client's layers.
type setupMsg struct {
	Config layers.Config  `json:"config"`
	Layers []layers.Offer `json:"layers"`
}

type openedMsg struct {
	Layers []layers.Offer   `json:"layers"`
	Side   layers.SideFacts `json:"side"`
}

type readyMsg struct {
	Handle uint64 `json:"handle"`
}

// stopMsg ends a round. Sent is the number of messages that the client has sent in the round,
// including the warm-up, and LoadSent the number of messages of its stream in lat_load. The
// measurement took MeasuredNs, and has just ended.
type stopMsg struct {
	Sent       uint64 `json:"sent"`
	LoadSent   uint64 `json:"load_sent,omitempty"`
	MeasuredNs int64  `json:"measured_ns,omitempty"`
}

// RoundResult is one side's result of a round.
type RoundResult struct {
	Tally    layers.Tally    `json:"tally"`
	Usage    layers.Usage    `json:"usage"`
	Counters layers.Counters `json:"counters"`
	State    layers.State    `json:"state"`
	// Sent is the number of messages that this side has sent, if both sides send.
	Sent uint64 `json:"sent"`
}

// The errors below concern the control connection.
var (
	errProtocol = errors.New("control protocol violated")
	errPeerGone = errors.New("peer died: it closed the control connection")
	errVersion  = errors.New("control protocol version mismatch")
)

// remoteError is an error that the peer reported.
type remoteError struct{ text string }

func (e *remoteError) Error() string { return "peer: " + e.text }

// controlConn is one end of the control connection. One goroutine may receive while another one
// sends.
type controlConn struct {
	conn  net.Conn
	lines *bounded.Lines
	// sendLock prevents a goodbye of one goroutine from being mixed with another message.
	sendLock sync.Mutex
}

func newControlConn(conn net.Conn) *controlConn {
	return &controlConn{conn: conn, lines: bounded.NewLines(conn, controlLineMax)}
}

// send writes a message within the time-out.
func (c *controlConn) send(m *message, timeout time.Duration) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", m.Type, err)
	}
	if len(line) >= controlLineMax {
		return fmt.Errorf("%w: %s message of %d bytes", errProtocol, m.Type, len(line))
	}
	c.sendLock.Lock()
	defer c.sendLock.Unlock()
	if err := c.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return goneOr(err)
	}
	_, err = c.conn.Write(append(line, '\n'))
	return goneOr(err)
}

// receive reads the next message within the time-out, where 0 means no limit. A message of type
// error becomes a *remoteError.
func (c *controlConn) receive(timeout time.Duration) (*message, error) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return nil, goneOr(err)
	}
	line, err := c.readLine()
	if err != nil {
		return nil, err
	}
	m := new(message)
	if err := json.Unmarshal(line, m); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if m.Type == msgError {
		return nil, &remoteError{plain.Line(m.Error)}
	}
	if !m.whole() {
		return nil, fmt.Errorf("%w: empty %q", errProtocol, m.Type)
	}
	return m, nil
}

// readLine returns the next line, which is valid until the next call.
func (c *controlConn) readLine() ([]byte, error) {
	line, err := c.lines.Next()
	if errors.Is(err, bounded.ErrLong) {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	return line, goneOr(err)
}

// close ends the connection.
func (c *controlConn) close() { _ = c.conn.Close() }

// sendError sends the peer the reason for the end of the session, if the peer is connected.
func (c *controlConn) sendError(err error) {
	_ = c.send(&message{Type: msgError, Error: err.Error()}, time.Second)
}

// goneOr converts the errors with which a connection reports its end to errPeerGone.
func goneOr(err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("no answer on the control connection: %w", err)
	case errors.Is(err, net.ErrClosed):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errPeerGone
	}
	return fmt.Errorf("%w (%w)", errPeerGone, err)
}

// newHello is the first message of a side, and run names the client's run, or is empty for a
// server.
func newHello(run string) *message {
	return &message{Type: msgHello, Hello: &helloMsg{
		Magic: controlMagic, Version: ControlVersion, Software: "btlbench " + report.Version(),
		Run: run,
	}}
}

// checkHello checks the first message of the peer.
func checkHello(m *message) error {
	switch {
	case m.Type != msgHello || m.Hello.Magic != controlMagic:
		return fmt.Errorf("%w: no hello", errProtocol)
	case len(m.Hello.Run) > runBytesMax:
		return fmt.Errorf("%w: a name of %d bytes", errProtocol, len(m.Hello.Run))
	case m.Hello.Version != ControlVersion:
		return fmt.Errorf("%w: this side speaks %d (btlbench %s), the peer %d (%s): "+
			"use the same btlbench on both sides", errVersion, ControlVersion, report.Version(),
			m.Hello.Version, plain.Line(m.Hello.Software))
	}
	return nil
}

// dialControl connects to a server and exchanges hellos, all within the time-out.
func dialControl(ctx context.Context, addr, run string, timeout time.Duration,
) (*controlConn, error) {
	deadline := time.Now().Add(timeout)
	dialer := net.Dialer{Deadline: deadline}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s: %w; is \"btlbench serve\" running there?", addr, err)
	}
	c := newControlConn(conn)
	err = c.send(newHello(run), time.Until(deadline))
	var m *message
	if err == nil {
		m, err = c.receive(max(time.Until(deadline), time.Millisecond))
	}
	if err == nil {
		err = checkHello(m)
	}
	var remote *remoteError
	if err == nil || errors.As(err, &remote) || errors.Is(err, errVersion) {
		if err != nil {
			c.close()
			return nil, fmt.Errorf("%s: %w", addr, err)
		}
		return c, nil
	}
	c.close()
	return nil, fmt.Errorf("%s does not answer as a btlbench server (%w): is it the right port?",
		addr, err)
}
