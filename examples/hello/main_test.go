package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestHello runs the example as a reader would: two processes, of which one listens at a port that
// is free.
func TestHello(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "hello")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	server := exec.Command(bin, "serve", "127.0.0.1:0")
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
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the server printed no address: %v", err)
	}
	out, err := exec.Command(bin, "greet", strings.TrimSpace(address), "Ada", "Grace").CombinedOutput()
	if err != nil || string(out) != "hello Ada\nhello Grace\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := exec.Command(bin, "greet", "no-port", "Ada").CombinedOutput(); err == nil {
		t.Errorf("an address without a port was taken: %s", out)
	}
}
