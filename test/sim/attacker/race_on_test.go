//go:build race

package attacker_test

// seeds is the number of attacks per mode. All of it runs on one goroutine: there is little for the
// race detector to find, and it takes its time.
const seeds = 1
