package runner

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// unwindVariable tells a process of this test which callback ends in which way.
const unwindVariable = "GOBTL_TEST_UNWIND"

// unwindings are the callbacks that end without a return, and what the text of the process says.
// The function with the callback is in the stack of the text.
var unwindings = []struct {
	name string
	run  func(p *unwindingPair, end func())
	says string
}{
	{"panic-in-do", (*unwindingPair).do, "unwindingPair).do.func"},
	{"panic-in-handler", (*unwindingPair).handle, "unwindingPair).handle.func"},
	{"panic-in-long-pass", (*unwindingPair).longPass, "unwindingPair).longPass.func"},
	{"goexit-in-do", (*unwindingPair).do, "unwindingPair).do.func"},
	{"goexit-in-handler", (*unwindingPair).handle, "unwindingPair).handle.func"},
	{"goexit-at-close", (*unwindingPair).close, "unwindingPair).close.func"},
}

// TestCallbackUnwinds: a callback that panics, or that ends its goroutine, ends the process,
// although the program recovers the panics of the goroutine that drives the module.
func TestCallbackUnwinds(t *testing.T) {
	if name := os.Getenv(unwindVariable); name != "" {
		unwind(name)
	}
	for _, u := range unwindings {
		t.Run(u.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCallbackUnwinds$")
			cmd.Env = append(os.Environ(), unwindVariable+"="+u.name)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			text, want := out.String(), "a callback, or the module, has panicked: of this test"
			if strings.HasPrefix(u.name, "goexit") {
				want = "runtime.Goexit"
			}
			if err == nil || ctx.Err() != nil || !strings.Contains(text, want) ||
				!strings.Contains(text, u.says) || strings.Contains(text, "lives on") {
				t.Errorf("the process ends with %v, want %q and %q in:\n%s", err, want, u.says, text)
			}
		})
	}
}

// unwind is the main function of the process whose callback ends without a return. A process that
// lives on says so, and has the exit status 0.
func unwind(name string) {
	end := func() { panic("of this test") }
	if strings.HasPrefix(name, "goexit") {
		end = runtime.Goexit
	}
	for _, u := range unwindings {
		if u.name == name {
			p := new(unwindingPair)
			over := make(chan struct{})
			go func() {
				defer close(over)
				defer func() { fmt.Println("recovered:", recover()) }()
				u.run(p, end)
			}()
			select {
			case <-over:
			case <-time.After(20 * time.Second):
			}
		}
	}
	time.Sleep(200 * time.Millisecond) // A process that ends itself does so now.
	fmt.Println("the process lives on")
	os.Exit(0)
}

// unwindingPair is a Runner, and a peer that it is connected to.
type unwindingPair struct {
	run, peer *Runner
	toPeer    *btl.Endpoint
	toRun     *btl.Endpoint
}

func (p *unwindingPair) open(cfg Config, handler btl.Handler,
	onEvent func(*btl.Endpoint, btl.Event, error),
) {
	b := &bench{tb: stopper{}, net: mem.New(mem.Config{})}
	m, peer := b.open(btl.Config{}), b.open(btl.Config{})
	stop(m.Handle(1, handler))
	p.run, p.peer = New(m, cfg, onEvent), New(peer, Config{}, nil)
	var err error
	p.toPeer, err = p.run.Connect(context.Background(), peer.Name())
	stop(err)
	p.toRun, err = p.peer.Connect(context.Background(), m.Name())
	stop(err)
}

// stopper is the test of a process that is none.
type stopper struct{ testing.TB }

func (stopper) Helper() {}

func (stopper) Fatal(args ...any) { stop(fmt.Errorf("%v", args)) }

func (stopper) Fatalf(format string, args ...any) { stop(fmt.Errorf(format, args...)) }

func stop(err error) {
	if err != nil {
		fmt.Println("the process lives on, and fails:", err)
		os.Exit(0)
	}
}

func (p *unwindingPair) do(end func()) {
	p.open(Config{}, func(*btl.Endpoint, btl.Tag, []byte) {}, nil)
	for range 10000 {
		stop(p.run.Do(context.Background(), func(*btl.Module) error {
			if driven("unwind.func") {
				end()
			}
			return nil
		}))
	}
}

// driveAndWait drives the module until ctx ends, while the peer sends one message after the other.
func (p *unwindingPair) driveAndWait(ctx context.Context) {
	go func() {
		for ctx.Err() == nil {
			_ = p.peer.SendBuffered(ctx, p.toRun, 1, nil)
			time.Sleep(time.Millisecond)
		}
	}()
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		_ = p.run.Await(short, func(*btl.Module, Waker) error { return nil })
		cancel()
	}
}

// driven reports whether the goroutine that runs this callback has called a function of this name.
func driven(by string) bool { return bytes.Contains(debug.Stack(), []byte(by)) }

func (p *unwindingPair) handle(end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	inHandler := func(*btl.Endpoint, btl.Tag, []byte) {
		if driven("driveAndWait") {
			end()
		}
	}
	p.open(Config{}, inHandler, nil)
	p.driveAndWait(ctx)
}

func (p *unwindingPair) longPass(end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	inLongPass := func(time.Duration) {
		if driven("driveAndWait") {
			end()
		}
	}
	cfg := Config{LongPass: time.Nanosecond, OnLongPass: inLongPass}
	p.open(cfg, func(*btl.Endpoint, btl.Tag, []byte) {}, nil)
	p.driveAndWait(ctx)
}

// close ends the Runner's own goroutine in the event of the endpoint that Close ends.
func (p *unwindingPair) close(end func()) {
	inEvent := func(_ *btl.Endpoint, ev btl.Event, _ error) {
		if ev == btl.EventClosed {
			end()
		}
	}
	p.open(Config{}, func(*btl.Endpoint, btl.Tag, []byte) {}, inEvent)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.run.Close(ctx)
}
