package gobtl_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"gobtl"
)

// panicVariable is set for the process of TestHandlerPanics in which a MessageHandler panics.
const panicVariable = "GOBTL_TEST_HANDLER_PANICS"

// TestHandlerPanics: a panic of a MessageHandler ends the process, although the handler runs on a
// goroutine of net/http, which recovers panics.
func TestHandlerPanics(t *testing.T) {
	if os.Getenv(panicVariable) != "" {
		panicUnderHTTP(t)
		fmt.Println("the process lives on")
		os.Exit(0)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHandlerPanics$")
	cmd.Env = append(os.Environ(), panicVariable+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if text := out.String(); err == nil || ctx.Err() != nil || strings.Contains(text, "lives on") ||
		!strings.Contains(text, "panicked: of a MessageHandler") ||
		!strings.Contains(text, "panicUnderHTTP") {
		t.Errorf("the process ends with %v:\n%s", err, text)
	}
}

// panicUnderHTTP makes a MessageHandler panic on the goroutine of an HTTP handler that calls a
// peer.
func panicUnderHTTP(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	server, client := listen(t, gobtl.Config{}, "127.0.0.1:0"), open(t, gobtl.Config{})
	must(t, server.Handle("wait", func(ctx context.Context, req *gobtl.Request) ([]byte, error) {
		for ctx.Err() == nil { // messages come while the client waits for the answer
			_ = req.Peer.Send(ctx, 1, nil)
			time.Sleep(time.Millisecond)
		}
		return nil, ctx.Err()
	}))
	must(t, client.HandleMessage(1, func(*gobtl.Peer, []byte) {
		if bytes.Contains(debug.Stack(), []byte("net/http")) {
			panic("of a MessageHandler")
		}
	}))
	peer := dial(t, client, server.Address())
	front := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
		for ctx.Err() == nil {
			short, done := context.WithTimeout(ctx, 100*time.Millisecond)
			_, _ = peer.Call(short, "wait", nil)
			done()
		}
	}))
	answer, err := front.Client().Get(front.URL)
	if err == nil {
		_ = answer.Body.Close()
	}
	time.Sleep(200 * time.Millisecond) // A process that ends itself does so now.
}
