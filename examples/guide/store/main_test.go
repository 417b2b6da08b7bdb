package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// copied is what a member prints when it has copied the values of the others.
const copied = "copied from all others\n"

// cluster is three members, each a process.
type cluster struct {
	bin     string
	members []string // their addresses
	metrics []string
	procs   [3]*exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{bin: filepath.Join(t.TempDir(), "store")}
	if out, err := exec.Command("go", "build", "-o", c.bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range c.procs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c.metrics = append(c.metrics, l.Addr().String())
		c.members = append(c.members, freeAddress(t))
	}
	return c
}

// freeAddress returns an address of loopback at which nobody listens, nor at the next port.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		first, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		at := *first.LocalAddr().(*net.UDPAddr)
		next := at
		next.Port++
		second, err := net.ListenUDP("udp4", &next)
		_ = first.Close()
		if err == nil {
			_ = second.Close()
			return at.String()
		}
	}
	t.Fatal("no two ports in a row are free")
	return ""
}

// start starts member i, and returns when it has copied the values.
func (c *cluster) start(t *testing.T, i int) func() string {
	t.Helper()
	args := []string{"serve", c.metrics[i], c.members[i]}
	for j, m := range c.members {
		if j != i {
			args = append(args, m)
		}
	}
	cmd := exec.CommandContext(t.Context(), c.bin, args...)
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.procs[i] = cmd
	t.Cleanup(func() { _ = cmd.Wait() }) // killed
	return func() string {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil {
			t.Fatalf("member %d: %v", i, err)
		}
		return line
	}
}

func (c *cluster) kill(t *testing.T, i int) {
	t.Helper()
	if err := c.procs[i].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.procs[i].Wait() // killed, so never nil
}

// client runs a client, which must succeed, and returns what it prints.
func (c *cluster) client(t *testing.T, command string, words ...string) string {
	t.Helper()
	out, err := c.run(command, words...)
	if err != nil {
		t.Fatalf("%s %v: %v", command, words, err)
	}
	return out
}

// run runs a client, and returns what it prints. The error has what it prints on standard error.
func (c *cluster) run(command string, words ...string) (string, error) {
	args := append(append([]string{command}, c.members...), words...)
	var stderr bytes.Buffer
	cmd := exec.Command(c.bin, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// TestMerge: of two values the newer one stays, in whatever order they come.
func TestMerge(t *testing.T) {
	s := &store{values: map[string]string{}}
	for _, data := range []string{`{"key":"2 new"}`, `{"key":"1 old","other":"1 x"}`} {
		if err := s.merge([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if s.values["key"] != "2 new" || s.values["other"] != "1 x" {
		t.Errorf("%q", s.values)
	}
	if s.merge([]byte("no JSON")) == nil {
		t.Error("malformed values were taken")
	}
}

// TestStore kills each of the members in turn, while values are put, and starts it again. No value
// is lost, and no older value comes back.
func TestStore(t *testing.T) {
	c := newCluster(t)
	var ready []func() string
	for i := range c.procs {
		ready = append(ready, c.start(t, i))
	}
	for _, await := range ready {
		await()
	}
	want := map[string]string{}
	put := func(round int) {
		for key := range 4 {
			name, value := fmt.Sprintf("key%d", key%(round+2)), fmt.Sprintf("value %d of %d", key, round)
			c.client(t, "put", name, value)
			want[name] = value
		}
	}
	compare := func(when string) {
		for key, value := range want {
			if got := c.client(t, "get", key); got != value {
				t.Errorf("%s: %s is %q, want %q", when, key, got, value)
			}
		}
	}
	put(0)
	c.client(t, "put", "old", "put while all members were there")
	want["old"] = "put while all members were there"
	for i := range c.procs {
		c.kill(t, i)
		put(i + 1)
		compare(fmt.Sprintf("without member %d", i))
		if line := c.start(t, i)(); line != copied {
			t.Errorf("member %d: %q", i, line)
		}
	}
	compare("with all members")
	resp, err := http.Get("http://" + c.metrics[2] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(page, []byte(
		`gobtl_connections_total{link="`+c.members[2]+`",outcome="established"} `)) {
		t.Errorf("metrics: %v\n%s", err, page)
	}
	if got := c.client(t, "get", "never put"); got != "" {
		t.Errorf("a key without a value: %q", got)
	}
}

// TestLargerThanAMessage kills each of the members in turn, and starts it again. All values
// together are larger than a message may be, and none is put again, so each member must copy them.
func TestLargerThanAMessage(t *testing.T) {
	const messageBytes, valueBytes, keys = 2048, 1000, 8
	t.Setenv("GOBTL_FRAGMENT_BYTES_MAX", strconv.Itoa(messageBytes))
	c := newCluster(t)
	var ready []func() string
	for i := range c.procs {
		ready = append(ready, c.start(t, i))
	}
	for _, await := range ready {
		await()
	}
	value := func(key int) string { return strings.Repeat(strconv.Itoa(key), valueBytes) }
	for key := range keys {
		c.client(t, "put", strconv.Itoa(key), value(key))
	}
	for i := range c.procs {
		c.kill(t, i)
		for key := range keys {
			if got := c.client(t, "get", strconv.Itoa(key)); got != value(key) {
				t.Errorf("without member %d: key %d has %d bytes, want %d", i, key, len(got), valueBytes)
			}
		}
		if line := c.start(t, i)(); line != copied {
			t.Errorf("member %d: %q", i, line)
		}
	}
}

// TestCopyFails: a member that cannot copy from all others answers no get, and tries again until it
// has copied the values.
func TestCopyFails(t *testing.T) {
	c := newCluster(t)
	var ready []func() string
	for i := range c.procs {
		ready = append(ready, c.start(t, i))
	}
	for _, await := range ready {
		await()
	}
	c.kill(t, 0)
	c.client(t, "put", "colour", "blue") // at members 1 and 2
	c.kill(t, 1)
	first := c.start(t, 0)
	const missing = `call "get" of `
	for bound := time.Now().Add(time.Minute); ; { // until member 0 listens
		out, err := c.run("get", "colour")
		if err == nil {
			t.Fatalf("one member with the values and one without: %q", out)
		}
		if strings.Contains(err.Error(), missing+c.members[0]+": call: no such method") {
			break
		}
		if time.Now().After(bound) {
			t.Fatal(err)
		}
	}
	second := c.start(t, 1)
	for i, await := range []func() string{first, second} {
		if line := await(); line != copied {
			t.Errorf("member %d: %q", i, line)
		}
	}
	c.kill(t, 2)
	if got := c.client(t, "get", "colour"); got != "blue" {
		t.Errorf("%q after all members were killed, one after the other", got)
	}
}
