package fabric

// Grouper is implemented by a Domain whose network has multicast groups. The format of a group's
// name depends on the network. Names of groups over UDP are, for example, "239.1.2.3:5000" and
// "[ff08::1234]:5000".
type Grouper interface {
	// InsertGroup converts the name of a multicast group to an Addr, which can be the destination
	// Send.To. Remove undoes InsertGroup. For a malformed group name, the error wraps ErrBadName.
	InsertGroup(group string) (Addr, error)
	// OpenGroup opens an endpoint that receives the datagrams sent to the multicast group. All
	// endpoints that OpenGroup has opened for a group, on this host and on all hosts of the network,
	// receive the datagrams sent to the group. An endpoint that OpenGroup has opened can send
	// datagrams, but peers cannot pass its Name to Insert.
	OpenGroup(group string, cfg EndpointConfig) (Endpoint, error)
}
