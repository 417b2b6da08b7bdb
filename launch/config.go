package launch

import (
	"fmt"
	"os"
	"time"
)

// The constants below are the largest size of a key and the largest size of a value that Put
// accepts, in bytes.
const (
	KeyBytesMax   = 32
	ValueBytesMax = 64 << 10
)

// The constants below name the environment variables that users can set. The names of these
// environment variables must not begin with the prefix GOBTL_, because btl.Config rejects unknown
// environment variables with the prefix GOBTL_.
const (
	// LauncherVariable names the environment variable that selects the launcher if the environment has
	// variables of several launchers. The value of the environment variable BTL_LAUNCHER can be "pmi",
	// "ompi" or "none".
	LauncherVariable = "BTL_LAUNCHER"
	// RendezvousVariable names the environment variable with the address "HOST:PORT" at which rank 0
	// listens for the ranks of the job. The user must set the environment variable RendezvousVariable
	// if a launcher that does not support PMI-1 starts ranks on several nodes.
	RendezvousVariable = "BTL_RENDEZVOUS"
	// KeyVariable names the environment variable with a secret that all ranks of a job have in common.
	// If the ranks connect to rank 0 over TCP and the launcher provides no secret, the user must set
	// the environment variable KeyVariable.
	KeyVariable = "BTL_RENDEZVOUS_KEY"
)

// Config has the settings for Join. The zero Config selects the default of each setting.
type Config struct {
	// Environ has the environment variables that Join reads, in the format of os.Environ. If
	// Environ is nil, Join uses the environment of this process.
	Environ []string
	// Timeout is the maximum time that a call waits for a reply from the launcher. If the launcher
	// does not support PMI-1, Timeout is in addition the time limit for connecting this rank to rank
	// 0. The range of Timeout is 1 ms to 24 h, and a Timeout of 0 means 30 s.
	Timeout time.Duration
	// FenceTimeout is the maximum time that Fence waits until all ranks have called Fence. The range
	// of FenceTimeout is 1 ms to 24 h, and a FenceTimeout of 0 means 5 min.
	FenceTimeout time.Duration
}

// Validate returns an error that wraps ErrConfig for the first field that is out of its range, or
// nil if all fields are valid. Validate does not accept the value zero in a field, although Join
// replaces it by the default.
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

// withDefaults returns a copy of c in which fields with the value zero have their default values.
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
