//go:build linux

package agent

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"gobtl/fabric"
	"gobtl/fabric/impair"
)

// portTries is how often a test tries two ports that another process may have taken.
const portTries = 32

// withPorts runs open at networks with ports in --node until two of the ports were free, and
// returns the network.
func withPorts(t *testing.T, open func(info fabric.Info) error) fabric.Info {
	t.Helper()
	var err error
	for range portTries {
		c, listenErr := net.ListenPacket("udp", "127.0.0.1:0")
		if listenErr != nil {
			t.Fatal(listenErr)
		}
		node := c.LocalAddr().String()
		_ = c.Close()
		infos, infoErr := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: node})
		if infoErr != nil {
			t.Fatal(infoErr)
		}
		if err = open(infos[0]); err == nil {
			return infos[0]
		}
	}
	t.Fatal(err)
	return fabric.Info{}
}

// TestNodeWithPort checks that an agent and a manager open all their endpoints if --node has a
// port, which is that of the module alone.
func TestNodeWithPort(t *testing.T) {
	t.Run("agent", func(t *testing.T) {
		var a *Agent
		info := withPorts(t, func(info fabric.Info) (err error) {
			a, err = New(Config{Host: "h", Manager: "m", Fabric: info, Queues: 2})
			return err
		})
		t.Cleanup(a.close)
		if got := a.module.Address(); !strings.HasPrefix(got, info.Node+",") {
			t.Errorf("the module is at %s, want %s", got, info.Node)
		}
	})
	t.Run("manager", func(t *testing.T) {
		info := withPorts(t, func(info fabric.Info) error {
			m, err := OpenModule(info, nil)
			if err == nil {
				t.Cleanup(func() { _ = m.Close() })
			}
			return err
		})
		p, err := OpenProver(info)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		for what, faults := range map[string]*impair.Faults{"plain": nil, "impaired": {}} {
			_, err := OpenModule(info, faults)
			if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), info.Node) {
				t.Errorf("%s: the error of a second module is %v, want the address %s", what, err,
					info.Node)
			}
		}
	})
}
