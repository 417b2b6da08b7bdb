//go:build linux

package udp

// ConnectAt sets after how many calls of Post a peer gets a connected socket, until restore is
// called.
func ConnectAt(lead int) (restore func()) {
	before := directLead
	directLead = lead
	return func() { directLead = before }
}
