package launch

import (
	"bufio"
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// An Abort whose context ends before its line was written returns an error, also if the end of the
// context has closed the connection under another call that waits.
func TestAbortUnwritten(t *testing.T) {
	server, client := net.Pipe()
	defer server.Close()
	j := &Job{cfg: Config{}.withDefaults(), size: 2, name: "job", link: newLink(client)}
	fenced := make(chan error, 1)
	go func() { fenced <- j.Fence(t.Context()) }()
	if _, err := bufio.NewReader(server).ReadString('\n'); err != nil { // and reads nothing more
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Abort(ended, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("Abort: %v", err)
	}
	if err := <-fenced; !errors.Is(err, ErrGone) {
		t.Errorf("Fence: %v", err)
	}
}

// An Abort over a connection that was closed before returns why, because nobody was told.
func TestAbortOfGone(t *testing.T) {
	server, client := net.Pipe()
	server.Close()
	j := &Job{cfg: Config{Timeout: time.Minute}.withDefaults(), size: 2, link: newLink(client)}
	if err := j.Fence(t.Context()); !errors.Is(err, ErrGone) {
		t.Errorf("Fence: %v", err)
	}
	if err := j.Abort(t.Context(), 3); !errors.Is(err, ErrGone) {
		t.Errorf("Abort: %v", err)
	}
}
