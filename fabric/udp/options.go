package udp

import (
	"fmt"
	"strings"

	"gobtl/fabric"
)

// family is the name of the provider, before any options.
const family = "udp"

// Options leave out features of the kernel. What it lacks is left out anyway.
type Options struct {
	NoGSO  bool // one message for each datagram sent (UDP_SEGMENT)
	NoGRO  bool // one message for each datagram received (UDP_GRO)
	NoMmsg bool // one system call for each message (sendmmsg, recvmmsg)
	// NoConnect: no second socket for the peer that most is sent to
	NoConnect bool
}

// name returns the provider's name with these options.
func (o Options) name() string {
	name := family
	for _, f := range o.flags() {
		if *f.set {
			name += ";" + f.name
		}
	}
	return name
}

type optionFlag struct {
	name string
	set  *bool
}

func (o *Options) flags() []optionFlag {
	return []optionFlag{
		{"nogso", &o.NoGSO}, {"nogro", &o.NoGRO}, {"nommsg", &o.NoMmsg}, {"noconnect", &o.NoConnect},
	}
}

// parseName returns the options in a provider name, added to o; false if it is no name of this
// family.
func (o Options) parseName(name string) (Options, bool) {
	parts := strings.Split(strings.TrimSuffix(name, "/"), ";")
	if parts[0] != family {
		return o, false
	}
	for _, part := range parts[1:] {
		known := false
		for _, f := range o.flags() {
			if f.name == part {
				*f.set = true
				known = true
			}
		}
		if !known {
			return o, false
		}
	}
	return o, true
}

// New returns a provider of the family "udp" whose domains all have the options.
func New(o Options) fabric.Provider { return provider{options: o} }

type provider struct{ options Options }

func init() { fabric.Register(New(Options{})) }

func (provider) Family() string { return family }

func badName(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadName}, args...)...)
}

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadConfig}, args...)...)
}
