package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/peer"
)

// Check verifies the whole state of the module, and returns an error for the first inconsistency.
// Check is for tests and simulators, which call it after each call of Progress. The CPU time of a
// call of Check is proportional to the number of send buffers and endpoints. Only the first call of
// Check allocates memory.
func (m *Module) Check() error {
	if m.checker == nil {
		m.checker = new(peer.Checker)
	}
	if err := m.check(); err != nil {
		return fmt.Errorf("btl: check: %w", err)
	}
	return nil
}

func (m *Module) check() error {
	if err := m.checker.Check(&m.all, m.closed); err != nil {
		return err
	}
	if err := m.rx.Check(m.closed); err != nil {
		return err
	}
	if err := m.checker.CheckStats(&m.all, m.rx.Deferred.Pending); err != nil {
		return err
	}
	return m.checkRest()
}

// CheckIdle returns an error for the first inconsistency of an idle module. A module is idle if no
// send, handshake or close is in progress and no packet is in flight. CheckIdle verifies that every
// buffer, timer and descriptor is free, and that all lists are empty. CheckIdle verifies that only
// connected endpoints have credits, and that nothing refers to an ended endpoint. CheckIdle calls
// Check first, and is for tests and simulators.
func (m *Module) CheckIdle() error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := errors.Join(m.all.CheckIdle(m.closed), m.rx.CheckIdle()); err != nil {
		return fmt.Errorf("btl: idle: %w", err)
	}
	if m.all.Peers.Len() == 0 && !m.Drained() {
		return fmt.Errorf("btl: idle: without peers, and not drained")
	}
	return nil
}
