package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/mpi"
)

// A process that is no rank of the job does not get in, whatever it calls itself, and whatever it
// knows: what it sends would be matched by receives from any source, and kept for good by others.
func TestStranger(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == 1 {
			return mpi.Barrier(ctx, &w.Comm)
		}
		for _, label := range []string{"", "rank 1", "rank 7", "rank -1", "rank"} {
			if err := intrude(ctx, label, w.ModuleName(0)); err != nil {
				return fmt.Errorf("as %q: %w", label, err)
			}
		}
		return mpi.Barrier(ctx, &w.Comm)
	})
}

// intrude connects to a rank as a stranger, and says if that is let in.
func intrude(ctx context.Context, label string, name []byte) (err error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return err
	}
	cfg := btl.Config{Label: label}
	sizes, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return err
	}
	domain, err := fabric.Open(infos[0], sizes)
	if err != nil {
		return err
	}
	m, err := btl.Open(domain, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	start := time.Now()
	ep, err := m.Connect(1, name)
	if err != nil {
		return err
	}
	for ep.Err() == nil && !ep.Connected() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := m.Progress(btl.Time(time.Since(start)) + 1); err != nil {
			return err
		}
	}
	var refused *btl.RefusedError
	if !errors.As(ep.Err(), &refused) || refused.Later {
		return fmt.Errorf("not refused for good: %w", ep.Err())
	}
	return nil
}
