package coll

// The constants below are the smallest data sizes, in bytes, for which collective operations use
// the algorithms for large data.
const (
	bcastLarge     = 64 << 10
	allreduceLarge = 32 << 10
	gatherLarge    = 4 << 10 // size of a rank's part
	alltoallLarge  = 32 << 10
	scatterLarge   = 32 << 10
)

// Barrier adds the steps of a barrier. A barrier ends at a rank only after all ranks have begun the
// barrier. In round k of a barrier, each rank sends a message to the rank whose number is higher by
// 2^k, modulo the number of ranks.
func (s *Schedule) Barrier() {
	for d := 1; d < s.size; d *= 2 {
		s.recv(s.ring(-d), nil)
		s.send(s.ring(d), nil)
		s.fence()
	}
}

// Bcast copies the root's data to all ranks.
func (s *Schedule) Bcast(data []byte, valueBytes, root int) {
	if len(data) < bcastLarge || s.size <= 2 {
		s.bcastTree(data, root)
		return
	}
	parts := s.even(data, valueBytes)
	s.scatterTree(parts, root)
	// After the scatter of a large Bcast, each rank sends its own part to the next rank, and then
	// forwards each part that it receives.
	v := s.from(root)
	for i := range s.size - 1 {
		s.recv(s.ring(-1), parts.of((v-i-1+2*s.size)%s.size))
		s.send(s.ring(1), parts.of((v-i+s.size)%s.size))
		s.fence()
	}
}

// The method "from" returns the number of this rank relative to the root, which has the number 0.
func (s *Schedule) from(root int) int { return (s.rank - root + s.size) % s.size }

// bcastTree is a Bcast by a binomial tree. A rank that receives the data from the rank whose number
// is lower by d sends the data to the ranks whose numbers are higher by d/2, d/4 and so on.
func (s *Schedule) bcastTree(data []byte, root int) {
	v, d := s.from(root), 1
	for ; d < s.size && v&d == 0; d *= 2 {
	}
	if v != 0 {
		s.recv(s.ring(-d), data)
		s.fence()
	}
	for d /= 2; d > 0; d /= 2 {
		if v+d < s.size {
			s.send(s.ring(d), data)
		}
	}
	s.fence()
}

// scatterTree sends part i of the root's data to the i-th rank after the root, along a binomial
// tree. An inner rank of the binomial tree receives the parts of all ranks in its subtree together
// with its own part.
func (s *Schedule) scatterTree(parts even, root int) {
	v, d := s.from(root), 1
	for ; d < s.size && v&d == 0; d *= 2 {
	}
	if v != 0 {
		s.recv(s.ring(-d), parts.to(v, min(v+d, s.size)))
		s.fence()
	}
	for d /= 2; d > 0; d /= 2 {
		if v+d < s.size {
			s.send(s.ring(d), parts.to(v+d, min(v+2*d, s.size)))
		}
	}
	s.fence()
}

// Reduce combines the input slices of all ranks, and stores the result in the output slice of the
// root. At ranks that are not the root, Reduce does not change the output slice.
func (s *Schedule) Reduce(in, out []byte, root int) {
	// The tree of Reduce has its root at rank 0, so that values are combined in the order of the
	// ranks.
	acc := out
	if s.rank != root {
		acc = s.memory(len(in))
	}
	s.move(acc, in)
	var x []byte
	for d := 1; d < s.size; d *= 2 {
		if s.rank&d != 0 {
			s.send(s.rank-d, acc)
			break
		}
		if s.rank+d < s.size {
			if x == nil { // Each received value is combined before x is reused.
				x = s.memory(len(in))
			}
			s.recv(s.rank+d, x)
			s.fence()
			s.fold(acc, x, false)
		}
	}
	s.fence()
	if root == 0 {
		return
	}
	switch s.rank {
	case 0:
		s.send(root, acc)
	case root:
		s.recv(0, out)
	}
	s.fence()
}

// Gather copies the input slice of each rank into the part of the root's output slice that belongs
// to that rank.
func (s *Schedule) Gather(in, out []byte, parts Parts, root int) {
	if s.rank != root {
		s.send(root, in)
		s.fence()
		return
	}
	all := s.place(0, out, parts)
	for i := 1; i < s.size; i++ {
		from := s.ring(i)
		s.recv(from, all.of(from))
	}
	s.move(all.of(root), in)
	s.fence()
}

// Scatter divides the root's input slice into parts, and copies each part to the output slice of
// the rank to which the part belongs.
func (s *Schedule) Scatter(in, out []byte, parts Parts, root int) {
	if s.rank != root {
		s.recv(root, out)
		s.fence()
		return
	}
	all := s.place(0, in, parts)
	for i := 1; i < s.size; i++ {
		to := s.ring(i)
		s.send(to, all.of(to))
	}
	s.move(out, all.of(root))
	s.fence()
}
