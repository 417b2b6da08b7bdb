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
	// Fabric chooses the provider, which the program must have imported, and the address. If it
	// names no provider, the World chooses "shm" if the program has imported it, all ranks are on
	// one host, and all of them see and can open the same shared memory. Otherwise it chooses
	// "udp". World.Network returns the choice. Over "udp" a job on one host uses a loopback
	// address. In a job on several hosts each rank uses the address by which most other hosts can
	// reach it, but no address that another host has as well.
	Fabric fabric.Hints
	// Transport tunes the transport module. Environment variables GOBTL_* override it. A
	// PeerTimeout of 0 means 30 s, which is how long a rank may fail to answer. A HandshakeTimeout
	// of 0 means the PeerTimeout: a rank takes part in the job before the first connection to it,
	// so its death is detected equally late in both cases. A KeepAlive of 0 means 5 s. A rank that
	// only waits for a dead rank learns of the death after KeepAlive and PeerTimeout. The library
	// sets the Label itself.
	Transport btl.Config
	// Layer tunes the matching.
	Layer pml.Config
	// Wait is how calls wait: WaitAdaptive, the default, WaitBusy or WaitEvent.
	Wait runner.Waiting
	// SkipReach makes Init skip the test whether the hosts of the job can reach each other. It is
	// for jobs in which some hosts cannot reach each other, and need not. An unreachable rank is
	// then detected at the first message to it, after HandshakeTimeout. It must be the same at all
	// ranks.
	SkipReach bool
	// CloseTimeout bounds the time for which Finalize waits for peers that do not answer, 1 ms to 1
	// h. 0 means 10 s.
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

// Validate reports the first value out of range of a configuration without zero fields. The
// packages of Launch, Transport and Layer check their own configurations.
func (c Config) Validate() error {
	if c.CloseTimeout < time.Millisecond || c.CloseTimeout > time.Hour {
		return fmt.Errorf("%w: CloseTimeout is %v, want 1 ms to 1 h", ErrConfig, c.CloseTimeout)
	}
	if c.Wait > runner.WaitEvent {
		return fmt.Errorf("%w: Wait is %d", ErrConfig, c.Wait)
	}
	return nil
}
