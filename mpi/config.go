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

// Config contains the settings of a World. The zero Config selects the default of each setting. The
// fields Transport and Layer must have the same values at all ranks of a job.
type Config struct {
	// Launch selects how a process finds its launcher.
	Launch launch.Config
	// Fabric selects the local address and the network provider, whose package the program must
	// import. If Fabric names no provider, the World chooses "shm" or "udp". The World chooses the
	// provider "shm" if all ranks are on one host and can open the same shared memory, and otherwise
	// the provider "udp". World.Network returns the chosen provider. With the provider "udp", a job on
	// one host uses a loopback address. In a job on several hosts, each rank uses the local address by
	// which most of the other hosts can reach the rank. A rank never uses an address that several
	// hosts have.
	Fabric fabric.Hints
	// Transport contains the settings of the transport module. Environment variables whose names begin
	// with GOBTL_ override the fields of Transport. Transport.PeerTimeout is the time after which a
	// rank that does not answer counts as dead. A PeerTimeout of 0 means 30 s. A HandshakeTimeout of 0
	// means the value of PeerTimeout. A KeepAlive of 0 means 5 s. A rank that only waits for messages
	// from a dead rank detects the death within the sum of KeepAlive and PeerTimeout. The library sets
	// the field Transport.Label.
	Transport btl.Config
	// Layer contains the settings of package pml, which matches messages to receives. The library sets
	// the field Layer.Number.
	Layer pml.Config
	// Wait selects how calls wait for messages. WaitAdaptive is the default. With WaitBusy, a waiting
	// call always polls, and with WaitEvent, a waiting call sleeps.
	Wait runner.Waiting
	// SkipReach makes Init skip the test whether the hosts of the job can reach each other.
	// SkipReach is for jobs in which some hosts never exchange messages. With SkipReach, an
	// unreachable rank is detected when HandshakeTimeout has passed after the first message to this
	// rank. All ranks must have the same value of SkipReach.
	SkipReach bool
	// CloseTimeout is the longest time for which Finalize waits for peers that do not answer.
	// The range of CloseTimeout is 1 ms to 1 h, and 0 means 10 s.
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

// Validate returns an error for the first field that is out of its range, or nil if all fields are
// valid. Before the call of Validate, the caller must replace the zero fields of the Config by
// their defaults. Validate does not check Launch, Transport and Layer, which their own packages
// check.
func (c Config) Validate() error {
	if c.CloseTimeout < time.Millisecond || c.CloseTimeout > time.Hour {
		return fmt.Errorf("%w: CloseTimeout is %v, want 1 ms to 1 h", ErrConfig, c.CloseTimeout)
	}
	if c.Wait > runner.WaitEvent {
		return fmt.Errorf("%w: Wait is %d", ErrConfig, c.Wait)
	}
	return nil
}
