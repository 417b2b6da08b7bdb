package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"gobtl/test/netns"
)

// path is the network between server and client.
type path struct {
	name, title string
	loads       []string
	least       time.Duration // that a figure takes
	make        func(s *stand, mtuBytes int) (*ends, error)
}

var paths = []*path{
	{"loopback", "loopback", []string{"trip", "bulk", "small", "busy", "idle"}, 0, loopback},
	{"cable", "a cable between namespaces", []string{"trip", "bulk", "small", "busy"}, 0, cable},
	{"loss", "the cable, 1 % lost each way", []string{"bulk", "small"}, time.Second, lossy},
	{
		"far", "200 Mbit/s, 20 ms there and back, 0.1 % lost each way", []string{"bulk", "small"},
		4 * time.Second, far,
	},
}

func pathOf(name string) (*path, error) {
	var names []string
	for _, p := range paths {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return nil, fmt.Errorf("no path %q; there are %s", name, strings.Join(names, ", "))
}

func loopback(*stand, int) (*ends, error) {
	self, err := os.Executable()
	run := func(args ...string) (*exec.Cmd, error) { return exec.Command(self, args...), nil }
	return &ends{"127.0.0.1", run, run}, err
}

// between returns the ends on two hosts.
func between(server, client *netns.Host, address string) (*ends, error) {
	self, err := os.Executable()
	on := func(h *netns.Host) func(args ...string) (*exec.Cmd, error) {
		return func(args ...string) (*exec.Cmd, error) { return h.Command(self, args...), nil }
	}
	return &ends{address, on(server), on(client)}, err
}

func cable(s *stand, mtuBytes int) (*ends, error) {
	lab := netns.New(s)
	a, b := lab.Cable(lab.Host("server"), lab.Host("client"), mtuBytes)
	return between(a.Host, b.Host, a.V4.String())
}

// lossy is a cable that loses packets, whose ports split coalesced packets so that they are lost
// one by one.
func lossy(s *stand, mtuBytes int) (*ends, error) {
	lab := netns.New(s)
	a, b := lab.Cable(lab.Host("server"), lab.Host("client"), mtuBytes)
	for _, p := range []netns.Port{a, b} {
		for _, feature := range []string{"tx-tcp-segmentation", "tx-udp-segmentation"} {
			p.Feature(feature, false)
		}
		p.Host.Filter("input", fmt.Sprintf("iifname %q numgen random mod 100 < 1 counter drop", p.Dev))
	}
	return between(a.Host, b.Host, a.V4.String())
}

// far is a line that this process simulates.
func far(s *stand, mtuBytes int) (*ends, error) {
	lab := netns.New(s)
	a, b := lab.Host("server"), lab.Host("client")
	err := playLine(s, a, b, mtuBytes, line{
		bitsPerSecond: 200e6, delay: 10 * time.Millisecond, queueBytes: 500_000, loss: .001,
	})
	if err != nil {
		return nil, err
	}
	return between(a, b, lineAddress(1))
}

// stand implements the test interface of a lab in a program, where a failure panics to the call of
// onStand.
type stand struct {
	ctx      context.Context
	cleanups []func()
	errs     []error
}

// failure is the reason why a measurement failed.
type failure struct{ error }

// onStand runs measurements, and always removes the network afterwards.
func onStand(ctx context.Context, measure func(s *stand) error) (err error) {
	s := &stand{ctx: ctx}
	defer func() {
		for _, f := range slices.Backward(s.cleanups) {
			f()
		}
		err = errors.Join(err, errors.Join(s.errs...))
	}()
	defer func() {
		switch broken := recover().(type) {
		case nil:
		case failure:
			err = broken.error
		default:
			panic(broken)
		}
	}()
	return measure(s)
}

func (s *stand) Helper()                  {}
func (s *stand) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }
func (s *stand) Context() context.Context { return s.ctx }
func (s *stand) Skip(args ...any)         { s.Fatal(args...) }

func (s *stand) Errorf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *stand) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

func (s *stand) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }
