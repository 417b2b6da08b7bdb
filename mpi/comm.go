package mpi

import "gobtl/pml"

// The constants below describe the bit fields of the tag that a message has on the wire.
const (
	tagBits    = 24
	innerShift = tagBits
	countShift = innerShift + 1
	countBits  = 19
	makerShift = countShift + countBits
	makerBits  = 64 - makerShift
	// RanksMax is the largest number of ranks of a job.
	RanksMax = 1 << makerBits
)

// Comm is a communicator, which is a group of ranks numbered from 0. A message matches only
// receives in the communicator in which the message was sent. A Comm is safe for concurrent use by
// several goroutines. All ranks must call the collective operations, such as Dup and Split, in the
// same order.
type Comm struct {
	e       *engine
	rank    int
	ranks   []int        // world ranks of the members
	index   map[int]int  // from world ranks to members; nil: the same
	within  *pml.Members // set of the members; nil until a receive or probe from any rank needs it
	context uint64
	nodes   []int // hosts of the members
	calls   int   // number of collective operations
	readied int   // number of persistent operations
	under   []*operation
	rounds  uint32
	failed  error // why no collective operation can begin
	revoked error
}

// Rank returns this process's number in the communicator, 0 to Size-1.
func (c *Comm) Rank() int { return c.rank }

// Size returns the number of ranks of the communicator.
func (c *Comm) Size() int { return len(c.ranks) }

// WorldRank returns the world rank of a rank of this communicator, or -1 if the communicator has no
// such rank.
func (c *Comm) WorldRank(rank int) int {
	if rank < 0 || rank >= len(c.ranks) {
		return -1
	}
	return c.ranks[rank]
}

func (c *Comm) rankIn(world int) (int, bool) {
	if c.index == nil {
		return world, world < len(c.ranks)
	}
	rank, ok := c.index[world]
	return rank, ok
}

// numberOf returns the pml.Peer.Number of the peer with the given world rank, which identifies the
// peer in sets of the type pml.Members.
func numberOf(rank int) uint32 { return uint32(rank) + 1 }

// among returns the set of peers whose messages a receive or probe from the given source can match.
// The result of among is nil if every rank of the job belongs to the communicator, or if the source
// is a single rank, because no set is needed then. Ranks outside a communicator know its context or
// can guess it, so a receive from any rank must ignore their messages. The caller must hold mu.
func (c *Comm) among(from int) *pml.Members {
	if from != AnySource || len(c.ranks) == len(c.e.peers) {
		return nil
	}
	if c.within == nil {
		c.within = new(pml.Members)
		for _, world := range c.ranks {
			c.within.Add(numberOf(world))
		}
	}
	return c.within
}

// dropOutsiders drops messages of ranks outside the communicator that a probe with the given
// arguments would find. The caller must hold mu.
func (c *Comm) dropOutsiders(from int, want, mask uint64) {
	if among := c.among(from); among != nil {
		c.e.l.DropOthers(among, want, mask)
	}
}
