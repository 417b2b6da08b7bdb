//go:build !linux

package waiting

import "math/big"

// CPUs returns the set of CPUs on which the process may run. In the result, bit n stands for
// CPU n. Outside of Linux, only the number of CPUs in the result is correct.
func CPUs() *big.Int { return firstCPUs() }
