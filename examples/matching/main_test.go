package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
)

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "matching")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// start starts a process, which is killed at the end, and returns it and its first line.
func start(t *testing.T, bin string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // killed, if it has not ended
	return cmd, bufio.NewReader(stdout)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	text, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// TestProcesses: messages of one process arrive at another one in their order, although the tiny
// ones overtake the large ones on the way, and a receive gets the message whose tag it names.
func TestProcesses(t *testing.T) {
	t.Parallel()
	bin := build(t)
	_, listener := start(t, bin, "listen", "127.0.0.1:0")
	_, sender := start(t, bin, "send", line(t, listener))
	for _, want := range []string{
		"urgent: all blocks are on their way", "100 blocks, 0 out of order",
	} {
		if got := line(t, listener); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := line(t, sender); got != "the receiver has all messages" {
		t.Errorf("the sender prints %q", got)
	}
}

// TestKilled: a receive from a process that was killed ends with an error.
func TestKilled(t *testing.T) {
	t.Parallel()
	bin := build(t)
	process, listener := start(t, bin, "listen", "127.0.0.1:0")
	address := line(t, listener)
	l := open("127.0.0.1")
	defer l.module.Close()
	to, err := l.module.Dial(l.now(), address)
	if err != nil {
		t.Fatal(err)
	}
	l.until(to.Connected)
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.send(to, tagUrgent, []byte("nobody reads this"))
	var ended error
	l.layer.Recv(&Receive{From: to, Done: func(_ *btl.Endpoint, _ uint64, _ []byte, err error) {
		ended = err
	}})
	l.until(func() bool { return ended != nil })
	if !strings.Contains(ended.Error(), "btl: peer does not answer") {
		t.Errorf("the receive ended with %v", ended)
	}
}

// TestFlood: a peer that sends more than this side keeps is ended, and no other one.
func TestFlood(t *testing.T) {
	t.Parallel()
	ours, honest, bad := open("127.0.0.1:0"), open("127.0.0.1:0"), open("127.0.0.1:0")
	all := []*loop{ours, honest, bad}
	drive := func() {
		for _, l := range all {
			if _, err := l.module.Progress(l.now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var to [2]*btl.Endpoint
	for i, l := range all[1:] {
		defer l.module.Close()
		var err error
		if to[i], err = l.module.Dial(l.now(), ours.module.Address()); err != nil {
			t.Fatal(err)
		}
		for !to[i].Connected() {
			drive()
		}
	}
	defer ours.module.Close()
	if err := honest.layer.Send(honest.now(), to[0], tagUrgent, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	sent, block := 0, make([]byte, 1<<20)
	for ; to[1].Err() == nil; sent++ {
		if err := bad.layer.Send(bad.now(), to[1], tagBlock, block); err != nil {
			t.Fatal(err)
		}
		for packets, fragments := 1, 1; packets+fragments > 0 && to[1].Err() == nil; {
			drive()
			packets, fragments = to[1].Outstanding()
		}
	}
	if most := heldMax>>20 + 1; sent > most {
		t.Errorf("%d blocks of the peer were taken, want at most %d", sent, most)
	}
	if len(ours.layer.unexpected) != 1 {
		t.Errorf("%d messages are kept, want that of the honest peer", len(ours.layer.unexpected))
	}
	if to[0].Err() != nil {
		t.Errorf("the honest peer was ended: %v", to[0].Err())
	}
}
