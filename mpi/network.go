package mpi

import (
	"context"
	"encoding/json"
	"fmt"

	"gobtl/fabric"
)

// Network is the network that a World uses.
type Network struct {
	Provider string // a provider's name in the registry of package fabric, such as "udp"
	Reason   string // why that one, for people
}

// The providers from which a World chooses by itself.
const (
	networkProvider = "udp"
	memoryProvider  = "shm"
)

// sharingRanksMax is the number of ranks of one host up to which they share memory without being
// asked to. Each pair takes filesForPeer descriptors of a process: more ranks would come near the
// usual limit of 1024.
const sharingRanksMax = 128

// wish is what a rank tells the others before they choose a provider.
type wish struct {
	Provider string // that its Config names, if any
	Memory   string // the shared memory that it sees, if the program can use it
	Lack     string // why it cannot, if that is not the program's
}

// chooseNetwork says which provider the ranks of a job use: all the same one. What one of them
// names goes before; shared memory comes next, if all ranks see the same; then UDP.
func chooseNetwork(ctx context.Context, job Job, hints fabric.Hints) (Network, error) {
	switch {
	case hints.Provider != "" && (job.Nodes() != 1 || job.Size() == 1):
		return Network{hints.Provider, "the configuration names it"}, nil
	case job.Nodes() != 1:
		return Network{networkProvider, fmt.Sprintf("the job is on %d hosts", job.Nodes())}, nil
	case job.Size() == 1:
		return Network{networkProvider, "the job has one rank"}, nil
	}
	mine := wish{Provider: hints.Provider}
	if hints.Node == "" && hints.Domain == "" && job.Size() <= sharingRanksMax {
		mine.Memory, mine.Lack = sharedMemory(job.Size())
	}
	value, err := json.Marshal(mine)
	if err != nil {
		return Network{}, fmt.Errorf("mpi: %w", err)
	}
	values, err := job.Exchange(ctx, "mpi-network", value)
	if err != nil {
		return Network{}, fmt.Errorf("mpi: %w", err)
	}
	wishes := make([]wish, len(values))
	for rank, value := range values {
		if err := json.Unmarshal(value, &wishes[rank]); err != nil {
			return Network{}, fmt.Errorf("%w: rank %d wishes for %.80q", ErrAddress, rank, value)
		}
	}
	return agreeOnNetwork(wishes)
}

// agreeOnNetwork comes to the same result at all ranks of a host.
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
		return Network{networkProvider, why}, nil
	}
	for rank, w := range wishes {
		switch {
		case w.Lack != "":
			why := fmt.Sprintf("rank %d cannot share memory: %s", rank, w.Lack)
			return Network{networkProvider, why}, nil
		case w.Memory == "":
			why := fmt.Sprintf("rank %d cannot use shared memory", rank)
			return Network{networkProvider, why}, nil
		case w.Memory != wishes[0].Memory:
			why := fmt.Sprintf("rank %d does not see the shared memory of rank 0", rank)
			return Network{networkProvider, why}, nil
		}
	}
	return Network{memoryProvider, "all ranks are on this host and see the same memory"}, nil
}

// sharedMemory tells the shared memory that this process sees from that of other hosts,
// containers and users; it is empty if the program cannot use any. lack is what is in the way of
// using it with so many ranks. It is opened for a trial: another user may have taken the place of
// its sockets, and that must show before the ranks agree.
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

// Network is the network that the ranks use, and why: the same at all ranks of a host.
func (w *World) Network() Network { return w.network }
