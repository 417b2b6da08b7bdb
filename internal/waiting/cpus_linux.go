package waiting

import (
	"math/big"

	"golang.org/x/sys/unix"
)

// CPUs returns the set of CPUs on which the calling thread may run. In the result, bit n
// stands for CPU n.
func CPUs() *big.Int {
	var set unix.CPUSet
	cpus := new(big.Int)
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return firstCPUs()
	}
	for n := range len(set) * 64 {
		if set.IsSet(n) {
			cpus.SetBit(cpus, n, 1)
		}
	}
	return cpus
}
