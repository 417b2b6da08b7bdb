package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWeb fetches a short file, a long one and a missing one from another process.
func TestWeb(t *testing.T) {
	bin, folder := filepath.Join(t.TempDir(), "web"), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	long := strings.Repeat("a line of text\n", 1<<18)
	for name, text := range map[string]string{"short.txt": "hello\n", "long.txt": long} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := exec.Command(bin, "serve", "127.0.0.1:0", folder)
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
	for path, want := range map[string]string{
		"/short.txt": "200 OK\nhello\n", "/long.txt": "200 OK\n" + long,
		"/none.txt": "404 Not Found\n404 page not found\n",
	} {
		out, err := exec.Command(bin, "get", strings.TrimSpace(address), path).CombinedOutput()
		if err != nil || !bytes.Equal(out, []byte(want)) {
			t.Errorf("%s: %d bytes, %.100q, %v", path, len(out), out, err)
		}
	}
}
