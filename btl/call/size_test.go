package call_test

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// TestLongMessages: a request or an answer that is longer than MessageBytes of its receiver is
// refused at its first packet. Its Call ends with an error that says so, and the next call goes on.
func TestLongMessages(t *testing.T) {
	const most, longer = 1 << 18, 1 << 20
	net := mem.New(mem.Config{})
	client := openWith(t, net, call.Config{}, btl.Config{})
	modest := openWith(t, net, call.Config{MessageBytes: most}, btl.Config{})
	run := make(chan int, 4)
	for _, s := range []*side{client, modest} {
		s.Handle(1, func(_ context.Context, _ *btl.Endpoint, q []byte) ([]byte, error) {
			run <- len(q)
			return make([]byte, longer), nil
		})
		s.HandleInline(2, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
			run <- len(q)
			return append(a, make([]byte, longer)...), nil
		})
		s.HandleInline(3, func(_ *btl.Endpoint, q, a []byte) ([]byte, error) {
			return append(a, q...), nil
		})
	}
	toModest, err := client.run.Connect(t.Context(), modest.name)
	if err != nil {
		t.Fatal(err)
	}
	toClient, err := modest.run.Connect(t.Context(), client.name)
	if err != nil {
		t.Fatal(err)
	}
	for method := uint16(1); method <= 2; method++ {
		_, err := client.Call(t.Context(), toModest, method, make([]byte, longer))
		if !errors.Is(err, call.ErrRequestSize) || !errors.Is(err, btl.ErrUnwanted) || len(run) != 0 {
			t.Errorf("method %d, a long request: %v, %d handlers have run", method, err, len(run))
		}
		_, err = modest.Call(t.Context(), toClient, method, make([]byte, most))
		if !errors.Is(err, call.ErrAnswerSize) || len(run) != 1 || <-run != most {
			t.Errorf("method %d, a long answer: %v", method, err)
		}
	}
	a, err := client.Call(t.Context(), toModest, 3, make([]byte, most))
	if err != nil || len(a) != most {
		t.Errorf("afterwards: %d bytes, %v", len(a), err)
	}
	if _, err := client.Call(t.Context(), toModest, 1, nil); err != nil {
		t.Errorf("a long answer to a Node that takes it: %v", err)
	}
}
