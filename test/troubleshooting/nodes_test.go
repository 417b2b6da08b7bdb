//go:build linux

package troubleshooting

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gobtl"
	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// patience bounds what must happen on any machine.
const patience = time.Minute

// btlbench and hello are the paths of two programs of the tree, built without cgo.
var btlbench, hello string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "troubleshooting")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	btlbench, hello = filepath.Join(dir, "btlbench"), filepath.Join(dir, "hello")
	cmd := exec.Command("go", "build", "-trimpath", "-o", dir, "gobtl/cmd/btlbench",
		"gobtl/examples/hello")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text is the message of an error that must be there.
func text(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	return err.Error()
}

func listen(t *testing.T, cfg gobtl.Config) *gobtl.Node {
	t.Helper()
	n, err := cfg.Listen("127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { closeNode(n) })
	return n
}

func open(t *testing.T, cfg gobtl.Config) *gobtl.Node {
	t.Helper()
	n, err := cfg.Open()
	must(t, err)
	t.Cleanup(func() { closeNode(n) })
	return n
}

// closeNode closes a node at once; its peers may be gone.
func closeNode(n *gobtl.Node) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.Close(ctx) // the error of ctx
}

// pair returns a node that listens, and the peer that another node has for it.
func pair(t *testing.T, server, client gobtl.Config) (*gobtl.Node, *gobtl.Peer) {
	t.Helper()
	n := listen(t, server)
	p, err := open(t, client).Dial(within(t), n.Address())
	must(t, err)
	return n, p
}

// nobody is an address of loopback at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	n := listen(t, gobtl.Config{})
	address := n.Address()
	closeNode(n)
	return address
}

// silent is an address of loopback whose owner never answers.
func silent(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}

// writer sends the first of what is written to it.
type writer chan string

func (w writer) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// run runs a program and returns all that it prints, whatever its status.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(within(t), name, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}

// process starts a program that listens, and returns it and the address that it prints first.
func process(t *testing.T, bin string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.WaitDelay = time.Second
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // killed
	var line [256]byte
	n, err := stdout.Read(line[:])
	must(t, err)
	return cmd, strings.TrimSpace(string(line[:n]))
}

// kill kills a process, so that it cannot tell anybody.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed, so never nil
}

// rejecting answers every Hello as a peer that speaks protocol version 1 alone, and returns its
// address. It has one of the two ports.
func rejecting(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		var hello [2048]byte
		for {
			n, from, err := conn.ReadFromUDPAddrPort(hello[:])
			if err != nil {
				return
			}
			if n < 104 || hello[1]&15 != 4 {
				continue
			}
			// docs/protocol.md, section 8: the header of a Reject, reason 1, and its payload.
			reject := append(make([]byte, 0, 44), 0xb7, hello[1]&0xf0|7, 0, 1)
			reject = append(reject, hello[40:48]...)
			reject = append(reject, make([]byte, 12)...)
			reject = binary.LittleEndian.AppendUint16(reject, 12)
			reject = append(reject, make([]byte, 6)...)
			reject = append(reject, 1, 1, 0, 0)
			reject = append(reject, hello[56:64]...)
			_, _ = conn.WriteToUDPAddrPort(reject, from)
		}
	}()
	return conn.LocalAddr().String()
}

// memoryModule opens a module on a network within the process.
func memoryModule(t *testing.T, network *mem.Network, cfg btl.Config) *btl.Module {
	t.Helper()
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	must(t, err)
	sizes, err := cfg.DomainConfig(infos[0])
	must(t, err)
	domain, err := network.Open(sizes)
	must(t, err)
	m, err := btl.Open(domain, cfg)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}
