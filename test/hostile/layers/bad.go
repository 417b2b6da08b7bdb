package layers

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the network of all
)

// pace is the time between two actions of a malicious peer.
const pace = 5 * time.Millisecond

// Bads lists all kinds of malicious peers.
func Bads() []Bad {
	return []Bad{
		{Name: "comes and goes", Run: comesAndGoes},
		{Name: "junk", Run: junk},
		{Name: "too long", Run: tooLong},
		{Name: "takes nothing", Run: takesNothing},
		{Name: "strangers", Run: strangers},
	}
}

// openModule opens a module on the loopback interface.
func openModule(cfg btl.Config) (*btl.Module, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	sizes, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, err
	}
	d, err := fabric.Open(infos[0], sizes)
	if err != nil {
		return nil, err
	}
	m, err := btl.Open(d, cfg)
	if err != nil {
		_ = d.Close()
	}
	return m, err
}

// badPeer is the module of a malicious peer, which a Runner drives.
type badPeer struct {
	run  *runner.Runner
	ep   *btl.Endpoint
	life int
}

func openBad() (*badPeer, error) {
	m, err := openModule(btl.Config{SendBuffers: 256})
	if err != nil {
		return nil, err
	}
	return &badPeer{run: runner.New(m, runner.Config{}, nil)}, nil
}

// close ends the module without a goodbye, if possible.
func (b *badPeer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	b.abort(ctx)
	_ = b.run.Close(ctx) // It may be late.
}

// connect returns an endpoint, which is new if the target has ended the previous one.
func (b *badPeer) connect(ctx context.Context, to Target) bool {
	if b.ep != nil && b.run.Do(ctx, func(*btl.Module) error { return b.ep.Err() }) == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var err error
	b.life++
	b.ep, err = b.run.Connect(ctx, to.Module)
	return err == nil
}

func (b *badPeer) abort(ctx context.Context) {
	if b.ep != nil {
		_ = b.run.Do(ctx, func(*btl.Module) error { b.ep.Abort(); return nil }) // It may have ended.
		b.ep = nil
	}
}

// each repeats an action at the interval pace.
func each(ctx context.Context, to Target, do func(ctx context.Context, b *badPeer)) error {
	b, err := openBad()
	if err != nil {
		return err
	}
	defer b.close()
	for ctx.Err() == nil {
		if b.connect(ctx, to) {
			inner, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			do(inner, b)
			cancel()
		}
		sleep(ctx, pace)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// comesAndGoes repeatedly sends messages and aborts the connection.
func comesAndGoes(ctx context.Context, to Target) error {
	return each(ctx, to, func(ctx context.Context, b *badPeer) {
		for _, msg := range to.Leave(b.life) {
			_ = b.run.SendBuffered(ctx, b.ep, to.Tag, msg) // It may be refused.
		}
		_ = b.run.Flush(ctx, b.ep)
		b.abort(ctx)
	})
}

// junk sends random bytes.
func junk(ctx context.Context, to Target) error {
	random := rand.New(rand.NewPCG(1, 2))
	return each(ctx, to, func(ctx context.Context, b *badPeer) {
		msg := make([]byte, random.IntN(3000))
		for i := range msg {
			msg[i] = byte(random.Uint32() >> (8 * random.IntN(4)))
		}
		tag := to.Tag
		if random.IntN(4) == 0 {
			tag = btl.Tag(random.IntN(int(btl.TagMax)))
		}
		_ = b.run.SendBuffered(ctx, b.ep, tag, msg)
	})
}

// tooLong sends messages above every size limit of the receiver.
func tooLong(ctx context.Context, to Target) error {
	msg := make([]byte, 4<<20)
	return each(ctx, to, func(ctx context.Context, b *badPeer) {
		copy(msg, to.Leave(b.life)[0])
		_ = b.run.Send(ctx, b.ep, to.Tag, msg)
		_ = b.run.Flush(ctx, b.ep)
		sleep(ctx, 10*pace)
	})
}

// takesNothing sends valid messages, and stops calling Progress for a while, so that it neither
// receives nor acknowledges anything.
func takesNothing(ctx context.Context, to Target) error {
	return each(ctx, to, func(ctx context.Context, b *badPeer) {
		for range 20 {
			for _, msg := range to.Leave(b.life) {
				_ = b.run.SendBuffered(ctx, b.ep, to.Tag, msg)
			}
		}
		_ = b.run.Do(context.Background(), func(*btl.Module) error { // Its module stands still.
			time.Sleep(300 * time.Millisecond)
			return nil
		})
	})
}

// strangers sends datagrams that are not of the transport, or that only begin like datagrams of the
// transport.
func strangers(ctx context.Context, to Target) error {
	first, _, _ := strings.Cut(to.Address, ",")
	conn, err := net.Dial("udp", first)
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(3, 4))
	for ctx.Err() == nil {
		for range 10 {
			b := make([]byte, 1+random.IntN(1400))
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			copy(b, to.Module[:random.IntN(min(len(b), len(to.Module)))])
			if _, err := conn.Write(b); err != nil && errors.Is(err, net.ErrClosed) {
				return err
			}
		}
		sleep(ctx, pace)
	}
	return nil
}
