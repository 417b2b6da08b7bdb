package layers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/conn"
	"gobtl/btl/queue"
	"gobtl/btl/runner"
)

const (
	tag     btl.Tag = 9
	clients int     = 2
	// patience is the longest time for which an honest program may make no progress.
	patience = 10 * time.Second
)

// base is the common part of all Loads.
type base struct {
	name   string
	target Target
	work   atomic.Uint64
	err    atomic.Pointer[error]
	ctx    context.Context //nolint:containedctx // It is the lifetime of the Load.
	cancel context.CancelFunc
	group  sync.WaitGroup
	ends   []func(ctx context.Context) error // in the order in which they were made
}

func newBase(name string) *base {
	b := &base{name: name}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

func (b *base) Name() string   { return b.name }
func (b *base) Target() Target { return b.target }
func (b *base) Work() uint64   { return b.work.Load() }

func (b *base) Err() error {
	if p := b.err.Load(); p != nil {
		return *p
	}
	return nil
}

// goes makes a Load work until the end.
func (b *base) goes(work func(ctx context.Context) error) {
	b.group.Go(func() {
		for b.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(b.ctx, patience)
			err := work(ctx)
			cancel()
			if err != nil && b.ctx.Err() == nil {
				b.err.CompareAndSwap(nil, &err)
				return
			}
		}
	})
}

func (b *base) Close() error {
	b.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	for i := len(b.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, b.ends[i](ctx))
	}
	b.group.Wait()
	return err
}

// aim makes a module the target of the malicious peer.
func (b *base) aim(m *btl.Module) {
	b.target = Target{
		Load: b.name, Module: m.Name(), Address: m.Address(), Tag: tag, Leave: Leave(b.name, m.Name()),
	}
}

// openCalls starts callers of a server that answers each request with the same bytes.
func openCalls() (Load, error) {
	b := newBase("call")
	open := func() (*btl.Module, *call.Node, *runner.Runner, error) {
		m, err := openModule(btl.Config{})
		if err != nil {
			return nil, nil, nil, err
		}
		n, err := call.New(m, call.Config{Tag: tag})
		if err != nil {
			return nil, nil, nil, err
		}
		r := n.Start(runner.Config{}, nil)
		b.ends = append(b.ends, r.Close, n.Close)
		return m, n, r, nil
	}
	m, server, _, err := open()
	if err != nil {
		return nil, err
	}
	server.Handle(1, func(_ context.Context, _ *btl.Endpoint, request []byte) ([]byte, error) {
		return request, nil
	})
	b.aim(m)
	for i := range clients {
		_, node, run, err := open()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		ep, err := run.Connect(b.ctx, b.target.Module)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		request := bytes.Repeat([]byte{byte(i + 1)}, 1024)
		b.goes(func(ctx context.Context) error {
			binary.LittleEndian.PutUint64(request, binary.LittleEndian.Uint64(request)+1)
			answer, err := node.Call(ctx, ep, 1, request)
			if err == nil && !bytes.Equal(answer, request) {
				err = errors.New("another answer")
			}
			b.work.Add(1)
			return err
		})
	}
	return b, nil
}

// numbers checks the numbers of messages, which may arrive in another order.
type numbers struct {
	next  uint64
	early map[uint64]bool
}

// earlyMost is how many later messages may arrive before a message that is not lost.
const earlyMost = 1 << 16

func (n *numbers) add(number uint64) error {
	if number < n.next || n.early[number] {
		return fmt.Errorf("message %d came twice", number)
	}
	if n.early == nil {
		n.early = map[uint64]bool{}
	}
	n.early[number] = true
	for ; n.early[n.next]; n.next++ {
		delete(n.early, n.next)
	}
	if len(n.early) > earlyMost {
		return fmt.Errorf("message %d is lost", n.next)
	}
	return nil
}

// openQueue starts senders of numbered messages, and their receiver.
func openQueue() (Load, error) {
	b := newBase("queue")
	open := func() (*btl.Module, *queue.Queue, *runner.Runner, error) {
		m, err := openModule(btl.Config{})
		if err != nil {
			return nil, nil, nil, err
		}
		q, err := queue.New(m, queue.Config{Tag: tag})
		if err != nil {
			return nil, nil, nil, err
		}
		r := q.Start(runner.Config{}, nil)
		b.ends = append(b.ends, r.Close, q.Close)
		return m, q, r, nil
	}
	m, receiver, _, err := open()
	if err != nil {
		return nil, err
	}
	b.aim(m)
	const honest = 0x676f6f64
	var came [clients]numbers
	b.goes(func(ctx context.Context) error {
		msg, err := receiver.Take(ctx, nil)
		if err != nil || len(msg.Data) != 1024 || binary.LittleEndian.Uint32(msg.Data) != honest {
			return err
		}
		b.work.Add(1)
		return came[msg.Data[4]].add(binary.LittleEndian.Uint64(msg.Data[8:]))
	})
	for i := range clients {
		_, q, run, err := open()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		ep, err := run.Connect(b.ctx, b.target.Module)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		msg := make([]byte, 1024)
		binary.LittleEndian.PutUint32(msg, honest)
		msg[4] = byte(i)
		number := uint64(0)
		b.goes(func(ctx context.Context) error {
			binary.LittleEndian.PutUint64(msg[8:], number)
			number++
			return q.Send(ctx, ep, msg)
		})
	}
	return b, nil
}

// openConns starts streams to a server that sends all received bytes back.
func openConns() (Load, error) {
	b := newBase("conn")
	open := func() (*btl.Module, *conn.Node, *runner.Runner, error) {
		m, err := openModule(btl.Config{})
		if err != nil {
			return nil, nil, nil, err
		}
		n, err := conn.New(m, conn.Config{Tag: tag})
		if err != nil {
			return nil, nil, nil, err
		}
		r := n.Start(runner.Config{}, nil)
		b.ends = append(b.ends, r.Close, n.Close)
		return m, n, r, nil
	}
	m, server, _, err := open()
	if err != nil {
		return nil, err
	}
	listener, err := server.Listen("")
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.goes(func(context.Context) error {
		c, err := listener.Accept()
		if err == nil {
			b.group.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // A bad peer's ends as it likes; an honest one finds out.
			})
		}
		return err
	})
	b.aim(m)
	for i := range clients {
		_, node, run, err := open()
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		ep, err := run.Connect(b.ctx, b.target.Module)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		c, err := node.Dial(b.ctx, ep, "")
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		out, in := bytes.Repeat([]byte{byte(i + 1)}, 4096), make([]byte, 4096)
		b.goes(func(context.Context) error {
			binary.LittleEndian.PutUint64(out, binary.LittleEndian.Uint64(out)+1)
			_ = c.SetDeadline(time.Now().Add(patience))
			_, err := c.Write(out)
			if err == nil {
				_, err = io.ReadFull(c, in)
			}
			if err == nil && !bytes.Equal(in, out) {
				err = errors.New("other bytes")
			}
			b.work.Add(1)
			return err
		})
	}
	return b, nil
}
