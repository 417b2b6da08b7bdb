//go:build !race

package attacker_test

// seeds is the number of attacks per mode.
const seeds = 3
