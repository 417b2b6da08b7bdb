package mpi

import (
	"errors"
	"fmt"

	"gobtl/pml"
)

// Callers of package mpi can test for the following errors with errors.Is.
var (
	// ErrConfig means that a value in a Config, or an argument of a call, is not allowed.
	ErrConfig = errors.New("mpi: invalid configuration")
	// ErrRank means that the communicator has no such rank.
	ErrRank = errors.New("mpi: no such rank")
	// ErrTag means that a tag is below 0 or above TagMax.
	ErrTag = errors.New("mpi: tag out of range")
	// ErrType means that the values contain pointers, or that the size of a value depends on the
	// machine.
	ErrType = errors.New("mpi: values of this type cannot be sent")
	// ErrCount means that the lengths of the slices of a call do not match each other, or do not match
	// the number of ranks.
	ErrCount = errors.New("mpi: lengths do not fit")
	// ErrGroup means that a group contains a process that is not in the communicator, or that not all
	// ranks have passed the same group.
	ErrGroup = errors.New("mpi: group does not fit")
	// ErrGrid means that the dimensions of a grid of ranks are invalid.
	ErrGrid = errors.New("mpi: no such grid of ranks")
	// ErrBounds means that the values of an operation are not within the target rank's memory in the
	// window, or not within a Layout's slice.
	ErrBounds = errors.New("mpi: not in the window")
	// ErrTruncated means that the message is longer than the slice of the receive. After
	// ErrTruncated, the slice of the receive contains the beginning of the message.
	ErrTruncated = pml.ErrTruncated
	// ErrCancelled means that the receive was cancelled, and has not received a message.
	ErrCancelled = pml.ErrCancelled
	// ErrContext means that the context is nil, and that the call had no effect.
	ErrContext = errors.New("mpi: nil context")
	// ErrBusy means that the Request is in use.
	ErrBusy = errors.New("mpi: request in use")
	// ErrInactive means that the Request is not in use.
	ErrInactive = errors.New("mpi: request not in use")
	// ErrWorlds means that the requests of one call belong to several Worlds.
	ErrWorlds = errors.New("mpi: requests of several worlds")
	// ErrNotInit means that no Init function, such as SendInit, has prepared the Request for Start.
	ErrNotInit = errors.New("mpi: request not initialized")
	// ErrInUse means that the context of a call has ended while the operation of the call was in
	// progress. After ErrInUse, the operation might still read or write the memory of the message.
	ErrInUse = errors.New("mpi: memory may still be in use")
	// ErrFinalized means that this process has finalized the job.
	ErrFinalized = errors.New("mpi: finalized")
	// ErrStranger means that a connected process is not a rank of this job.
	ErrStranger = errors.New("mpi: peer is no rank of this job")
	// ErrOp means that the function of an Op has panicked.
	ErrOp = errors.New("mpi: an Op has panicked")
	// ErrMessage means that the message has already been received.
	ErrMessage = pml.ErrMessage
	// ErrRevoked means that the communicator was revoked, or that another rank has ended the window
	// after a failure.
	ErrRevoked = errors.New("mpi: communicator revoked")
	// ErrFreed means that this process has freed the communicator.
	ErrFreed = errors.New("mpi: communicator freed")
	// ErrExcluded means that the other ranks of the job consider this rank dead, and continue without
	// this rank.
	ErrExcluded = errors.New("mpi: the others take this rank for dead")
	// ErrAddress means that a rank has no address by which ranks on other hosts can reach the rank.
	ErrAddress = errors.New("mpi: no address for the other hosts")
	// ErrWrongContext means that a rank has violated the protocol by sending a wrong context (number)
	// for a new communicator. The context is wrong if its sender has not made it, or if an earlier
	// communicator has the same context.
	ErrWrongContext = errors.New("mpi: another rank named a wrong context")
	// ErrContexts means that a communicator cannot be made, because the rank that makes its context
	// has already made 2^19 contexts.
	ErrContexts = errors.New("mpi: no communicators left")
)

// errDecided is the error that is recorded for a dead rank if a message of a surviving rank has
// reported the death.
var errDecided = fmt.Errorf("%w: the others have agreed so", pml.ErrPeer)

// OpError reports that the function of an Op has panicked. An OpError wraps ErrOp.
type OpError struct {
	Panic any    // value of the panic of the function
	Stack []byte // stack at the panic
}

// Error implements error. The text of an OpError has one line, and omits the Stack.
func (e *OpError) Error() string { return fmt.Sprintf("%v: %v", ErrOp, e.Panic) }

// Unwrap returns ErrOp, followed by the value of the panic if this value is an error.
func (e *OpError) Unwrap() []error {
	if err, ok := e.Panic.(error); ok {
		return []error{ErrOp, err}
	}
	return []error{ErrOp}
}

// RankError is the error of an operation that failed because a rank has ended. A RankError wraps
// the reason for the rank's end.
type RankError struct {
	Rank int // world rank
	Err  error
}

// Error implements error.
func (e *RankError) Error() string { return fmt.Sprintf("mpi: rank %d is gone: %v", e.Rank, e.Err) }

// Unwrap returns the reason for the rank's end, which wraps pml.ErrPeer.
func (e *RankError) Unwrap() error { return e.Err }

func isRankError(err error) bool {
	var known *RankError
	return errors.As(err, &known)
}
