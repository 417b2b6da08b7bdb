package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEcho runs the example as a reader would: two processes, and a text that comes back; first a
// tiny one, then one of many packets.
func TestEcho(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "echo")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.Command(bin)
	server.Stderr = os.Stderr
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed, so never nil
	}()
	watchdog := time.AfterFunc(30*time.Second, func() { _ = server.Process.Kill() })
	defer watchdog.Stop()
	name, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server printed no name: %v", err)
	}
	for _, text := range []string{"hello", strings.Repeat("many packets ", 8000)} {
		out, err := exec.Command(bin, strings.TrimSpace(name), text).CombinedOutput()
		if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != text {
			t.Fatalf("sent %d bytes, got %d back, %v: %.80s", len(text), len(got), err, got)
		}
	}
	if out, err := exec.Command(bin, "not-a-name", "x").CombinedOutput(); err == nil {
		t.Errorf("a malformed name was accepted: %s", out)
	}
}
