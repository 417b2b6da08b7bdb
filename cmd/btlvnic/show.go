//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"gobtl/cmd/btlvnic/agent"
	"gobtl/vnic"
)

// client returns an HTTP client that connects to a unix socket.
func client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
}

// ask sends a request and returns the body of the answer. The caller must close the body.
func ask(ctx context.Context, socket, method, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://btlvnic"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client(socket).Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			return nil, fmt.Errorf("nobody answers on %s: %w; name another with --socket", socket, op.Err)
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // a part of the text is enough
		if resp.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("the process at %s does not know that: is it the right one?", socket)
		}
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(b)))
	}
	return resp.Body, nil
}

// fetch sends a request, and decodes the JSON document of the answer into v.
func fetch(ctx context.Context, socket, method, path string, v any) error {
	body, err := ask(ctx, socket, method, path)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(v)
}

// Run is called by kong.
func (c *showCmd) Run(env *environment) error {
	socket := c.Socket
	if socket == "" {
		socket = agentSocket
		if slices.Contains([]string{"hosts", "switches", "traps"}, c.What) {
			socket = emSocket
		}
	}
	var raw json.RawMessage
	if err := fetch(env.ctx, socket, http.MethodGet, "/"+c.What, &raw); err != nil {
		return err
	}
	if c.Format == "json" {
		return ignorePipe(writeJSON(env.stdout, raw))
	}
	t, err := c.table(raw)
	if err != nil {
		return err
	}
	columns, _ := terminal(env.stdout)
	_, err = fmt.Fprintln(env.stdout, t.render(columns))
	return ignorePipe(err)
}

func ignorePipe(err error) error {
	if isPipe(err) {
		return nil
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// The method table converts an answer to a table.
func (c *showCmd) table(raw json.RawMessage) (*listing, error) {
	switch c.What {
	case "agent":
		return agentTable(raw)
	case "ports":
		return portsTable(raw)
	case "macs", "fdb":
		var list []agent.Entry
		err := json.Unmarshal(raw, &list)
		t := newListing("port", "address", "VLAN", "LID", "from", "age")
		for _, e := range list {
			age := ""
			if e.Kind == "learned" {
				age = fmt.Sprintf("%.0f s", e.AgeSec)
			}
			t.add(e.Port, e.MAC, e.VLAN, e.LID, e.Kind, age)
		}
		return t, err
	case "counters":
		return c.counters(raw)
	case "hosts":
		var list []vnic.HostState
		err := json.Unmarshal(raw, &list)
		t := newListing("host", "LID", "connected", "as wanted", "problem")
		for i := range list {
			h := &list[i]
			t.add(h.Name, h.LID, h.Connected, h.Synced, h.Problem)
		}
		return t, err
	case "switches":
		var list []switchReport
		err := json.Unmarshal(raw, &list)
		t := newListing("switch", "id", "MTU", "carrier", "hosts")
		for _, s := range list {
			t.add(s.Name, s.ID, s.MTU, s.Carrier, strings.Join(s.Hosts, " "))
		}
		return t, err
	}
	var list []trapReport
	err := json.Unmarshal(raw, &list)
	t := newListing("ago", "host", "port", "switch", "what")
	names := map[uint8]string{
		vnic.TrapUnicast: "unicast list", vnic.TrapMulticast: "multicast list", vnic.TrapLink: "link",
	}
	for _, p := range list {
		t.add(fmt.Sprintf("%.1f s", p.SecondsAgo), p.Host, p.Port, p.Switch, names[p.Opcode])
	}
	return t, err
}

func agentTable(raw json.RawMessage) (*listing, error) {
	var r agent.HostReport
	err := json.Unmarshal(raw, &r)
	t := newListing("host", "LID", "manager", "connected", "obeyed", "ports", "problem")
	t.add(r.Host, r.LID, r.Manager, r.Connected, r.Leased, len(r.Ports), r.Refused)
	return t, err
}

func portsTable(raw json.RawMessage) (*listing, error) {
	var list []agent.PortReport
	err := json.Unmarshal(raw, &list)
	t := newListing("port", "device", "switch", "address", "MTU", "carrier", "state", "members",
		"macs", "problems")
	for i := range list {
		p := &list[i]
		mtu := fmt.Sprint(p.MTU)
		if p.WantedMTU > p.MTU {
			mtu += fmt.Sprintf(" of %d", p.WantedMTU)
		}
		var problems []string
		for what, why := range p.Problems {
			problems = append(problems, what+": "+why)
		}
		slices.Sort(problems)
		t.add(p.Port, p.Device, p.Switch, p.MAC, mtu, p.Carrier, p.State, p.Members, p.Entries,
			strings.Join(problems, "; "))
	}
	return t, err
}

func (c *showCmd) counters(raw json.RawMessage) (*listing, error) {
	var list []agent.CountReport
	err := json.Unmarshal(raw, &list)
	t := newListing("port", "device", "counter", "value")
	for _, p := range list {
		for _, name := range vnic.Counters() {
			if v := p.Counters[name.String()]; v > 0 || c.All {
				t.add(p.Port, p.Device, name.String(), v)
			}
		}
	}
	return t, err
}

// Run is called by kong.
func (c *pingCmd) Run(env *environment) error {
	q := url.Values{}
	q.Set("mac", c.MAC)
	q.Set("port", fmt.Sprint(c.Port))
	q.Set("timeout", c.Timeout.String())
	var all []pong
	answered := 0
	for i := range c.Count {
		var p pong
		if err := fetch(env.ctx, c.Socket, http.MethodPost, "/ping?"+q.Encode(), &p); err != nil {
			return err
		}
		all = append(all, p)
		if p.Error == "" {
			answered++
		}
		if c.Format != "json" {
			line := fmt.Sprintf("%s: %s", p.MAC, p.Error)
			if p.Error == "" {
				line = fmt.Sprintf("%s at LID %d: %.0f us", p.MAC, p.LID, p.RTTUs)
			}
			if _, err := fmt.Fprintln(env.stdout, line); err != nil {
				return ignorePipe(err)
			}
		}
		if i < c.Count-1 {
			select {
			case <-time.After(c.Interval):
			case <-env.ctx.Done():
				return nil
			}
		}
	}
	if c.Format == "json" {
		if err := writeJSON(env.stdout, all); err != nil {
			return ignorePipe(err)
		}
	}
	if answered == 0 {
		if c.Format == "json" {
			return errTold
		}
		return agent.ErrNoAnswer
	}
	return nil
}

// Run is called by kong.
func (c *dumpCmd) Run(env *environment) error {
	if _, is := terminal(env.stdout); is && c.Output == "-" {
		return errors.New("the frames are not for a terminal: name a file with --output, or pipe them " +
			"to tcpdump -r -")
	}
	ctx, cancel := withCancel(env.ctx)
	defer cancel()
	if c.Duration > 0 {
		time.AfterFunc(c.Duration, cancel)
	}
	body, err := ask(ctx, c.Socket, http.MethodGet, fmt.Sprintf("/dump?port=%d", c.Port))
	if err != nil {
		return err
	}
	defer body.Close()
	out := env.stdout
	if c.Output != "-" {
		f, err := os.Create(c.Output)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	_, err = io.Copy(out, body)
	if ctx.Err() != nil {
		return nil
	}
	return ignorePipe(err)
}
