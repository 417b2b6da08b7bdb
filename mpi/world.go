package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/launch"
	"gobtl/pml"
)

// Job is the interface through which a World uses the job that the launcher has started. The type
// launch.Job implements the interface Job.
type Job interface {
	// Rank returns this process's number, and Size returns the number of processes of the job.
	Rank() int
	Size() int
	// NodeOf returns the number of the host of a rank, and Nodes returns the number of hosts.
	NodeOf(rank int) int
	Nodes() int
	// Exchange waits until all ranks have passed a value for the same key, and returns the values of
	// all ranks. The value of rank i is at index i of the result.
	Exchange(ctx context.Context, key string, value []byte) ([][]byte, error)
	// Fence returns when all ranks have called Fence.
	Fence(ctx context.Context) error
	// Finalize ends the membership of this process in the job. A World calls no other method of the
	// Job after Finalize.
	Finalize(ctx context.Context) error
}

// World is a process's membership in a job, and the communicator of all ranks of the job.
type World struct {
	Comm
	job     Job
	cfg     Config
	network Network
}

// Init joins the job for which a launcher has started this process, and returns the World of the
// job. If no launcher has started the process, the World has one rank. A process must call Init
// once, and must call Finalize before it ends. The errors of Init are ErrConfig, ErrAddress, the
// errors of launch.Join, and the error of opening the transport. If hosts of the job cannot reach
// each other, Init returns btl.ErrUnreachable.
func Init(ctx context.Context, cfg Config) (*World, error) {
	if ctx == nil {
		return nil, ErrContext
	}
	job, err := launch.Join(ctx, cfg.Launch)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	return Open(ctx, job, cfg)
}

// Open works like Init, for a job that the program has already joined.
func Open(ctx context.Context, job Job, cfg Config) (*World, error) {
	if ctx == nil {
		return nil, ErrContext
	}
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if job.Size() > RanksMax {
		return nil, fmt.Errorf("%w: %d ranks, at most %d", ErrConfig, job.Size(), RanksMax)
	}
	if _, err := cfg.Transport.LoadEnv(os.Environ()); err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	cfg.Transport.Label = labelPrefix + strconv.Itoa(job.Rank())
	makeRoom(&cfg.Transport, job.Size())
	network, cpus, err := chooseNetwork(ctx, job, cfg.Fabric)
	if err != nil {
		return nil, err
	}
	cfg.Fabric.Provider = network.Provider
	if cfg.Fabric.Node == "" && job.Nodes() == 1 {
		cfg.Fabric.Node = localNode(network.Provider)
	}
	w, err := openWorld(ctx, job, cfg, cpus)
	if err != nil {
		return nil, err
	}
	w.network = network
	return w, nil
}

// openWorld tries the networks one after another, and returns a World on the first network on which
// the ranks can reach each other. For a job on one host, the argument "cpus" has the CPUs that each
// rank may use.
func openWorld(ctx context.Context, job Job, cfg Config, cpus []string) (*World, error) {
	infos, err := fabric.GetInfo(cfg.Fabric)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	places, err := offerAll(ctx, job, infos)
	if err != nil {
		return nil, err
	}
	if job.Nodes() > 1 {
		cpus = places.cpus()
	}
	var tried []missed // the first unreachable pair of each attempt
	for try := 0; ; try++ {
		info, err := places.pick(job.Rank())
		if err != nil {
			return nil, err
		}
		e, err := openEngine(info, job, cfg)
		if err != nil {
			return nil, err
		}
		if crowded(job, cpus) {
			e.policy.AmongFriends()
		}
		w, err := join(ctx, job, cfg, e, try)
		if err != nil {
			return nil, err
		}
		e.helper.start(e.helpOut)
		missing, err := w.reachHosts(ctx, try)
		if err == nil && len(missing) == 0 {
			return w, nil
		}
		if err == nil {
			if tried = append(tried, missing[0]); !places.leave(missing) {
				err = missedError(tried)
			}
		}
		if closed := discard(e); err != nil || closed != nil {
			return nil, errors.Join(err, closed)
		}
	}
}

// The function "join" makes the World of a job with the given engine. If the function "join" fails,
// it closes the engine e. The argument "try" of "join" is the number of failed attempts to join the
// job with earlier engines.
func join(ctx context.Context, job Job, cfg Config, e *engine, try int) (*World, error) {
	names, err := job.Exchange(ctx, "mpi-"+strconv.Itoa(try), bytes.Clone(e.m.Name()))
	if err == nil {
		err = e.setNames(names)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mpi: %w", err), e.m.Close())
	}
	w := &World{job: job, cfg: cfg}
	w.e, w.rank = e, job.Rank()
	w.ranks, w.nodes = make([]int, job.Size()), make([]int, job.Size())
	for i := range w.ranks {
		w.ranks[i], w.nodes[i] = i, job.NodeOf(i)
	}
	e.lock()
	w.register()
	e.unlock()
	return w, nil
}

// makeRoom raises the limits in the transport's Config so that all ranks of a job can connect to
// each other. The raised limits suffice even if all ranks are on one host, and even if connections
// of dead ranks count towards the limits.
func makeRoom(cfg *btl.Config, ranks int) {
	cfg.PeersMax = max(cfg.PeersMax, min(4096+ranks, 1<<20))
	if cfg.PeersPerHost == 0 {
		cfg.PeersPerHost = cfg.PeersMax
	}
}

// openEngine opens the transport on a fabric.
func openEngine(info fabric.Info, job Job, cfg Config) (*engine, error) {
	sizes, err := cfg.Transport.DomainConfig(info)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	domain, err := fabric.Open(info, sizes)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	m, err := btl.Open(domain, cfg.Transport)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	e, err := newEngine(domain, m, cfg, job.Rank())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mpi: %w", err), m.Close())
	}
	return e, nil
}

// Job returns the job of the world.
func (w *World) Job() Job { return w.job }

// If a rank of the job has died, Finalize waits for the launcher for at most leaveTimeout.
const leaveTimeout = time.Second

// Finalize waits until all ranks have called Finalize and all messages that this rank has sent have
// arrived, and then ends the membership in the job. Finalize does not wait for dead ranks. If
// Finalize returns an error, the membership in the job has ended nevertheless. After Finalize,
// every use of the World returns ErrFinalized. The error of Finalize is the reason why a rank did
// not call Finalize, or why a sent message did not arrive.
func (w *World) Finalize(ctx context.Context) error {
	if ctx == nil {
		return ErrContext
	}
	e := w.e
	e.lock()
	over := e.finalizing || errors.Is(e.broken, ErrFinalized)
	e.finalizing = true
	e.unlock()
	if over {
		return ErrFinalized
	}
	err := w.flush(ctx)
	// If a rank has died, Finalize does not use the launcher's barrier, because a launcher that does
	// not know of the death would wait for the dead rank.
	whole, met := w.meetAll(ctx)
	e.lock()
	e.failures.leaving = true
	e.unlock()
	if met == nil && whole {
		met = w.fence(ctx)
		whole = !isRankError(met)
	}
	if err == nil {
		err = met
	}
	err = errors.Join(err, e.close(w.cfg))
	if !whole && (met == nil || isRankError(met)) {
		brief, cancel := context.WithTimeout(ctx, leaveTimeout)
		defer cancel()
		_ = w.job.Finalize(brief)
		return err
	}
	return errors.Join(err, w.job.Finalize(ctx))
}

// The method "fence" waits for all ranks in the launcher's barrier. Because the launcher's barrier
// never ends without the dead rank, the method "fence" waits for at most leaveTimeout after the
// death of a rank, and then returns a RankError.
func (w *World) fence(ctx context.Context) error {
	e := w.e
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := func(why error) { later(leaveTimeout, func() { cancel(why) }) }
	e.lock()
	f := &e.failures
	f.onDeath = lost
	for _, rank := range w.ranks {
		if why := f.dead[rank]; why != nil {
			lost(e.gone(rank, why))
			break
		}
	}
	e.unlock()
	err := w.job.Fence(ctx)
	e.lock()
	f.onDeath = nil
	e.unlock()
	if cause := context.Cause(ctx); err != nil && isRankError(cause) {
		return cause
	}
	return err
}

// The method "flush" waits until all messages that this rank has sent have arrived.
func (w *World) flush(ctx context.Context) error {
	e := w.e
	e.lock()
	defer e.unlock()
	lost, err := e.flushTo(ctx, w.ranks)
	if err != nil {
		return err
	}
	return lost
}

// flushTo waits until all messages to the given world ranks have arrived or are known to be lost.
// The result "lost" of flushTo is nil if all messages have arrived, and otherwise the reason why
// the first of the lost messages was lost. The caller must hold mu.
func (e *engine) flushTo(ctx context.Context, ranks []int) (lost, err error) {
	w := e.waiters.get(0)
	for _, rank := range ranks {
		p := e.peers[rank]
		if p == nil || p.Err() != nil {
			continue
		}
		w.left++
		p.Endpoint().Flush(e.now(), func(err error) {
			if err != nil && lost == nil {
				lost = e.gone(rank, fmt.Errorf("%w: %w", pml.ErrPeer, err))
			}
			e.waiters.countDown(w)
		})
	}
	err = e.wait(ctx, w)
	return lost, err
}

func discard(e *engine) error {
	e.helper.stop(e.m.Wake)
	e.lock()
	defer e.unlock()
	e.watch.clear()
	e.broken = ErrFinalized
	return e.m.Close()
}

// The method "close" ends the helper goroutine, waits until this rank's messages in transit have
// arrived, and closes the transport.
func (e *engine) close(cfg Config) error {
	e.helper.stop(e.m.Wake)
	e.lock()
	defer e.unlock()
	for _, q := range e.failures.asked {
		q.peer.Endpoint().Abort()
	}
	e.failures.asked = nil
	now := e.now()
	until := now.Add(cfg.CloseTimeout)
	e.m.Drain(now, until)
	w := e.waiters.get(1)
	w.ready = e.m.Drained
	err := e.wait(context.Background(), w)
	if errors.Is(err, ErrFinalized) {
		return err
	}
	e.watch.clear()
	e.broken = ErrFinalized
	return errors.Join(err, e.m.Close())
}
