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

// The variables by which a user has a say. They do not begin like those of btl.Config, which takes
// every variable of its prefix for one of its own.
const (
	// LauncherVariable chooses where several would do: "pmi", "ompi" or "none".
	LauncherVariable = "BTL_LAUNCHER"
	// RendezvousVariable is where rank 0 is to be found by the others, "HOST:PORT", under a launcher
	// without PMI-1 whose ranks are on several nodes.
	RendezvousVariable = "BTL_RENDEZVOUS"
	// KeyVariable is a secret that the ranks of a job share, for a rendezvous by TCP, where the
	// launcher gives them none.
	KeyVariable = "BTL_RENDEZVOUS_KEY"
)

// Config says how to join a job; the zero value is a good default.
type Config struct {
	// Environ is what to go by, in the form of os.Environ; nil is this process's environment.
	Environ []string
	// Timeout is how long the launcher may take to answer, and the ranks of one without PMI-1 to find
	// each other: 1 ms to 24 h. 0 means 30 s.
	Timeout time.Duration
	// FenceTimeout is how long the other ranks may take to come to a Fence, 1 ms to 24 h. 0 means 5
	// min.
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
