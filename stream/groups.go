package stream

import "fmt"

// A port listens to at most groupsMax multicast groups. A host whose streams use n groups can use
// one more group only if more than n groups are free, so that one host alone can use at most half
// of the groups. For a host that joins a group in use by other hosts, this group counts as free,
// because the joining host keeps the group in use when the other hosts leave.
const groupsMax = 8

// mayJoin returns an error if a sender's host uses too many multicast groups of this port for one
// more. mayJoin always allows a group that the host uses already.
func (e *Engine) mayJoin(group, host string) error {
	mine, others := 0, 0
	for _, de := range e.data.all {
		switch uses := e.joinedBy(host, de); {
		case de.group == "":
		case de.group == group && uses:
			return nil
		case de.group != group:
			others++
			if uses {
				mine++
			}
		}
	}
	if mine < groupsMax-others {
		return nil
	}
	return fmt.Errorf("%d of %d groups are in use, %d by the sender's host", others, groupsMax, mine)
}

// joinedBy reports whether a multicast group has a receiver for a sender of the given host.
func (e *Engine) joinedBy(host string, group *dataEndpoint) bool {
	for _, r := range e.receiving {
		if r.group == group && r.state != stateDone && r.ep.PeerHost() == host {
			return true
		}
	}
	return false
}
