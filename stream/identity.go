package stream

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
)

// Role is a side of a stream.
type Role uint8

// The constants below are the roles.
const (
	RoleReceiver Role = iota
	RoleSender
)

func (r Role) String() string {
	if r == RoleSender {
		return "sender"
	}
	return "receiver"
}

// Identity names one side of a stream to the other side. Each sender and each receiver has a new
// identity.
type Identity struct {
	Role Role
	Key  uint64 // random
	Name []byte // name of the btl module

	// The field "from" is the IP address, without a port, of the peer that has sent this Identity to
	// this process over a connection of a Meeting. If the program has passed the Identity itself, the
	// field "from" is empty.
	from string
}

// identityPrefix is the beginning of the text of each identity, and contains the version of the
// format.
const identityPrefix = "gobtl-stream/1"

const identityTextMax = 1024

// String returns the identity as one line of printable characters, for ParseIdentity.
func (id Identity) String() string {
	b := binary.BigEndian.AppendUint64(nil, id.Key)
	b = append(b, id.Name...)
	return identityPrefix + ":" + id.Role.String() + ":" + base64.RawURLEncoding.EncodeToString(b)
}

// ParseIdentity parses the text of an identity. Surrounding space is ignored. Errors wrap
// ErrIdentity.
func ParseIdentity(text string) (Identity, error) {
	text = strings.TrimSpace(text)
	if len(text) > identityTextMax {
		return Identity{}, fmt.Errorf("%w: %d characters", ErrIdentity, len(text))
	}
	rest, ok := strings.CutPrefix(text, identityPrefix+":")
	role, data, found := strings.Cut(rest, ":")
	if !ok || !found {
		return Identity{}, fmt.Errorf("%w: %q does not begin with %q", ErrIdentity, text,
			identityPrefix+":")
	}
	id := Identity{Role: RoleReceiver}
	switch role {
	case "receiver":
	case "sender":
		id.Role = RoleSender
	default:
		return Identity{}, fmt.Errorf("%w: role %q", ErrIdentity, role)
	}
	b, err := base64.RawURLEncoding.DecodeString(data)
	const keyBytes = 8
	if err != nil || len(b) <= keyBytes {
		return Identity{}, fmt.Errorf("%w: damaged: copy the whole line", ErrIdentity)
	}
	id.Key, id.Name = binary.BigEndian.Uint64(b), b[keyBytes:]
	if id.Key == 0 {
		return Identity{}, fmt.Errorf("%w: key 0", ErrIdentity)
	}
	return id, nil
}
