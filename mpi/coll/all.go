package coll

// Allreduce combines the input slices of all ranks, and stores the result in the output slice of
// every rank. If the argument "commutes" is true, Allreduce may combine the values of the ranks in
// any order.
func (s *Schedule) Allreduce(in, out []byte, valueBytes int, commutes bool) {
	if !commutes || len(in) < allreduceLarge {
		s.move(out, in)
		s.allreduceDoubling(out)
		return
	}
	from, parts := s.even(in, valueBytes), s.even(out, valueBytes)
	if s.size&(s.size-1) == 0 {
		s.allreduceHalving(from, parts)
		return
	}
	s.reduceRing(from.of, parts.of, parts.per, same(in, out))
	for i := range s.size - 1 {
		s.recv(s.ring(-1), parts.of(s.ring(-i-1)))
		s.send(s.ring(1), parts.of(s.ring(-i)))
		s.fence()
	}
}

// The function "same" reports whether the slices a and b are identical. The slices a and b must not
// be empty, and must be either identical or disjoint.
func same(a, b []byte) bool { return &a[0] == &b[0] }

// allreduceHalving is an Allreduce of 2^k ranks by recursive halving and doubling. The argument
// "from" of allreduceHalving has the input of this rank, and the argument "parts" receives the
// result. The halving phase has one round for each bit of the rank number, from the highest to the
// lowest bit. In the round of a bit, two ranks whose numbers differ only in this bit send each
// other one half of their values, and each of the two ranks combines the half that it keeps. In the
// doubling phase, two ranks whose numbers differ only in one bit send each other their combined
// values, in rounds from the lowest to the highest bit.
func (s *Schedule) allreduceHalving(from, parts even) {
	if s.size == 1 {
		s.move(parts.data, from.data)
		return
	}
	fresh := !same(from.data, parts.data) // parts is empty, and receives the first data
	d := s.size / 2
	if fresh {
		d /= 2
	}
	x := s.memory(d * parts.per)
	first := 0 // first of the 2d parts that this rank has yet to combine
	for d := s.size / 2; d > 0; d /= 2 {
		mine, theirs := first, first+d
		if s.rank&d != 0 {
			mine, theirs = theirs, mine
		}
		acc, give := parts.to(mine, mine+d), from.to(theirs, theirs+d)
		if fresh {
			s.recv(s.rank^d, acc)
		} else {
			s.recv(s.rank^d, x[:len(acc)])
		}
		s.send(s.rank^d, give)
		s.fence()
		if fresh {
			s.fold(acc, from.to(mine, mine+d), s.rank&d == 0)
		} else {
			s.fold(acc, x[:len(acc)], s.rank&d != 0)
		}
		first, from, fresh = mine, parts, false
	}
	for d := 1; d < s.size; d *= 2 {
		other := first ^ d
		s.recv(s.rank^d, parts.to(other, other+d))
		s.send(s.rank^d, parts.to(first, first+d))
		s.fence()
		first &^= d
	}
}

// allreduceDoubling is an Allreduce by recursive doubling, which combines the slices "acc" of all
// ranks in place. In round k of recursive doubling, two ranks whose numbers differ only in bit k
// exchange their values. If the number of ranks is not a power of two, the lowest ranks form pairs,
// and only one rank of each pair takes part in the rounds of recursive doubling.
func (s *Schedule) allreduceDoubling(acc []byte) {
	whole := 1
	for 2*whole <= s.size {
		whole *= 2
	}
	extra := s.size - whole
	x := s.memory(len(acc))
	place := s.rank - extra
	if s.rank < 2*extra {
		if s.rank%2 == 0 {
			s.send(s.rank+1, acc)
			s.fence()
			s.recv(s.rank+1, acc)
			s.fence()
			return
		}
		s.recv(s.rank-1, x)
		s.fence()
		s.fold(acc, x, true)
		place = s.rank / 2
	}
	for d := 1; d < whole; d *= 2 {
		other := place ^ d
		peer := other + extra
		if other < extra {
			peer = 2*other + 1
		}
		s.recv(peer, x)
		s.send(peer, acc)
		s.fence()
		s.fold(acc, x, other < place)
	}
	if s.rank < 2*extra {
		s.send(s.rank-1, acc)
		s.fence()
	}
}

// reduceRing combines the parts of all ranks along a ring of the ranks. The function "in" returns
// the input parts of this rank, and the function "acc" returns the memory for the combined parts.
// The argument "most" of reduceRing is the size in bytes of the longest part. At the end of
// reduceRing, each rank has its own part of the result, in which the values of all ranks are
// combined. The reduction function must be commutative, because reduceRing combines the values in
// the order of the ring. If the argument "inPlace" of reduceRing is true, the functions "in" and
// "acc" return the same memory. If the argument "inPlace" is false, received data overwrites the
// previous content of the memory that the function "acc" returns.
func (s *Schedule) reduceRing(in, acc func(int) []byte, most int, inPlace bool) {
	var x []byte
	if inPlace {
		x = s.memory(most)
	}
	give := in(s.ring(-1))
	for i := 1; i < s.size; i++ {
		mine := acc(s.ring(-i - 1))
		into := mine
		if inPlace {
			into = x[:len(mine)]
		}
		s.recv(s.ring(-1), into)
		s.send(s.ring(1), give)
		s.fence()
		if inPlace {
			s.fold(mine, into, false)
		} else {
			s.fold(mine, in(s.ring(-i-1)), true)
		}
		give = mine
	}
}

// ReduceScatter combines the input slices of all ranks, and sends to each rank that rank's part of
// the result.
func (s *Schedule) ReduceScatter(in, out []byte, parts Parts, commutes bool) {
	acc := s.memory(len(in))
	if !commutes || len(in) < scatterLarge || s.size == 1 {
		s.Reduce(in, acc, 0)
		s.Scatter(acc, out, parts, 0)
		return
	}
	from, all := s.place(0, in, parts), s.place(1, acc, parts)
	s.reduceRing(from.of, all.of, parts.most(), false)
	s.move(out, all.of(s.rank))
}

// Allgather copies the input slice of each rank to every rank. At every rank, the input of rank i
// is stored in part i of the output slice.
func (s *Schedule) Allgather(in, out []byte, parts Parts) {
	same := true
	for _, n := range parts {
		same = same && n == parts[0]
	}
	if same && len(in) < gatherLarge && s.size > 2 {
		s.allgatherBruck(in, out)
		return
	}
	all := s.place(0, out, parts)
	s.move(all.of(s.rank), in)
	for i := range s.size - 1 {
		s.recv(s.ring(-1), all.of(s.ring(-i-1)))
		s.send(s.ring(1), all.of(s.ring(-i)))
		s.fence()
	}
}

// allgatherBruck adds the steps of an Allgather by Bruck's algorithm. In round k of Bruck's
// algorithm, each rank receives up to 2^k parts from the rank whose number is higher by 2^k, modulo
// the number of ranks. At the end of Bruck's algorithm, each rank moves the parts to their
// positions in the output slice.
func (s *Schedule) allgatherBruck(in, out []byte) {
	n := len(in)
	all := s.memory(n * s.size)
	s.move(all[:n], in)
	for d := 1; d < s.size; d *= 2 {
		count := min(d, s.size-d)
		s.recv(s.ring(d), all[d*n:(d+count)*n])
		s.send(s.ring(-d), all[:count*n])
		s.fence()
	}
	head := (s.size - s.rank) * n
	s.move(out[s.rank*n:], all[:head])
	s.move(out[:s.rank*n], all[head:])
}

// Alltoall sends part i of the input slice to rank i, and stores the data from rank i in part i of
// the output slice. If the arguments inParts and outParts are equal, the input slice and the output
// slice of Alltoall may be the same slice.
func (s *Schedule) Alltoall(in []byte, inParts Parts, out []byte, outParts Parts) {
	if len(in) > 0 && len(out) > 0 && same(in, out) {
		in = s.memory(len(in))
		s.move(in, out)
	}
	give, take := s.place(0, in, inParts), s.place(1, out, outParts)
	s.move(take.of(s.rank), give.of(s.rank))
	paced := max(inParts.Sum(), outParts.Sum()) >= alltoallLarge
	for i := 1; i < s.size; i++ {
		from, to := s.ring(-i), s.ring(i)
		s.recv(from, take.of(from))
		s.send(to, give.of(to))
		if paced {
			s.fence()
		}
	}
	s.fence()
}

// Scan combines the input slices of the ranks from 0 to this rank, and stores the result in the
// output slice.
func (s *Schedule) Scan(in, out []byte) {
	s.move(out, in)
	s.scanFrom(0, out)
}

// Exscan combines the input slices of all ranks lower than this rank, and stores the result in the
// output slice. At rank 0, Exscan does not change the output slice.
func (s *Schedule) Exscan(in, out []byte) {
	own := s.memory(len(in)) // in and out may be the same
	s.move(own, in)
	if s.rank > 0 {
		s.recv(s.rank-1, out)
	}
	if s.rank+1 < s.size {
		s.send(s.rank+1, own)
	}
	s.fence()
	if s.rank > 0 {
		s.scanFrom(1, out)
	}
}

// scanFrom combines the slices "acc" of all ranks from the rank "first" up to this rank. In round k
// of a scan, each rank receives the combined values of the rank whose number is lower by 2^k.
func (s *Schedule) scanFrom(first int, acc []byte) {
	x := s.memory(len(acc))
	for d := 1; first+d < s.size; d *= 2 {
		if s.rank-d >= first {
			s.recv(s.rank-d, x)
		}
		if s.rank+d < s.size {
			s.send(s.rank+d, acc)
		}
		s.fence()
		if s.rank-d >= first {
			s.fold(acc, x, true)
		}
	}
}
