package mpi

import (
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	"gobtl/launch"
	"gobtl/pml"
)

// Config tunes a World; the zero value is a good default. All ranks of a job must have the same
// Transport and Layer.
type Config struct {
	// Launch says how to find the launcher.
	Launch launch.Config
	// Fabric chooses the provider, which the program must have imported, and the address. If it names
	// no provider that is "shm" where all ranks are on one host and see the same shared memory, can
	// open it, and the program has imported it; else "udp". World.Network tells which. The address
	// over "udp" is loopback if the job is on one host; else that by which most of the other hosts can
	// reach this one: not one that another host has as well.
	Fabric fabric.Hints
	// Transport tunes the module; the variables GOBTL_* of the environment go before what it says.
	// Its PeerTimeout is 30 s if it is 0: for so long a rank may be out of breath. Its
	// HandshakeTimeout is as long if it is 0, for a rank that is connected to for the first time has
	// been there before: when it is dead that is known no later. Its KeepAlive is 5 s if it is 0: who
	// only waits for a rank that dies hears of it after that, and PeerTimeout. Its Label is the
	// library's own.
	Transport btl.Config
	// Layer tunes the matching.
	Layer pml.Config
	// Wait is how calls wait: WaitAdaptive, the default, WaitBusy or WaitEvent.
	Wait runner.Waiting
	// SkipReach has Init not try whether the hosts of the job reach each other: for jobs of which some
	// never do, and need not. Then a rank that cannot be reached is found at the first message to it,
	// after HandshakeTimeout. It must be the same at all ranks.
	SkipReach bool
	// CloseTimeout bounds what Finalize waits for peers that do not answer, 1 ms to 1 h. 0 means 10
	// s.
	CloseTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Transport.PeerTimeout == 0 {
		c.Transport.PeerTimeout = 30 * time.Second
	}
	if c.Transport.HandshakeTimeout == 0 {
		c.Transport.HandshakeTimeout = c.Transport.PeerTimeout
	}
	if c.Transport.KeepAlive == 0 {
		c.Transport.KeepAlive = 5 * time.Second
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = 10 * time.Second
	}
	return c
}

// Validate reports the first value out of range of a configuration without zero fields; those of
// Launch, Transport and Layer are judged by their packages.
func (c Config) Validate() error {
	if c.CloseTimeout < time.Millisecond || c.CloseTimeout > time.Hour {
		return fmt.Errorf("%w: CloseTimeout is %v, want 1 ms to 1 h", ErrConfig, c.CloseTimeout)
	}
	if c.Wait > runner.WaitEvent {
		return fmt.Errorf("%w: Wait is %d", ErrConfig, c.Wait)
	}
	return nil
}
