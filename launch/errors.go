package launch

import "errors"

// Errors of the package; test for them with errors.Is.
var (
	// ErrEnvironment: the variables of a launcher contradict each other, or are no numbers.
	ErrEnvironment = errors.New("launch: environment makes no sense")
	// ErrNoPMI: a launcher has started several processes without PMI-1, so that they cannot find each
	// other. The text says what to do.
	ErrNoPMI = errors.New("launch: started by a launcher without PMI-1")
	// ErrProtocol: the launcher has violated the protocol.
	ErrProtocol = errors.New("launch: launcher breaks the protocol")
	// ErrRefused: the launcher has refused a request.
	ErrRefused = errors.New("launch: launcher refuses")
	// ErrGone: the launcher has closed the connection, usually because another rank has failed.
	ErrGone = errors.New("launch: launcher is gone")
	// ErrTimeout: the launcher, or the other ranks, took too long.
	ErrTimeout = errors.New("launch: timeout")
	// ErrRendezvous: the ranks of a launcher without PMI-1 do not find rank 0, or have found rank 0
	// of another job.
	ErrRendezvous = errors.New("launch: no rendezvous")
	// ErrNoValue: no rank has put that key before the latest Fence.
	ErrNoValue = errors.New("launch: no such value")
	// ErrKey: the key is empty, longer than KeyBytesMax, has other bytes than letters, digits, '-' and
	// '_', or was put before.
	ErrKey = errors.New("launch: invalid key")
	// ErrTooLarge: the value exceeds ValueBytesMax.
	ErrTooLarge = errors.New("launch: value too large")
	// ErrRank: the job has no such rank.
	ErrRank = errors.New("launch: no such rank")
	// ErrConfig: a configuration value is out of its range.
	ErrConfig = errors.New("launch: invalid configuration")
	// ErrContext: the context is nil. Nothing has begun.
	ErrContext = errors.New("launch: nil context")
	// ErrFinalized: the job was finalized, or aborted, on this side.
	ErrFinalized = errors.New("launch: finalized")
)
