package vnic_test

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // It tells hosts apart.
	"gobtl/internal/mono"
	"gobtl/vnic"
)

// openAt opens a module on an address of this machine.
func openAt(t *testing.T, node string) *btl.Module {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	var cfg btl.Config
	sizes, err := cfg.DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	d, err := fabric.Open(infos[0], sizes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// nameAt is the name of an endpoint of the fabric on an address of this machine.
func nameAt(t *testing.T, node string) []byte {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: node})
	if err != nil {
		t.Fatal(err)
	}
	d, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 16, BufferBytes: 2048})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	ep, err := d.OpenEndpoint(fabric.EndpointConfig{RxDepth: 8})
	if err != nil {
		t.Fatal(err)
	}
	return ep.Name()
}

// A host is registered with addresses from which it has answered, and with no others: frames of
// other hosts would go there.
func TestRegisterUnproven(t *testing.T) {
	t.Parallel()
	const here, there = "127.0.0.1", "127.0.0.2"
	own, foreign := [][]byte{nameAt(t, here)}, [][]byte{nameAt(t, there)}
	other := openAt(t, here).Name()
	for _, c := range []struct {
		name          string
		receive, send [][]byte
		module        []byte // nil: its own
		want          vnic.Status
	}{
		{"its own", own, own, nil, vnic.StatusOK},
		{"receives elsewhere", foreign, own, nil, vnic.StatusUnproven},
		{"receives elsewhere, too", [][]byte{own[0], foreign[0]}, own, nil, vnic.StatusUnproven},
		{"sends from elsewhere", own, foreign, nil, vnic.StatusUnproven},
		{"another's module", own, own, other, vnic.StatusUnproven},
		{"no module", own, own, []byte("x"), vnic.StatusUnproven},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mm, am := openAt(t, here), openAt(t, here)
			plan := &vnic.Plan{Hosts: []vnic.PlanHost{{Name: "h", LID: 1}}}
			if err := plan.Complete(); err != nil {
				t.Fatal(err)
			}
			manager := vnic.NewManager(vnic.ManagerConfig{Name: "lab", Instance: 1})
			manager.SetPlan(plan)
			ms, err := vnic.NewManagerStation(mm, manager, nil)
			if err != nil {
				t.Fatal(err)
			}
			module := c.module
			if module == nil {
				module = am.Name()
			}
			agent := vnic.NewAgent(vnic.AgentConfig{
				Host: "h", Manager: "lab", Instance: 2,
				Ways: vnic.Ways{Receive: c.receive, Send: c.send, Module: module},
			})
			as, err := vnic.NewAgentStation(am, agent, nil)
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			now := func() mono.Time { return mono.Time(1).Add(time.Since(begin)) }
			if _, err := as.Dial(now(), mm.Name()); err != nil {
				t.Fatal(err)
			}
			decided := func() bool {
				return manager.Hosts()[0].Connected || agent.Refused() != vnic.StatusOK
			}
			for !decided() {
				for _, s := range []*vnic.Station{ms, as} {
					if _, err := s.Progress(now()); err != nil {
						t.Fatal(err)
					}
				}
				if time.Since(begin) > 10*time.Second {
					t.Fatal("no answer")
				}
			}
			if got := agent.Refused(); got != c.want {
				t.Errorf("status %#x, want %#x", got, c.want)
			}
			unproven := uint64(0)
			if c.want != vnic.StatusOK {
				unproven = 1
			}
			if manager.Stats.Unproven != unproven {
				t.Errorf("%d are counted", manager.Stats.Unproven)
			}
		})
	}
}
