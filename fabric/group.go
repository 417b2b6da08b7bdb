package fabric

// Grouper is implemented by a Domain whose network has multicast groups. The names of groups are
// those of the network, such as "239.1.2.3:5000" or "[ff08::1234]:5000" with the kernel's UDP.
type Grouper interface {
	// InsertGroup makes a group usable in Send.To, and Remove undoes InsertGroup. The error of a
	// malformed group wraps ErrBadName.
	InsertGroup(group string) (Addr, error)
	// OpenGroup opens an endpoint that receives datagrams to the group. Other members on this host
	// and elsewhere also receive the group's datagrams. The endpoint sends like any other endpoint.
	// Peers cannot use the Name of the endpoint as an address.
	OpenGroup(group string, cfg EndpointConfig) (Endpoint, error)
}
