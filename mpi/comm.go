package mpi

// The parts of a tag on its way: see the documentation of the package.
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

// Comm is a communicator: some ranks, numbered anew, whose messages are no other communicator's.
// Any goroutine may use it, but the operations of all its ranks together (Dup, Split) must be
// called in the same order by all of them.
type Comm struct {
	e       *engine
	rank    int
	ranks   []int       // their ranks in the world
	index   map[int]int // the other way; nil if they are the same
	context uint64
	nodes   []int // of the ranks
	calls   int   // of collective operations
	readied int   // persistent ones
	under   []*operation
	rounds  uint32
	failed  error // why no collective operation can begin
	revoked error
}

// Rank is this process's number in the communicator, 0 to Size-1.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of its ranks.
func (c *Comm) Size() int { return len(c.ranks) }

// WorldRank is the rank in the world of a rank of this communicator; -1 if there is none such.
func (c *Comm) WorldRank(rank int) int {
	if rank < 0 || rank >= len(c.ranks) {
		return -1
	}
	return c.ranks[rank]
}

// rankIn is the rank here of a rank of the world.
func (c *Comm) rankIn(world int) (int, bool) {
	if c.index == nil {
		return world, world < len(c.ranks)
	}
	rank, ok := c.index[world]
	return rank, ok
}
