package pair

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/btl/runner"
)

// service is the service of the server. Each Conn of the service begins with two numbers of 4
// bytes: the number of bytes after which the server answers, and the number of bytes of the answer.
const service = "pair"

const (
	headBytes   = 8
	answerBytes = 1 // of a window of messages
)

// connNode is either end of the Conns.
type connNode struct {
	node *conn.Node
	run  *runner.Runner
	peer *btl.Endpoint // the client's server
}

func openConns(o Options) (*connNode, string, error) {
	m, name, err := open(o)
	if err != nil {
		return nil, "", err
	}
	node, err := conn.New(m, conn.Config{})
	if err != nil {
		return nil, "", err
	}
	return &connNode{node: node, run: node.Start(runner.Config{Wait: o.Wait}, nil)}, name, nil
}

func (c *connNode) close(ctx context.Context) error {
	return closeAll(ctx, c.node.Close, c.run.Close)
}

func serveConns(ctx context.Context, o Options, to io.Writer) error {
	c, name, err := openConns(o)
	if err != nil {
		return err
	}
	l, err := c.node.Listen(service)
	if err != nil {
		return errors.Join(err, c.close(ctx))
	}
	go func() {
		for {
			one, err := l.Accept()
			if err != nil {
				return // The Node is closed.
			}
			go func() { _ = answer(one, o.mostBytes()) }() // The client reports an error of its own.
		}
	}()
	return errors.Join(serving(ctx, to, name), c.close(ctx))
}

// errNumbers means that a client asks for more bytes than the Options allow.
var errNumbers = errors.New("the numbers of bytes do not fit the options")

// mostBytes returns the largest number of bytes of a window of messages.
func (o *Options) mostBytes() (most int) {
	for _, size := range o.Sizes {
		most = max(most, o.Window*size)
	}
	return most
}

// The function answer answers the messages of one Conn until the client closes the Conn. The
// numbers of bytes for which the client asks are 1 to most, or answer returns errNumbers.
func answer(c net.Conn, most int) error {
	defer c.Close()
	var head [headBytes]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	asked, answered := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if min(asked, answered) < 1 || int64(max(asked, answered)) > int64(most) {
		return fmt.Errorf("%w: %d and %d, want 1 to %d", errNumbers, asked, answered, most)
	}
	in, out := make([]byte, asked), make([]byte, answered)
	for {
		if _, err := io.ReadFull(c, in); err != nil {
			return err
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
	}
}

func dialConns(ctx context.Context, o Options, name string) (client, error) {
	c, _, err := openConns(o)
	if err != nil {
		return nil, err
	}
	c.peer, err = connect(ctx, c.run, name)
	return c, err
}

func (c *connNode) measure(ctx context.Context, o Options, test string, size int) (
	median, p99 float64, err error,
) {
	messages, answered := 1, size
	switch test {
	case latency:
	case bw:
		messages, answered = o.Window, answerBytes
	default:
		return 0, 0, errTest
	}
	one, err := c.node.Dial(ctx, c.peer, service)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = one.Close() }() // The measurement is over, or has failed.
	head := binary.LittleEndian.AppendUint32(nil, uint32(messages*size))
	head = binary.LittleEndian.AppendUint32(head, uint32(answered))
	if _, err := one.Write(head); err != nil {
		return 0, 0, err
	}
	out, in := make([]byte, size), make([]byte, answered)
	took, err := timed(o.Duration, func() error {
		for range messages {
			if _, err := one.Write(out); err != nil {
				return err
			}
		}
		_, err := io.ReadFull(one, in)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	if test == latency {
		median, p99 = halves(took)
	} else {
		median, p99 = rates(took, messages*size)
	}
	return median, p99, nil
}
