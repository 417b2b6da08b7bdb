package main

import (
	"context"

	"gobtl/mpi"
)

// isClass is a problem of kernel is. Five keys of the sequence are looked at after each iteration:
// where they stand, and which rank they had to have, which moves up or down with the iterations.
type isClass struct {
	keys, keyMax int
	index        [5]int
	rank         [5]int
	rising       int // so many of the five move up by iteration+shift, the others down by iteration
	shift        int
}

var isClasses = map[string]isClass{
	"S": {
		keys: 1 << 16, keyMax: 1 << 11, rising: 3,
		index: [5]int{48427, 17148, 23627, 62548, 4431},
		rank:  [5]int{0, 18, 346, 64917, 65463},
	},
	"W": {
		keys: 1 << 20, keyMax: 1 << 16, rising: 2, shift: -2,
		index: [5]int{357773, 934767, 875723, 898999, 404505},
		rank:  [5]int{1249, 11698, 1039987, 1043896, 1048018},
	},
}

const isIterations = 10

// sorter is a rank's part of the keys, and of the sorting: the ranks share the sequence of keys,
// and the range of their values.
type sorter struct {
	c     *mpi.Comm
	class isClass
	first int     // place of this rank's first key in the sequence
	keys  []int32 // its part of the sequence
	// Of one iteration: the keys by whose range they are in, what comes from all, and the counts.
	sorted, mine      []int32
	sends, receives   []int
	lowest, below     int   // the least key of this rank's range, and how many keys lie below it
	counts            []int // keys of each value of the range
	sendsAll, placesN []int
}

// is sorts keys by counting, with two keys changed from iteration to iteration.
func is(ctx context.Context, c *mpi.Comm, name string) (verdict, error) {
	class := isClasses[name]
	s := newSorter(c, class)
	v := verdict{what: "ranks of keys"}
	for iteration := 1; iteration <= isIterations; iteration++ {
		s.set(iteration, int32(iteration))
		s.set(iteration+isIterations, int32(class.keyMax-iteration))
		if err := s.sort(ctx); err != nil {
			return v, err
		}
		if err := s.check(ctx, iteration, &v); err != nil {
			return v, err
		}
	}
	return v, s.checkAll(ctx, &v)
}

// share is the first of n that is rank's, when size ranks share them.
func share(n, rank, size int) int { return n * rank / size }

func newSorter(c *mpi.Comm, class isClass) *sorter {
	s := &sorter{c: c, class: class, first: share(class.keys, c.Rank(), c.Size())}
	s.keys = make([]int32, share(class.keys, c.Rank()+1, c.Size())-s.first)
	s.sorted = make([]int32, len(s.keys))
	s.sends, s.receives = make([]int, c.Size()), make([]int, c.Size())
	s.sendsAll, s.placesN = make([]int, c.Size()*c.Size()), make([]int, c.Size())
	s.lowest = share(class.keyMax, c.Rank(), c.Size())
	s.counts = make([]int, share(class.keyMax, c.Rank()+1, c.Size())-s.lowest)
	r := random(cgisftSeed)
	r.skip(4 * uint64(s.first))
	quarter := float64(class.keyMax / 4)
	for i := range s.keys { // a sum of four evenly distributed numbers: most keys are in the middle
		s.keys[i] = int32(quarter * (r.next() + r.next() + r.next() + r.next()))
	}
	return s
}

// set changes the key at a place of the sequence, if that place is here.
func (s *sorter) set(place int, key int32) {
	if place -= s.first; place >= 0 && place < len(s.keys) {
		s.keys[place] = key
	}
}

// owner is the rank whose range a key is in.
func (s *sorter) owner(key int) int {
	n := s.c.Size()
	return ((key+1)*n - 1) / s.class.keyMax
}

// sort brings every key to the owner of its range, and counts the keys there.
func (s *sorter) sort(ctx context.Context) error {
	clear(s.sends)
	for _, k := range s.keys {
		s.sends[s.owner(int(k))]++
	}
	place := 0
	for to, n := range s.sends {
		s.placesN[to] = place
		place += n
	}
	for _, k := range s.keys {
		to := s.owner(int(k))
		s.sorted[s.placesN[to]] = k
		s.placesN[to]++
	}
	if err := mpi.Allgather(ctx, s.c, s.sends, s.sendsAll); err != nil {
		return err
	}
	total := 0
	s.below = 0
	for from := range s.receives {
		row := s.sendsAll[from*s.c.Size() : (from+1)*s.c.Size()]
		s.receives[from] = row[s.c.Rank()]
		total += s.receives[from]
		for to := range s.c.Rank() {
			s.below += row[to]
		}
	}
	if cap(s.mine) < total {
		s.mine = make([]int32, total)
	}
	s.mine = s.mine[:total]
	if err := mpi.Alltoallv(ctx, s.c, s.sorted, s.sends, s.mine, s.receives); err != nil {
		return err
	}
	clear(s.counts)
	for _, k := range s.mine {
		s.counts[int(k)-s.lowest]++
	}
	return nil
}

// check compares the ranks of the five keys.
func (s *sorter) check(ctx context.Context, iteration int, v *verdict) error {
	key := make([]int32, 5)
	for i, place := range s.class.index {
		if place -= s.first; place >= 0 && place < len(s.keys) {
			key[i] = s.keys[place]
		}
	}
	if err := mpi.Allreduce(ctx, s.c, key, key, mpi.Sum[int32]()); err != nil {
		return err
	}
	got := make([]int, 5)
	for i, k := range key {
		if at := int(k) - s.lowest; at >= 0 && at < len(s.counts) {
			got[i] = s.below
			for _, n := range s.counts[:at] {
				got[i] += n
			}
		}
	}
	if err := mpi.Allreduce(ctx, s.c, got, got, mpi.Sum[int]()); err != nil {
		return err
	}
	for i, rank := range s.class.rank {
		want := rank + iteration + s.class.shift
		if i >= s.class.rising {
			want = rank - iteration
		}
		v.compare(float64(got[i]), float64(want), 0)
	}
	return nil
}

// checkAll writes the keys down in their order, and looks at each.
func (s *sorter) checkAll(ctx context.Context, v *verdict) error {
	all := s.mine[:0]
	for i, n := range s.counts {
		for range n {
			all = append(all, int32(s.lowest+i))
		}
	}
	wrong := []int{0}
	for i := 1; i < len(all); i++ {
		if all[i-1] > all[i] {
			wrong[0]++
		}
	}
	total := []int{len(all)}
	if err := mpi.Allreduce(ctx, s.c, total, total, mpi.Sum[int]()); err != nil {
		return err
	}
	if err := mpi.Allreduce(ctx, s.c, wrong, wrong, mpi.Sum[int]()); err != nil {
		return err
	}
	v.compare(float64(total[0]), float64(s.class.keys), 0)
	v.compare(float64(wrong[0]), 0, 0)
	return nil
}
