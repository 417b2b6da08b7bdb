package launch

import "errors"

// The errors of package launch can be tested with errors.Is.
var (
	// ErrEnvironment means that a launcher's environment variables contradict each other or have
	// invalid values.
	ErrEnvironment = errors.New("launch: environment makes no sense")
	// ErrNoPMI means that a launcher without PMI-1 has started several processes, which cannot
	// find each other. The text of an ErrNoPMI tells the user what to do.
	ErrNoPMI = errors.New("launch: started by a launcher without PMI-1")
	// ErrProtocol means that the launcher has violated the protocol.
	ErrProtocol = errors.New("launch: launcher breaks the protocol")
	// ErrRefused means that the launcher has refused a request.
	ErrRefused = errors.New("launch: launcher refuses")
	// ErrGone means that the launcher has closed the connection, usually because another rank has
	// failed.
	ErrGone = errors.New("launch: launcher is gone")
	// ErrTimeout means that the launcher or the other ranks took too long.
	ErrTimeout = errors.New("launch: timeout")
	// ErrRendezvous means that a rank cannot reach rank 0, or has reached rank 0 of another job,
	// under a launcher without PMI-1.
	ErrRendezvous = errors.New("launch: no rendezvous")
	// ErrNoValue means that the rank has not put the requested key before the latest Fence.
	ErrNoValue = errors.New("launch: no such value")
	// ErrKey means that a key is invalid, or that the key was already put. A key has 1 to
	// KeyBytesMax letters, digits, '-' and '_'.
	ErrKey = errors.New("launch: invalid key")
	// ErrTooLarge means that the value exceeds ValueBytesMax.
	ErrTooLarge = errors.New("launch: value too large")
	// ErrRank means that the job has no such rank.
	ErrRank = errors.New("launch: no such rank")
	// ErrConfig means that a configuration value is out of its range.
	ErrConfig = errors.New("launch: invalid configuration")
	// ErrContext means that the context is nil. A call that returns ErrContext has no effect.
	ErrContext = errors.New("launch: nil context")
	// ErrFinalized means that this process has already finalized or aborted the job.
	ErrFinalized = errors.New("launch: finalized")
)
