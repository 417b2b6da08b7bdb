package call

import "fmt"

// fragmentLimit is the part of an error text that names the setting for the maximum message size.
const fragmentLimit = "btl.Config.FragmentBytesMax of either side, gobtl: " +
	"Transport.FragmentBytesMax"

// moreThanMessageBytes returns the error text for a message that exceeds MessageBytes of the
// argument "receiver", which is "server" or "caller". The error text contains the default of
// MessageBytes, because the sender does not know the receiver's limit.
func moreThanMessageBytes(bytes int, receiver string) string {
	return fmt.Sprintf("%d bytes, more than call.Config.MessageBytes of the %s (gobtl: "+
		"Calls.MessageBytes), which is %d by default", bytes, receiver, defaultBytes)
}

// tooLargeError is the ErrRequestSize for a request that the peer's module has refused as too large
// when the first packet arrived.
type tooLargeError struct {
	bytes   int
	refusal error // from the module
}

// Error implements error.
func (e *tooLargeError) Error() string {
	return ErrRequestSize.Error() + ": " + moreThanMessageBytes(e.bytes, "server")
}

// Unwrap returns ErrRequestSize and the error with which the module reported the refusal.
func (e *tooLargeError) Unwrap() []error { return []error{ErrRequestSize, e.refusal} }
