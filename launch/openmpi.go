package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// A meeting holds the secret of the job, and the address at which rank 0 listens for the ranks of
// the job if the launcher does not support PMI-1.
type meeting struct {
	network, address string
	secret           []byte
	name             string // name of the job
}

// joinOpenMPI joins a job of Open MPI's mpirun. Open MPI's mpirun does not support PMI-1, but tells
// each process its rank in environment variables. If the launcher does not support PMI-1, rank 0 is
// the PMI-1 server for all ranks.
func (j *Job) joinOpenMPI(ctx context.Context, env environment) (err error) {
	if j.rank, j.size, err = env.place("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"); err != nil {
		return err
	}
	if j.size == 1 {
		return nil
	}
	at, err := env.meeting(j.size)
	if err != nil {
		return err
	}
	if j.rank == 0 {
		if j.meet, err = openRendezvous(at, j.size, j.cfg.Timeout); err != nil {
			return err
		}
		err = j.reachOwn(ctx)
	} else {
		err = j.reach(ctx, at)
	}
	if err != nil {
		return err
	}
	rank, size := j.rank, j.size
	if err := j.readPlace(ctx); err != nil {
		return err
	}
	if j.rank != rank || j.size != size {
		return j.link.broken(fmt.Errorf("rank %d of %d, not %d of %d", j.rank, j.size, rank, size))
	}
	return nil
}

// The method "meeting" returns the address at which rank 0 listens for the ranks of the job. If the
// environment variable RendezvousVariable is set, its value is the address at which rank 0 listens.
// If RendezvousVariable is not set, all ranks must be on one node, and the address is a Unix
// socket.
func (e environment) meeting(size int) (meeting, error) {
	job := e["PMIX_NAMESPACE"] + "/" + e["OMPI_MCA_ess_base_jobid"]
	secret := e[KeyVariable]
	if secret == "" {
		secret = e["OMPI_MCA_orte_precondition_transports"] // 128 random bits, equal in all ranks
	}
	hash := sha256.Sum256([]byte(job + "/" + secret))
	name := "gobtl-" + hex.EncodeToString(hash[:8])
	if address := e[RendezvousVariable]; address != "" {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return meeting{}, fmt.Errorf("%w: %s: %w", ErrEnvironment, RendezvousVariable, err)
		}
		if secret == "" {
			return meeting{}, fmt.Errorf("%w: set %s, the same for all ranks", ErrRendezvous, KeyVariable)
		}
		return meeting{"tcp", address, []byte(secret), name}, nil
	}
	local, err := e.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, size)
	if err != nil {
		return meeting{}, err
	}
	if local < size {
		return meeting{}, fmt.Errorf("%w: the ranks are on several nodes; say where rank 0 shall "+
			"listen: mpirun -x %s=HOST:PORT", ErrRendezvous, RendezvousVariable)
	}
	base := e["PMIX_SERVER_TMPDIR"] // mpirun removes this directory
	if checkOwn(base) != nil {
		base = os.TempDir()
	}
	// The ranks may authenticate each other by a key that is not secret, because only this user has
	// access to the directory of the socket.
	return meeting{"unix", filepath.Join(base, name, "pmi"), []byte(job + "/" + secret), name}, nil
}
