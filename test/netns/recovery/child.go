//go:build linux

package recovery

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"gobtl/test/netns"
)

// child is a process on a host.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	says  chan message
	diag  bytes.Buffer
	ended chan struct{}
	what  string
}

// roleArg precedes the Spec on a command line.
const roleArg = "role"

// start runs a role on a port's host.
func start(p netns.Port, sp Spec) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(sp)
	if err != nil {
		return nil, err
	}
	c := &child{
		cmd: p.Host.Command(self, roleArg, string(spec)), says: make(chan message, 4),
		ended: make(chan struct{}), what: fmt.Sprintf("%s %s at %s", sp.Kind, sp.Role, p.Host.Name),
	}
	c.cmd.Stderr = &c.diag
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			var m message
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				m = message{Event: "error", Error: err.Error()}
			}
			c.says <- m
		}
		_ = c.cmd.Wait()
		close(c.says)
		close(c.ended)
	}()
	return c, nil
}

// tell sends a command such as "go" to the process.
func (c *child) tell(word string) error {
	_, err := io.WriteString(c.in, word+"\n")
	return err
}

// hear waits for an event of the process.
func (c *child) hear(event string, limit time.Duration) (message, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case m, ok := <-c.says:
		switch {
		case !ok:
			<-c.ended
			return m, fmt.Errorf("%s ended: %s", c.what, firstLines(c.diag.String()))
		case m.Event == "error":
			return m, fmt.Errorf("%s: %s", c.what, m.Error)
		case m.Event != event:
			return m, fmt.Errorf("%s: %q instead of %q", c.what, m.Event, event)
		}
		return m, nil
	case <-timer.C:
		return message{}, fmt.Errorf("%s: no %q within %v", c.what, event, limit)
	}
}

func firstLines(s string) string {
	lines := strings.SplitN(strings.TrimSpace(s), "\n", 6)
	return strings.Join(lines[:min(5, len(lines))], "\n")
}

// kill ends the process, which may already have ended.
func (c *child) kill() {
	_ = c.in.Close()
	_ = c.cmd.Process.Kill()
	for range c.says { // until it has ended
	}
	<-c.ended
}

// snmp reads the UDP counters of the network namespace of a process, such as "RcvbufErrors" for
// datagrams that found the socket's buffer full.
func snmp(pid int) (map[string]uint64, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/net/snmp")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		all := make(map[string]uint64)
		for i, f := range fields[1:] {
			if all[names[i+1]], err = strconv.ParseUint(f, 10, 64); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	return nil, errors.New("no counters of UDP")
}

// party is a process at a port.
type party struct {
	at     netns.Port
	server int // of a client: the index of its server
	sp     Spec
}

// outcome holds the reports of the processes of a measurement.
type outcome struct {
	servers, clients []*Report
}

// connectLimit is the maximum time for starting processes and for handshakes with losses.
const connectLimit = 30 * time.Second

// apart gives the two ends of a flow different CPUs. The processes of TCP are not pinned, because
// the kernel chooses the CPU on which a sleeping process wakes.
func apart(server, client party) (servers, clients []party) {
	if server.sp.Kind != "tcp" {
		server.sp.CPU, client.sp.CPU = 2, 1
	}
	return []party{server}, []party{client}
}

// play runs servers and clients, and connects all clients before they start together. limit is the
// longest time that the processes may need.
func play(servers, clients []party, limit time.Duration) (outcome, error) {
	return playWhile(servers, clients, limit, func([]int) {})
}

// playWhile calls during with the servers' processes when the clients start.
func playWhile(servers, clients []party, limit time.Duration, during func(servers []int)) (
	o outcome, err error,
) {
	var children []*child
	defer func() {
		for _, c := range children {
			c.kill()
		}
	}()
	open := func(p party) (*child, error) {
		p.sp.Node = p.at.V4.String()
		c, err := start(p.at, p.sp)
		if err == nil {
			children = append(children, c)
		}
		return c, err
	}
	names := make([]string, len(servers))
	for i, p := range servers {
		c, err := open(p)
		if err != nil {
			return o, err
		}
		m, err := c.hear("name", connectLimit)
		if err != nil {
			return o, err
		}
		names[i] = m.Name
	}
	for _, p := range clients {
		p.sp.Peer = names[p.server]
		if _, err := open(p); err != nil {
			return o, err
		}
	}
	serving, playing := children[:len(servers)], children[len(servers):]
	overruns := make([]uint64, len(servers))
	for i, c := range serving {
		before, err := snmp(c.cmd.Process.Pid)
		if err != nil {
			return o, err
		}
		overruns[i] = before["RcvbufErrors"]
	}
	for _, c := range playing {
		if _, err := c.hear("ready", connectLimit); err != nil {
			return o, err
		}
	}
	for _, c := range playing {
		if err := c.tell("go"); err != nil {
			return o, err
		}
	}
	deadline := time.Now().Add(limit)
	pids := make([]int, len(serving))
	for i, c := range serving {
		pids[i] = c.cmd.Process.Pid
	}
	during(pids)
	for _, c := range playing {
		m, err := c.hear("report", time.Until(deadline))
		if err != nil {
			return o, err
		}
		o.clients = append(o.clients, m.Report)
	}
	for i, c := range serving {
		after, err := snmp(c.cmd.Process.Pid)
		if err != nil {
			return o, err
		}
		if err := c.in.Close(); err != nil {
			return o, err
		}
		m, err := c.hear("report", connectLimit)
		if err != nil {
			return o, err
		}
		if m.Counters == nil {
			m.Counters = make(map[string]uint64)
		}
		m.Counters["overruns"] = after["RcvbufErrors"] - overruns[i]
		o.servers = append(o.servers, m.Report)
	}
	return o, nil
}
