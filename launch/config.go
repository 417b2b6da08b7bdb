package launch

import (
	"fmt"
	"os"
	"time"
)

// Sizes of what is exchanged, in bytes.
const (
	KeyBytesMax   = 32
	ValueBytesMax = 64 << 10
)

// The environment variables for users. They do not have the prefix of btl.Config, because
// btl.Config treats every variable with its prefix as its own.
const (
	// LauncherVariable selects the launcher if several are possible: "pmi", "ompi" or "none".
	LauncherVariable = "BTL_LAUNCHER"
	// RendezvousVariable is the address of rank 0 for the other ranks, "HOST:PORT". It is needed
	// under a launcher without PMI-1 whose ranks are on several nodes.
	RendezvousVariable = "BTL_RENDEZVOUS"
	// KeyVariable is a secret that the ranks of a job share for a rendezvous by TCP, if the
	// launcher gives them none.
	KeyVariable = "BTL_RENDEZVOUS_KEY"
)

// Config says how to join a job; the zero value is a good default.
type Config struct {
	// Environ is the environment to use, in the form of os.Environ. nil means the environment of
	// this process.
	Environ []string
	// Timeout bounds the time for each answer of the launcher, and the time in which ranks of a
	// launcher without PMI-1 must find each other: 1 ms to 24 h. 0 means 30 s.
	Timeout time.Duration
	// FenceTimeout bounds the time until all other ranks have called a Fence, 1 ms to 24 h. 0 means
	// 5 min.
	FenceTimeout time.Duration
}

// Validate reports the first value out of range of a configuration without zero fields.
func (c Config) Validate() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Timeout", c.Timeout}, {"FenceTimeout", c.FenceTimeout}} {
		if d.value < time.Millisecond || d.value > 24*time.Hour {
			return fmt.Errorf("%w: %s is %v, want 1 ms to 24 h", ErrConfig, d.name, d.value)
		}
	}
	return nil
}

// withDefaults fills in the zero fields.
func (c Config) withDefaults() Config {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.FenceTimeout == 0 {
		c.FenceTimeout = 5 * time.Minute
	}
	return c
}
