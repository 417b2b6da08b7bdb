package fabric

// Grouper is implemented by a Domain whose network delivers a datagram to many at once. Groups are
// named as the network's users name them: with the kernel's UDP "239.1.2.3:5000" or
// "[ff08::1234]:5000".
type Grouper interface {
	// InsertGroup makes a group usable in Send.To; Remove undoes it. Errors: ErrBadName.
	InsertGroup(group string) (Addr, error)
	// OpenGroup opens an endpoint that receives what is sent to the group, beside others on this host
	// and elsewhere. It sends like any other; its Name is nobody's address.
	OpenGroup(group string, cfg EndpointConfig) (Endpoint, error)
}
