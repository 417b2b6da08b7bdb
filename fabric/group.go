package fabric

// Grouper is implemented by a Domain whose network has multicast groups. The names of groups are
// those of the network, such as "239.1.2.3:5000" or "[ff08::1234]:5000" with the kernel's UDP.
type Grouper interface {
	// InsertGroup makes a group usable as the destination in Send.To, and Remove undoes
	// InsertGroup. For a malformed group name, the error wraps ErrBadName.
	InsertGroup(group string) (Addr, error)
	// OpenGroup opens an endpoint that receives the datagrams sent to the group. All members of the
	// group, on this host and elsewhere, receive the datagrams. The endpoint of a group can also
	// send, like any other endpoint. The Name of an endpoint of a group is not an address that
	// peers can insert.
	OpenGroup(group string, cfg EndpointConfig) (Endpoint, error)
}
