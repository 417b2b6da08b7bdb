package main

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMain lets the test binary be the processes of a path.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "serve" || os.Args[1] == "call") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSystems has every system carry every load but the longest, within one process.
func TestSystems(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range systems {
		if s.name == "tcp-bbr" {
			continue // Not every kernel has it.
		}
		l, err := s.listen("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		go serveAll(l)
		d, err := s.dial(ctx, addressOf(l))
		if err != nil {
			t.Fatal(err)
		}
		for _, load := range loads {
			if slices.Contains([]string{"idle", "busy"}, load.name) {
				continue
			}
			res, err := load.run(ctx, d, 10*time.Millisecond)
			if err != nil || res.Value <= 0 {
				t.Errorf("%s: %s: %+v, %v", s.title, load.title, res, err)
			}
		}
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPaths has two systems go over every path, between processes.
func TestPaths(t *testing.T) {
	for _, p := range paths {
		if p.name != "loopback" && os.Geteuid() != 0 && os.Getenv("CI") == "" {
			t.Logf("%s is left out: network namespaces are for root", p.title)
			continue
		}
		err := onStand(t.Context(), func(stand *stand) error {
			at, err := p.make(stand, 1500)
			if err != nil {
				return err
			}
			for _, s := range []*system{systems[0], systems[len(systems)-1]} {
				var c compareCmd
				res, err := c.measure(s, loads[1], at, nil, 20*time.Millisecond)
				if err != nil || res.Value <= 0 {
					t.Errorf("%s: %s: %+v, %v", p.title, s.title, res, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", p.title, err)
		}
	}
}

// The far line takes the time that it says, in each direction.
func TestLineDelays(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("network namespaces are for root")
	}
	err := onStand(t.Context(), func(stand *stand) error {
		at, err := far(stand, 1500)
		if err != nil {
			return err
		}
		var c compareCmd
		res, err := c.measure(systems[0], loads[0], at, nil, 200*time.Millisecond)
		if least := 20_000.0; err == nil && res.Value < least {
			t.Errorf("there and back in %v us, want %v at least", res.Value, least)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
