package gobtl_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gobtl"
)

// TestOnePrefix checks that the text of an error has the name of the package once.
func TestOnePrefix(t *testing.T) {
	t.Parallel()
	node, err := gobtl.Open()
	if err != nil {
		t.Fatal(err)
	}
	_, noPort := node.Dial(t.Context(), "127.0.0.1")
	_, zero := node.Dial(t.Context(), "127.0.0.1:0")
	server, err := gobtl.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer, err := node.Dial(t.Context(), server.Address())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	_, closed := node.Dial(t.Context(), "127.0.0.1:4000")
	_, call := peer.Call(t.Context(), "x", nil)
	send := peer.Send(t.Context(), 1, nil)
	for err, is := range map[error]error{
		noPort: gobtl.ErrAddress, zero: gobtl.ErrAddress, closed: gobtl.ErrClosed,
		call: nil, send: nil, peer.Err(): nil,
	} {
		if err == nil || strings.Count(err.Error(), "gobtl: ") != 1 || is != nil && !errors.Is(err, is) {
			t.Errorf("%v, want an error of %v with one prefix", err, is)
		}
	}
	if err := server.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
