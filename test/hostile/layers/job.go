package layers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/mpi"
	"gobtl/pml"
)

// ranks is the number of ranks of a job.
const ranks = 3

// board carries the data that a launcher would carry between the ranks of a job, all of which are
// in this process.
type board struct {
	mu     sync.Mutex
	rounds map[string]*boardRound
}

type boardRound struct {
	values [][]byte
	left   int
	whole  chan struct{}
}

// boardJob is a rank's access to a board.
type boardJob struct {
	*board
	rank int
}

func (j boardJob) Rank() int    { return j.rank }
func (boardJob) Size() int      { return ranks }
func (boardJob) NodeOf(int) int { return 0 }
func (boardJob) Nodes() int     { return 1 }

// Exchange gives a value to all other ranks.
func (j boardJob) Exchange(ctx context.Context, key string, value []byte) ([][]byte, error) {
	j.mu.Lock()
	r := j.rounds[key]
	if r == nil {
		r = &boardRound{values: make([][]byte, ranks), left: ranks, whole: make(chan struct{})}
		j.rounds[key] = r
	}
	r.values[j.rank] = value
	if r.left--; r.left == 0 {
		close(r.whole)
	}
	j.mu.Unlock()
	select {
	case <-r.whole:
		return r.values, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (boardJob) Fence(context.Context) error    { return nil }
func (boardJob) Finalize(context.Context) error { return nil }

// openJob starts a Load whose ranks, of package mpi, add up numbers repeatedly.
func openJob() (Load, error) {
	b := newBase("mpi")
	shared := &board{rounds: make(map[string]*boardRound)}
	worlds := make([]*mpi.World, ranks)
	errs := make([]error, ranks)
	var all sync.WaitGroup
	for i := range ranks {
		all.Go(func() {
			worlds[i], errs[i] = mpi.Open(b.ctx, boardJob{shared, i}, mpi.Config{
				Fabric: fabric.Hints{Provider: "udp"}, Layer: pml.Config{Tag: tag},
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	names := shared.rounds["mpi-0"].values
	var err error
	b.target = Target{Load: b.name, Module: names[0], Tag: tag, Leave: leaveEager}
	if b.target.Address, err = addressOf(names[0]); err != nil {
		return nil, err
	}
	for i, w := range worlds {
		b.group.Go(func() {
			if err := errors.Join(b.addUp(w, i), finalize(w)); err != nil {
				b.err.CompareAndSwap(nil, &err)
			}
		})
	}
	return b, nil
}

// addUp makes a rank add up numbers with the other ranks until the Load is closed. All ranks end
// after the same step.
func (b *base) addUp(w *mpi.World, rank int) error {
	in, out := make([]uint64, 128), make([]uint64, 128)
	for step := uint64(1); out[0] == 0; step++ {
		for k := range in {
			in[k] = step*uint64(k) + uint64(rank)
		}
		in[0] = 0
		if b.ctx.Err() != nil {
			in[0] = 1
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := mpi.Allreduce(ctx, &w.Comm, in, out, mpi.Sum[uint64]())
		cancel()
		if err != nil {
			return err
		}
		for k, sum := range out[1:] {
			if want := ranks*step*uint64(k+1) + ranks*(ranks-1)/2; sum != want {
				return fmt.Errorf("the sum %d of step %d is %d, want %d", k+1, step, sum, want)
			}
		}
		if rank == 0 {
			b.work.Add(1)
		}
	}
	return nil
}

func finalize(w *mpi.World) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.Finalize(ctx)
}

// addressOf encodes the address of a module as numbers.
func addressOf(name []byte) (string, error) {
	n, err := frag.ParseName(name)
	if err != nil {
		return "", err
	}
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return "", err
	}
	d, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 1, BufferBytes: 64})
	if err != nil {
		return "", err
	}
	defer d.Close()
	text, ok := d.(fabric.Addresser)
	if !ok {
		return "", errors.New("no addresses in words")
	}
	return text.FormatName(n.Command), nil
}
