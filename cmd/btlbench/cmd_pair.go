package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// pairCmd measures between this process and a server process that it starts on this host.
type pairCmd struct {
	runFlags
}

// Validate is called by kong after parsing.
func (c *pairCmd) Validate() error { return c.validate() }

// Run is called by kong.
func (c *pairCmd) Run(env *environment) error {
	clientCPUs, serverCPUs, err := c.cores(env)
	if err != nil {
		return err
	}
	if err := c.resolveProvider(true); err != nil {
		return err
	}
	if err := c.checkProvider(); err != nil {
		return err
	}
	keepRuntimeOff(c.CPUs)
	child, err := c.startServer(env, serverCPUs)
	if err != nil {
		return err
	}
	defer child.end()
	f := c.runFlags
	f.CPUs = clientCPUs
	return measureAndReport(env, "pair", child.addr, &f)
}

// cores returns the CPUs of the client and the server for every stream, which are the requested
// CPUs or else the first permitted ones.
func (c *pairCmd) cores(env *environment) (client, server plan.CPUList, err error) {
	if c.CPUs == nil {
		allowed := layers.AllowedCPUs()
		c.CPUs = allowed[:min(max(1, len(allowed)/2*2), 2*c.Streams())]
		if len(c.CPUs) < 2 {
			env.notef("only one CPU may be used: both sides share it, and the figures will be poor")
		}
	}
	n := len(c.CPUs)
	switch {
	case n == 0:
		return nil, nil, nil
	case n == 1:
		return c.CPUs, c.CPUs, nil
	case n%2 == 0 && n <= 2*c.Streams():
		return c.CPUs[:n/2], c.CPUs[n/2:], nil
	}
	return nil, nil, &usageError{errors.New(
		"--cpus: two are needed for each stream, the client's and the server's, or two for all")}
}

// checkProvider detects an unusable provider before the server process is started.
func (c *pairCmd) checkProvider() error {
	cfg := layers.NewConfig(&c.Flags, c.Timeout)
	_, err := layers.FindInfo(&cfg, layers.NodeOr(c.Node, loopback))
	return err
}

// loopback is the address at which both sides of a pair connect.
var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

// child is the server process of a pair.
type child struct {
	cmd    *exec.Cmd
	addr   string
	exited chan struct{}
	err    error // valid after exited is closed
}

// startServer starts the server and waits until it listens.
func (c *pairCmd) startServer(env *environment, cpus plan.CPUList) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start the server from: %w", err)
	}
	args := []string{
		"serve", "--listen", net.JoinHostPort(loopback.IP.String(), "0"), "--once", "--quiet",
		"--clients", strconv.Itoa(c.Streams()), "--memory", "0",
		"--cpus", cpus.String(), "--avoid", c.CPUs.String(), "--timeout", c.Timeout.String(),
		"--patience", max(c.Timeout, c.PeerTimeout).String(),
	}
	if c.Node != "" {
		args = append(args, "--node", c.Node)
	}
	if c.Metrics != "" {
		addr, err := nextPort(c.Metrics)
		if err != nil {
			return nil, err
		}
		args = append(args, "--metrics", addr)
	}
	p := &child{cmd: exec.Command(self, args...), exited: make(chan struct{})}
	p.cmd.SysProcAttr = layers.ChildAttr()
	p.cmd.Stderr = &prefixWriter{w: env.stderr, prefix: "server: "}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("cannot start the server process: %w", err)
	}
	p.addr, err = readListening(stdout, c.Timeout)
	if err != nil {
		p.end()
		return nil, fmt.Errorf("the server process does not start: %w", err)
	}
	return p, nil
}

// start starts the process from a thread that lives as long as the process, because the kernel
// kills the process when that thread ends.
func (p *child) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

// childGrace is how long a server may take to end after its only client has ended.
const childGrace = 2 * time.Second

// end waits for the end of the process, and kills the process after childGrace.
func (p *child) end() {
	select {
	case <-p.exited:
		return
	case <-time.After(childGrace):
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(childGrace):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// readListening reads the address at which the server listens.
func readListening(stdout io.Reader, timeout time.Duration) (string, error) {
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadString('\n') // An error leaves no address in it.
		line <- text
	}()
	select {
	case text := <-line:
		if addr, ok := strings.CutPrefix(strings.TrimSpace(text), listeningPrefix); ok {
			return addr, nil
		}
		return "", errors.New("it ended before it listened")
	case <-time.After(timeout):
		return "", fmt.Errorf("nothing heard from it in %v", timeout)
	}
}

// nextPort is the address for the server's metrics, with the port after the client's, or port 0 if
// the client's port is 0.
func nextPort(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", err
	}
	if n++; n == 1 || n > 65535 {
		n = 0
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

// prefixWriter copies the lines that the server process writes to standard error, with a prefix.
type prefixWriter struct {
	w       io.Writer
	prefix  string
	partial []byte
}

// The method Write of a prefixWriter must be called only by the goroutine of exec.Cmd.
func (p *prefixWriter) Write(b []byte) (int, error) {
	p.partial = append(p.partial, b...)
	for {
		line, rest, ok := strings.Cut(string(p.partial), "\n")
		if !ok {
			return len(b), nil
		}
		p.partial = append(p.partial[:0], rest...)
		if _, err := fmt.Fprintln(p.w, p.prefix+line); err != nil {
			return len(b), nil // Nobody reads it any more; the server need not hear of that.
		}
	}
}
