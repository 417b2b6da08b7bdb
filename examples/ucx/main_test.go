package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// build is the program.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "ucx")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// both runs a server and its client with the same flags, and returns what each has said and how it
// has ended.
func both(t *testing.T, bin, sample, to string, flags ...string) (said [2]string, ended [2]error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, bin, append([]string{sample, "-p", "0"}, flags...)...)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var trouble bytes.Buffer
	server.Stderr = &trouble
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, &trouble)
	}
	port := strings.TrimSpace(first[strings.LastIndex(first, ":")+1:])
	client := exec.CommandContext(ctx, bin,
		append([]string{sample, "-p", port, to, "127.0.0.1"}, flags...)...)
	text, clientErr := client.CombinedOutput()
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	ended = [2]error{server.Wait(), clientErr}
	return [2]string{string(rest) + trouble.String(), string(text)}, ended
}

// TestClientServer has messages be sent and checked in every way, small and large, by two
// processes.
func TestClientServer(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, transport := range []string{"udp", "shm"} {
		for _, how := range []string{"stream", "tag", "am"} {
			for _, size := range [][]string{
				{"-s", "16"},
				{"-s", "300000", "-v", "3", "-i", "5"},
				{"-i", "0"},
			} {
				flags := append([]string{"-t", transport, "-c", how}, size...)
				said, ended := both(t, bin, "client_server", "-a", flags...)
				for i := range said {
					if ended[i] != nil || !strings.Contains(said[i], how+": ") ||
						!strings.Contains(said[i], "were right") {
						t.Errorf("%v: %v: %q", flags, ended[i], said[i])
					}
				}
			}
		}
	}
}

// TestHello has a text be told, by polling and sleeping.
func TestHello(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, transport := range []string{"udp", "shm"} {
		for _, wait := range []string{"-b", "-w", "-f"} {
			said, ended := both(t, bin, "hello_world", "-n", "-t", transport, wait, "-s", "100000")
			if ended != [2]error{} || said[1] != "100000 bytes: Hello, world!\n" {
				t.Errorf("%s, %s: %v, %q", transport, wait, ended, said)
			}
		}
	}
}

// TestFailures has one side die: the other one says so, and does not wait for ever.
func TestFailures(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for _, transport := range []string{"udp", "shm"} {
		for fail, victim := range map[string]int{"send": 0, "recv": 1, "keepalive": 0} {
			said, ended := both(t, bin, "hello_world", "-n", "-t", transport, "-w", "-e", fail)
			var exit *exec.ExitError
			if !errors.As(ended[victim], &exit) || exit.ExitCode() != died || ended[1-victim] != nil ||
				!strings.Contains(said[1-victim], "the other side has failed: pml: peer is gone") {
				t.Errorf("%s, %s: %v, %q", transport, fail, ended, said)
			}
		}
	}
}

// TestNobodyDials has a client leave when it has met the server, which does not wait for ever.
func TestNobodyDials(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	server := exec.CommandContext(ctx, build(t), "client_server", "-p", "0", "-c", "stream")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var trouble bytes.Buffer
	server.Stderr = &trouble
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Dial("tcp", strings.TrimSpace(strings.TrimPrefix(first, "listening at ")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exchange(tcp, []byte("nobody")); err != nil {
		t.Error(err)
	}
	tcp.Close()
	err = server.Wait()
	if ctx.Err() != nil || err == nil || !strings.Contains(trouble.String(), "nobody dials") {
		t.Errorf("%v: %s", err, &trouble)
	}
}

// TestUsage has what makes no sense be refused.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{},
		{"perftest"},
		{"hello_world", "-s", "0"},
		{"hello_world", "-m", "cuda"},
		{"hello_world", "-e", "fire"},
		{"client_server", "-c", "rma"},
		{"client_server", "-v", "0"},
		{"client_server", "-i", "-1"},
		{"client_server", "more"},
	} {
		if err := run(args); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
