package mpi

import (
	"math/big"

	"gobtl/internal/waiting"
)

// cpusTextMax is the largest permitted number of hexadecimal digits in the text form of a set of
// CPUs (see cpusText).
const cpusTextMax = 2048

// cpusText returns the set of CPUs on which the calling thread may run, as a text that this rank
// sends to the other ranks of the job. The text is a number in hexadecimal digits, and bit n of the
// number stands for CPU n.
func cpusText() string { return waiting.CPUs().Text(16) }

// The function "crowded" reports whether more ranks share the CPUs of this rank than these CPUs can
// run at a time. Two ranks share CPUs if both are on the same host and some CPU belongs to the sets
// of both. Element i of "texts" is the result of cpusText at rank i. If the text of a rank is
// invalid, the function "crowded" assumes that this rank may use the same CPUs as the calling rank.
func crowded(job Job, texts []string) bool {
	mine := waiting.CPUs()
	all, ranks, within := new(big.Int), 0, 0
	for rank, text := range texts {
		if job.NodeOf(rank) != job.NodeOf(job.Rank()) {
			continue
		}
		set, ok := new(big.Int), len(text) <= cpusTextMax
		if ok {
			_, ok = set.SetString(text, 16)
		}
		if !ok || set.Sign() <= 0 {
			set = mine
		}
		if new(big.Int).And(set, mine).Sign() > 0 {
			all.Or(all, set)
			ranks++
		}
		if new(big.Int).AndNot(set, mine).Sign() == 0 { // may run on no other CPU
			within++
		}
	}
	return ranks > ones(all) || within > ones(mine)
}

// The function "ones" returns the number of CPUs in a set.
func ones(set *big.Int) (n int) {
	for i := range set.BitLen() {
		n += int(set.Bit(i))
	}
	return n
}
