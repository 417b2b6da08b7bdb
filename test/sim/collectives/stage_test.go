package collectives

import (
	"fmt"

	"gobtl/mpi/coll"
	"gobtl/pml"
)

// stage is a network between the ranks of one operation. Data is not moved: only who waits for
// whom counts.
type stage struct {
	now       int
	begun     []int // by rank: the step in which it can begin to send next
	taken     []int // and in which it can take next
	later     map[int][]func()
	events    int                   // that are to come
	waiting   map[[2]int][]int      // sizes of messages that have come, by sender and receiver
	receiving map[[2]int][]*receive // that wait
	ended     int                   // ranks
	broken    error                 // of a schedule, or of what it does
}

type receive struct {
	r    *pml.Request
	size int
}

func newStage(ranks int) *stage {
	return &stage{
		begun: make([]int, ranks), taken: make([]int, ranks), later: map[int][]func(){},
		waiting: map[[2]int][]int{}, receiving: map[[2]int][]*receive{},
	}
}

// at has something happen in a step to come.
func (g *stage) at(step int, do func()) {
	g.later[step] = append(g.later[step], do)
	g.events++
}

// seat is a rank's place.
type seat struct {
	*stage
	rank int
}

// Send implements coll.Port: the message leaves as soon as those before it have.
func (s seat) Send(r *pml.Request, to int, data []byte) error {
	begin := max(s.now, s.begun[s.rank])
	s.begun[s.rank] = begin + 1
	pair, size := [2]int{s.rank, to}, len(data)
	s.at(begin+1, func() { s.arrive(pair, size) })
	r.OnDone(r)
	return nil
}

// arrive takes a message in as soon as those before it are.
func (g *stage) arrive(pair [2]int, size int) {
	take := max(g.now, g.taken[pair[1]]+1)
	g.taken[pair[1]] = take
	come := func() {
		g.waiting[pair] = append(g.waiting[pair], size)
		g.match(pair)
	}
	if take == g.now {
		come()
		return
	}
	g.at(take, come)
}

// Recv implements coll.Port.
func (s seat) Recv(r *pml.Request, from int, data []byte) error {
	pair := [2]int{from, s.rank}
	s.receiving[pair] = append(s.receiving[pair], &receive{r, len(data)})
	s.at(s.now, func() { s.match(pair) })
	return nil
}

// Cancel implements coll.Port.
func (s seat) Cancel(*pml.Request) bool { return false }

// Skip implements coll.Port.
func (s seat) Skip(int) { panic("all sizes are right") }

// match gives a message to the receive that waits for it.
func (g *stage) match(pair [2]int) {
	sent, want := g.waiting[pair], g.receiving[pair]
	if len(sent) == 0 || len(want) == 0 {
		return
	}
	if sent[0] != want[0].size {
		g.broken = fmt.Errorf("%v: %d bytes for a receive of %d", pair, sent[0], want[0].size)
	}
	r := want[0].r
	g.waiting[pair], g.receiving[pair] = sent[1:], want[1:]
	r.OnDone(r)
}

// run carries out the schedules of all ranks, and returns the number of steps.
func (g *stage) run(all []*coll.Schedule) (steps int, err error) {
	for rank, s := range all {
		g.at(0, func() {
			s.Start(seat{g, rank}, func(err error) {
				g.ended++
				if err != nil {
					g.broken = err
				}
			})
		})
	}
	for ; g.events > 0; g.now++ {
		for len(g.later[g.now]) > 0 { // also what they add
			now := g.later[g.now]
			g.later[g.now] = nil
			for _, do := range now {
				do()
			}
			g.events -= len(now)
		}
		delete(g.later, g.now)
	}
	if g.ended < len(all) && g.broken == nil {
		g.broken = fmt.Errorf("%d ranks wait for ever", len(all)-g.ended)
	}
	return g.now - 1, g.broken
}
