package mpi

import (
	"context"
	"encoding/json"
	"fmt"

	"gobtl/fabric"
	"gobtl/internal/plain"
	"gobtl/internal/waiting"
)

// Network describes the network that a World uses.
type Network struct {
	Provider string // a provider's name in package fabric, such as "udp"
	Reason   string // why the World uses that provider
}

// memoryProvider is the name of the provider of shared memory. If the Config names no provider, a
// World chooses between the provider of shared memory and the provider for UDP that fabric.Sockets
// names.
const memoryProvider = "shm"

// sharingRanksMax is the largest number of ranks on one host that use shared memory by default.
// With shared memory, a process needs filesForPeer file descriptors for each peer, and the usual
// limit is 1024 file descriptors for a process.
const sharingRanksMax = 128

// A wish is the message in which a rank tells all other ranks which provider its Config names and
// which shared memory it sees, so that all ranks can choose the same provider. A wish also says
// which CPUs the rank may use.
type wish struct {
	Provider string // the provider in the rank's Config, if any
	Memory   string // identity of the shared memory that the rank can use
	Lack     string // reason outside of the program why the rank cannot use shared memory
	CPUs     string // the CPUs that the rank may use: see cpusText
}

// chooseNetwork returns the provider that all ranks of a job use. If the Config of some rank names
// a provider, all ranks of the job use that provider. If no Config names a provider, all ranks use
// shared memory if they see the same shared memory, and otherwise UDP. For a job on one host,
// chooseNetwork also returns the set of CPUs that each rank may use, in the text form that cpusText
// defines.
func chooseNetwork(ctx context.Context, job Job, hints fabric.Hints) (n Network, cpus []string,
	err error,
) {
	switch {
	case hints.Provider != "" && (job.Nodes() != 1 || job.Size() == 1):
		return Network{hints.Provider, "the configuration names it"}, nil, nil
	case job.Nodes() != 1:
		n = Network{fabric.Sockets(), fmt.Sprintf("the job is on %d hosts", job.Nodes())}
		return n, nil, nil
	case job.Size() == 1:
		return Network{fabric.Sockets(), "the job has one rank"}, nil, nil
	}
	mine := wish{Provider: hints.Provider, CPUs: cpusText()}
	if hints.Node == "" && hints.Domain == "" && job.Size() <= sharingRanksMax {
		mine.Memory, mine.Lack = sharedMemory(job.Size())
	}
	value, err := json.Marshal(mine)
	if err != nil {
		return n, nil, fmt.Errorf("mpi: %w", err)
	}
	values, err := job.Exchange(ctx, "mpi-network", value)
	if err != nil {
		return n, nil, fmt.Errorf("mpi: %w", err)
	}
	wishes, cpus := make([]wish, len(values)), make([]string, len(values))
	for rank, value := range values {
		if err := json.Unmarshal(value, &wishes[rank]); err != nil {
			return n, nil, fmt.Errorf("%w: rank %d wishes for %.80q", ErrAddress, rank, value)
		}
		wishes[rank].Lack = plain.Line(wishes[rank].Lack)
		wishes[rank].Provider = plain.Line(wishes[rank].Provider)
		cpus[rank] = wishes[rank].CPUs
	}
	n, err = agreeOnNetwork(wishes)
	return n, cpus, err
}

// agreeOnNetwork chooses a provider from the messages (wishes) of all ranks, and the result is the
// same at all ranks.
func agreeOnNetwork(wishes []wish) (Network, error) {
	named := -1
	for rank, w := range wishes {
		switch {
		case w.Provider == "":
		case named < 0:
			named = rank
		case w.Provider != wishes[named].Provider:
			return Network{}, fmt.Errorf("%w: rank %d names the provider %q, rank %d %q", ErrConfig, named,
				wishes[named].Provider, rank, w.Provider)
		}
	}
	if named >= 0 {
		why := fmt.Sprintf("the configuration of rank %d names it", named)
		return Network{wishes[named].Provider, why}, nil
	}
	if len(wishes) > sharingRanksMax {
		why := fmt.Sprintf("more than %d ranks are on this host", sharingRanksMax)
		return Network{fabric.Sockets(), why}, nil
	}
	for rank, w := range wishes {
		switch {
		case w.Lack != "":
			why := fmt.Sprintf("rank %d cannot share memory: %s", rank, w.Lack)
			return Network{fabric.Sockets(), why}, nil
		case w.Memory == "":
			why := fmt.Sprintf("rank %d cannot use shared memory", rank)
			return Network{fabric.Sockets(), why}, nil
		case w.Memory != wishes[0].Memory:
			why := fmt.Sprintf("rank %d does not see the shared memory of rank 0", rank)
			return Network{fabric.Sockets(), why}, nil
		}
	}
	return Network{memoryProvider, "all ranks are on this host and see the same memory"}, nil
}

// localNode returns the address that all ranks of a job on one host use. If the provider has no IP
// addresses, localNode returns an empty string.
func localNode(provider string) string {
	if fabric.OverSockets(provider) {
		return "127.0.0.1"
	}
	return ""
}

// sharedMemory returns a text that identifies the shared memory that this process sees. Two
// processes on different hosts, in different containers or of different users see different shared
// memory, with different identities. If the program cannot use shared memory, sharedMemory returns
// an empty identity. The result "lack" of sharedMemory is the reason why the given number of ranks
// cannot use shared memory, or an empty string if they can use shared memory. sharedMemory opens
// the provider as a test, because the open fails if a different user has created the directory of
// the provider's sockets.
func sharedMemory(ranks int) (memory, lack string) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: memoryProvider})
	if err != nil {
		return "", ""
	}
	if lack = limitOfFiles(filesForPeer * ranks); lack != "" {
		return infos[0].Fabric, lack
	}
	domain, err := fabric.Open(infos[0], fabric.DomainConfig{Buffers: 1})
	if err == nil {
		err = domain.Close()
	}
	if err != nil {
		lack = fmt.Sprintf("%.200s", err)
	}
	return infos[0].Fabric, lack
}

// Waits holds the numbers of sleeps, yields and similar events of a rank that waits for messages.
// The field State says which threads, in addition to the rank's own, use the CPU of the rank.
type Waits = waiting.Counts

// Waits returns the numbers of sleeps, yields and similar events of the calls in which this rank
// has waited for messages. Waits is safe for concurrent use by several goroutines.
func (w *World) Waits() Waits {
	w.e.lock()
	defer w.e.unlock()
	return w.e.policy.Counts()
}

// Network returns the network that the ranks use, and the reason for the choice. The result of
// Network is the same at all ranks on one host.
func (w *World) Network() Network { return w.network }
