package runner_test

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric/mem"
)

// A second Runner of a module returns ErrTaken from all calls, and harms neither the first Runner
// nor the layers.
func TestSecondRunner(t *testing.T) {
	net := mem.New(mem.Config{})
	a, b := openLayers(t, net), openLayers(t, net)
	b.calls.Handle(1, func(_ context.Context, _ *btl.Endpoint, req []byte) ([]byte, error) {
		return req, nil
	})
	ctx := t.Context()
	ep, err := a.run.Connect(ctx, b.name)
	must(t, err)
	for what, second := range map[string]*runner.Runner{
		"runner.New":        runner.New(a.module, runner.Config{}, nil),
		"call.Node.Start":   a.calls.Start(runner.Config{}, nil),
		"conn.Node.Start":   a.conns.Start(runner.Config{}, nil),
		"queue.Queue.Start": a.queue.Start(runner.Config{}, nil),
	} {
		<-second.Done()
		_, errConnect := second.Connect(ctx, b.name)
		_, errStart := second.Start(ctx, ep, 1, nil)
		for call, err := range map[string]error{
			"Err": second.Err(), "Connect": errConnect, "Start": errStart,
			"Do":           second.Do(ctx, func(*btl.Module) error { return nil }),
			"Send":         second.Send(ctx, ep, 1, nil),
			"SendBuffered": second.SendBuffered(ctx, ep, 1, nil),
			"Flush":        second.Flush(ctx, ep),
			"Close":        second.Close(ctx),
		} {
			if !errors.Is(err, runner.ErrTaken) {
				t.Errorf("%s of the Runner of %s: %v, want ErrTaken", call, what, err)
			}
		}
		if second.InCallback() {
			t.Errorf("the Runner of %s: InCallback outside of callbacks", what)
		}
	}
	answer, err := a.calls.Call(ctx, ep, 1, []byte("still here"))
	if err != nil || string(answer) != "still here" {
		t.Errorf("a call through the first Runner: %q, %v", answer, err)
	}
}

// Err does not wait, and tells the end of the Runner only after the end.
func TestErrDoesNotWait(t *testing.T) {
	a := openLayers(t, mem.New(mem.Config{}))
	if err := a.run.Err(); err != nil {
		t.Errorf("of a running Runner: %v", err)
	}
}
