package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gobtl/launch/pmi"
)

// Job is the membership of this process in a parallel job. The methods of Job give access
// to the job's key-value store.
type Job struct {
	cfg        Config
	launcher   Launcher
	rank, size int
	name       string // name of the key-value store
	nodes      []int  // node of each rank
	locals     []int  // ranks on this node, ascending

	lock   sync.Mutex // held by the call that waits for a reply of the launcher
	link   *link      // nil without a launcher
	meet   *rendezvous
	pieces int // maximum size of one part of a value, in bytes
	own    map[string][]byte
	ended  bool
}

// Join connects to the launcher and gets this process's rank in the job. Join waits for replies of
// the launcher. If the launcher does not tell on which nodes the ranks run, Join must wait until
// all ranks of the job have called Join. A process may call Join only once, because the launcher
// accepts one connection per process.
//
// The errors of Join are ErrConfig, ErrEnvironment, ErrNoPMI, ErrRendezvous, ErrProtocol,
// ErrRefused, ErrGone, ErrTimeout, ErrContext, and the cause of ctx.
func Join(ctx context.Context, cfg Config) (*Job, error) {
	if ctx == nil {
		return nil, ErrContext
	}
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	env := readEnvironment(cfg.Environ)
	launcher, err := env.launcher()
	if err != nil {
		return nil, err
	}
	j := &Job{cfg: cfg, launcher: launcher, size: 1, name: "alone", own: map[string][]byte{}}
	switch launcher {
	case PMI1:
		err = j.joinPMI(ctx, env)
	case OpenMPI:
		err = j.joinOpenMPI(ctx, env)
	case None:
	}
	if err == nil {
		err = j.begin(ctx)
	}
	if err != nil {
		j.close(ErrFinalized)
		return nil, err
	}
	return j, nil
}

// The method "begin" negotiates the protocol with the launcher, and determines the node of each
// rank.
func (j *Job) begin(ctx context.Context) error {
	j.nodes = make([]int, j.size)
	if j.link != nil {
		sizes, name, err := j.link.begin(ctx, j.cfg.Timeout)
		if err != nil {
			return err
		}
		j.name, j.pieces = name, pieceBytes(name, sizes.value)
		if longest := len(piece(j.size, "", piecesMax)) + KeyBytesMax; longest > sizes.key ||
			j.pieces < 16 {
			return fmt.Errorf("%w: room for keys of %d bytes, values of %d", ErrProtocol, sizes.key,
				j.pieces)
		}
		if err := j.findNodes(ctx); err != nil {
			return err
		}
	}
	for rank, node := range j.nodes {
		if node == j.nodes[j.rank] {
			j.locals = append(j.locals, rank)
		}
	}
	return nil
}

// Rank returns this process's rank, from 0 to Size()-1.
func (j *Job) Rank() int { return j.rank }

// Size returns the number of processes of the job.
func (j *Job) Size() int { return j.size }

// Launcher returns the kind of launcher that has started the job.
func (j *Job) Launcher() Launcher { return j.launcher }

// ID returns an identifier of the job, unique among the jobs of the same launcher.
func (j *Job) ID() string { return j.name }

// Nodes returns the number of nodes (hosts) of the job.
func (j *Job) Nodes() int { return slices.Max(j.nodes) + 1 }

// NodeOf returns the node of a rank, from 0 to Nodes()-1. Nodes are numbered in the order of the
// lowest rank on each node. If the argument "rank" is not a rank of the job, NodeOf returns -1.
func (j *Job) NodeOf(rank int) int {
	if rank < 0 || rank >= j.size {
		return -1
	}
	return j.nodes[rank]
}

// Node returns the node of this process.
func (j *Job) Node() int { return j.nodes[j.rank] }

// Locals returns the ranks on this process's node in ascending order. The caller owns the returned
// slice.
func (j *Job) Locals() []int { return slices.Clone(j.locals) }

// LocalRank returns the index of this process in the list of ranks on its node, from 0 to
// LocalSize()-1.
func (j *Job) LocalRank() int {
	at, _ := slices.BinarySearch(j.locals, j.rank)
	return at
}

// LocalSize returns the number of ranks on this process's node.
func (j *Job) LocalSize() int { return len(j.locals) }

// Put publishes a copy of the argument "value" under a key of this rank. After the next Fence, all
// ranks can read the value with Get. A rank may call Put only once for each key. The errors of Put
// are ErrKey, ErrTooLarge, ErrFinalized, ErrRefused (if the launcher's store is full), and errors
// of the connection to the launcher, such as ErrGone.
func (j *Job) Put(ctx context.Context, key string, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return j.put(ctx, key, value)
}

func (j *Job) put(ctx context.Context, key string, value []byte) error {
	if ctx == nil {
		return ErrContext
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	_, twice := j.own[key]
	switch {
	case j.ended:
		return ErrFinalized
	case len(value) > ValueBytesMax:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(value), ValueBytesMax)
	case twice:
		return fmt.Errorf("%w: %q was put before", ErrKey, key)
	}
	j.own[key] = slices.Clone(value)
	if j.link == nil {
		return nil
	}
	for i, text := range cut(value, j.pieces) {
		line := "cmd=put kvsname=" + j.name + " key=" + piece(j.rank, key, i) + " value=" + text
		m, err := j.link.ask(ctx, j.cfg.Timeout, line, "put_result")
		if err == nil {
			err = j.link.accepted(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Fence waits until all ranks have called Fence. After Fence, this rank can use Get to read all
// values that the ranks of the job have published with Put before they called Fence. If Fence
// returns an error, even the cause of ctx, the connection to the launcher is closed, and this rank
// can no longer use the job. The errors of Fence are ErrFinalized, ErrTimeout (after
// Config.FenceTimeout), the cause of ctx, and errors of the connection to the launcher (such as
// ErrGone).
func (j *Job) Fence(ctx context.Context) error {
	if ctx == nil {
		return ErrContext
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.ended {
		return ErrFinalized
	}
	if j.link == nil {
		return nil
	}
	m, err := j.link.ask(ctx, j.cfg.FenceTimeout, "cmd=barrier_in", "barrier_out")
	if err != nil {
		return err
	}
	if err := j.link.accepted(m); err != nil {
		return j.link.broken(err)
	}
	return nil
}

// Get returns the value that a rank has published with Put under the given key before the latest
// Fence. The caller owns the returned slice. The errors of Get are ErrRank, ErrKey, ErrNoValue,
// ErrFinalized, and errors of the connection to the launcher, such as ErrGone.
func (j *Job) Get(ctx context.Context, rank int, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= j.size {
		return nil, fmt.Errorf("%w: %d of %d", ErrRank, rank, j.size)
	}
	return j.get(ctx, rank, key)
}

func (j *Job) get(ctx context.Context, rank int, key string) ([]byte, error) {
	if ctx == nil {
		return nil, ErrContext
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.ended {
		return nil, ErrFinalized
	}
	if rank == j.rank {
		if value, ok := j.own[key]; ok {
			return slices.Clone(value), nil
		}
		return nil, fmt.Errorf("%w: %q of rank %d", ErrNoValue, key, rank)
	}
	var joined joiner
	for i := 0; ; i++ {
		text, err := j.lookUp(ctx, piece(rank, key, i))
		if errors.Is(err, ErrRefused) && i == 0 {
			return nil, fmt.Errorf("%w: %q of rank %d", ErrNoValue, key, rank)
		}
		if err != nil {
			return nil, err
		}
		done, err := joined.add(i, text)
		if err != nil {
			return nil, j.link.broken(err)
		}
		if done {
			break
		}
	}
	value, err := joined.value()
	if err != nil {
		return nil, j.link.broken(err)
	}
	return value, nil
}

// lookUp returns the text that the launcher's key-value store has for a key. If the launcher's
// key-value store does not have the key, lookUp returns ErrRefused.
func (j *Job) lookUp(ctx context.Context, key string) (string, error) {
	line := "cmd=get kvsname=" + j.name + " key=" + key
	m, err := j.link.ask(ctx, j.cfg.Timeout, line, "get_result")
	if err == nil {
		err = j.link.accepted(m)
	}
	if err != nil {
		return "", err
	}
	text, ok := m.Get("value")
	if !ok {
		return "", j.link.broken(errors.New("a result without a value"))
	}
	return text, nil
}

// Exchange publishes a value with Put under a key, waits in Fence for all ranks, and returns the
// values that all ranks have published under this key. The value that rank i has published is at
// index i of the result. The errors of Exchange are the errors of Put, Fence and Get.
func (j *Job) Exchange(ctx context.Context, key string, value []byte) ([][]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	return j.exchange(ctx, key, value)
}

func (j *Job) exchange(ctx context.Context, key string, value []byte) ([][]byte, error) {
	if err := j.put(ctx, key, value); err != nil {
		return nil, err
	}
	if err := j.Fence(ctx); err != nil {
		return nil, err
	}
	all := make([][]byte, j.size)
	for i := range all {
		rank := (j.rank + i) % j.size // spreads the load on the server
		v, err := j.get(ctx, rank, key)
		if err != nil {
			return nil, err
		}
		all[rank] = v
	}
	return all, nil
}

// Abort tells the launcher that the job has failed. After Abort, the launcher ends all ranks,
// including this one, and exits with the given status, which must be 1 to 255. A launcher that does
// not support PMI-1 ends the job only when this process exits with a nonzero status. With a
// launcher that does not support PMI-1, the program must therefore exit with a nonzero status after
// Abort. If Abort returns an error such as ErrGone or the cause of ctx, the launcher might not know
// that the job has failed.
func (j *Job) Abort(ctx context.Context, status int) error {
	if ctx == nil {
		return ErrContext
	}
	if status < 1 || status > 255 {
		return fmt.Errorf("%w: status %d, want 1 to 255", ErrConfig, status)
	}
	line := fmt.Sprintf("cmd=abort exitcode=%d", status)
	if !j.lock.TryLock() {
		said := j.link.interrupt(ctx, j.cfg.Timeout, line, j.lock.Lock)
		if said {
			line = ""
		}
	}
	defer j.lock.Unlock()
	if j.ended {
		if line == "" {
			return nil // the launcher got the line cmd=abort before Finalize ended
		}
		return ErrFinalized
	}
	j.ended = true
	if j.link == nil {
		return nil
	}
	_, err := j.link.ask(ctx, j.cfg.Timeout, line, "aborted")
	j.closeAll(ErrFinalized)
	switch {
	case !errors.Is(err, ErrGone):
		return err
	case j.link.said:
		return nil // The launcher closes the connection when it ends the job.
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// Finalize tells the launcher that this rank has no more requests and that its process may end. If
// a process ends without Finalize, the launcher considers the job as failed. With a launcher that
// does not support PMI-1, Finalize at rank 0 returns only after all ranks have called Finalize, or
// when ctx ends. If the job is already finalized, Finalize returns ErrFinalized. All other errors
// of Finalize are errors of the connection to the launcher, such as ErrGone.
func (j *Job) Finalize(ctx context.Context) error {
	if ctx == nil {
		return ErrContext
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	if j.ended {
		return ErrFinalized
	}
	j.ended = true
	if j.link == nil {
		return nil
	}
	defer j.closeAll(ErrFinalized)
	m, err := j.link.ask(ctx, j.cfg.Timeout, "cmd=finalize", "finalize_ack")
	if err == nil {
		err = j.link.accepted(m)
	}
	if err == nil && j.meet != nil {
		err = j.meet.wait(ctx, j.cfg.FenceTimeout)
	}
	return err
}

// The method "close" closes the connections that Join has opened.
func (j *Job) close(err error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.ended = true
	j.closeAll(err)
}

func (j *Job) closeAll(err error) {
	if j.link != nil {
		j.link.close(err)
	}
	if j.meet != nil {
		j.meet.close()
	}
}

// hostKey is the key under which ranks publish their host names if the launcher does not tell on
// which nodes the ranks run. A program cannot publish a value under hostKey, because Put does not
// accept a key with a dot.
const hostKey = "launch.host"

// findNodes determines the number of the node of each rank, from the launcher's mapping from ranks
// to nodes. If the launcher has no usable mapping, the ranks exchange their host names.
func (j *Job) findNodes(ctx context.Context) error {
	text, err := j.lookUp(ctx, pmi.MappingKey)
	if err == nil && text != "" {
		if nodes, wrong := pmi.ParseMapping(text, j.size); wrong == nil {
			j.nodes = nodes
			return nil
		} // truncated mapping, the same for all ranks
	}
	if err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	hosts, err := j.exchange(ctx, hostKey, HostName())
	if err != nil {
		return err
	}
	j.nodes = numberHosts(hosts)
	return nil
}

// numberHosts returns, for each rank, the number of the rank's host. Hosts are numbered in the
// order of the lowest rank on each host.
func numberHosts(hosts [][]byte) []int {
	nodes := make([]int, len(hosts))
	number := map[string]int{}
	for rank, host := range hosts {
		node, known := number[string(host)]
		if !known {
			node = len(number)
			number[string(host)] = node
		}
		nodes[rank] = node
	}
	return nodes
}
