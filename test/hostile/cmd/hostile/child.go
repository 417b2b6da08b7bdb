package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/test/hostile/layers"
)

// The malicious peers, and the process that only computes, run in processes of their own, so that
// their CPU time is known. Each ends with its standard input.

// told is what a malicious peer in a process of its own knows.
type told struct {
	Bad, Load, Address string
	Module             []byte
	Tag                btl.Tag
}

// children returns the kinds of malicious peers whose name contains only, each in a process of its
// own.
func children(only string) []layers.Bad {
	bads := slices.DeleteFunc(layers.Bads(), func(b layers.Bad) bool {
		return !strings.Contains(b.Name, only)
	})
	for i, b := range bads {
		share := 0.0
		bads[i].Run = func(ctx context.Context, to layers.Target) error {
			what, err := json.Marshal(told{b.Name, to.Load, to.Address, to.Module, to.Tag})
			if err == nil {
				share, err = child(ctx, "-be", string(what))
			}
			return err
		}
		bads[i].Busy = func(ctx context.Context) (float64, error) {
			return child(ctx, "-compute", strconv.FormatFloat(share, 'f', 4, 64))
		}
	}
	return bads
}

// child runs this program with other arguments until ctx is cancelled, and returns its CPU time by
// the time that has passed.
func child(ctx context.Context, args ...string) (share float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	<-ctx.Done()
	_ = in.Close() // ends the child
	if err := cmd.Wait(); err != nil {
		return 0, fmt.Errorf("%v: %w", args, err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return float64(used) / float64(time.Since(begin)), nil
}

// be is the life of a malicious peer in a process of its own.
func be(text string) error {
	var t told
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	bads := layers.Bads()
	at := slices.IndexFunc(bads, func(b layers.Bad) bool { return b.Name == t.Bad })
	if at < 0 {
		return fmt.Errorf("no bad peer %q", t.Bad)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until its end
		cancel()
	}()
	return bads[at].Run(ctx, layers.Target{
		Load: t.Load, Module: t.Module, Address: t.Address, Tag: t.Tag,
		Leave: layers.Leave(t.Load, t.Module),
	})
}

// compute uses a share of a core until the end of standard input.
func compute(share float64) {
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until its end
		close(over)
	}()
	const slice = 5 * time.Millisecond
	for {
		begin := time.Now()
		busy := min(time.Duration(share*float64(slice)), slice)
		for time.Since(begin) < busy {
		}
		select {
		case <-over:
			return
		case <-time.After(slice - busy):
		}
	}
}
