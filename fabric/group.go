package fabric

// Grouper is implemented by a Domain whose network has multicast groups. Groups are named as the
// network's users name them: with the kernel's UDP "239.1.2.3:5000" or "[ff08::1234]:5000".
type Grouper interface {
	// InsertGroup makes a group usable in Send.To; Remove undoes it. Errors: ErrBadName.
	InsertGroup(group string) (Addr, error)
	// OpenGroup opens an endpoint that receives datagrams to the group, as do other members on this
	// host and elsewhere. It sends like any other endpoint; its Name is no address that a peer can
	// use.
	OpenGroup(group string, cfg EndpointConfig) (Endpoint, error)
}
