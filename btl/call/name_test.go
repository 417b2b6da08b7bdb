package call_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/fabric/mem"
)

// A method may have a name instead of a number. Neither stands for the other one.
func TestNamedMethods(t *testing.T) {
	net := mem.New(mem.Config{})
	client, server := open(t, net, call.Config{}), open(t, net, call.Config{})
	says := func(what string) call.Handler {
		return func(_ context.Context, _ *btl.Endpoint, req []byte) ([]byte, error) {
			return append([]byte(what+" "), req...), nil
		}
	}
	longest := strings.Repeat("n", 255)
	for _, name := range []string{"greet", "", longest, longest + "n"} {
		err := server.HandleName(name, says("greet"))
		if ok := err == nil; ok != (name != "" && len(name) < 256) {
			t.Errorf("a name of %d bytes: %v", len(name), err)
		}
	}
	server.Handle(0, says("number 0"))
	ep, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 100_000)
	for _, c := range []struct{ name, request, want string }{
		{"greet", "Ada", "greet Ada"}, {"greet", "", "greet "}, {longest, large, "greet " + large},
	} {
		got, err := client.CallName(t.Context(), ep, c.name, []byte(c.request))
		if err != nil || string(got) != c.want {
			t.Errorf("%.20q: %.30q, %v", c.name, got, err)
		}
	}
	if got, err := client.Call(t.Context(), ep, 0, []byte("Ada")); err != nil ||
		string(got) != "number 0 Ada" {
		t.Errorf("%q, %v", got, err)
	}
	if err := server.HandleName("greet", nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"greet", "gree", "", longest + "n"} {
		if _, err := client.CallName(t.Context(), ep, name, nil); !errors.Is(err, call.ErrMethod) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

// A name that is longer than what is there, or that comes with a number, is no message of ours.
func TestNameIsWithinTheMessage(t *testing.T) {
	net := mem.New(mem.Config{})
	client, server := open(t, net, call.Config{}), open(t, net, call.Config{})
	ran := make(chan string, 8)
	handler := func(what string) call.Handler {
		return func(context.Context, *btl.Endpoint, []byte) ([]byte, error) {
			ran <- what
			return nil, nil
		}
	}
	if err := server.HandleName("ab", handler("name")); err != nil {
		t.Fatal(err)
	}
	server.Handle(5, handler("number"))
	ep, err := client.run.Connect(t.Context(), server.name)
	if err != nil {
		t.Fatal(err)
	}
	raw := func(method byte, kind, nameBytes byte, rest string) {
		msg := append(make([]byte, 16), rest...)
		msg[0], msg[7], msg[12], msg[14], msg[15] = 1, 0xff, method, kind, nameBytes
		if err := client.run.Send(t.Context(), ep, tag, msg); err != nil {
			t.Fatal(err)
		}
	}
	raw(0, 1, 3, "ab")   // longer than what is there
	raw(0, 1, 255, "ab") // much longer
	raw(5, 1, 2, "ab")   // a number as well
	raw(5, 2, 2, "ab")   // an answer
	if _, err := client.CallName(t.Context(), ep, "ab", nil); err != nil {
		t.Fatal(err)
	}
	if what := <-ran; what != "name" || len(ran) > 0 {
		t.Errorf("%q ran, and %d more", what, len(ran))
	}
}
