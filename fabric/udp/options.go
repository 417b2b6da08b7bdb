package udp

import (
	"fmt"
	"strings"

	"gobtl/fabric"
)

// family is the name of the provider, before any options.
const family = "udp"

// Options turns off the use of features of the kernel. A feature that the kernel lacks is never
// used.
type Options struct {
	NoGSO  bool // send each datagram as one message (no UDP_SEGMENT)
	NoGRO  bool // receive each datagram as one message (no UDP_GRO)
	NoMmsg bool // one system call per message (no sendmmsg and recvmmsg)
	// With NoConnect, endpoints open no second socket for the peer to which most sends go.
	NoConnect bool
}

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

// parseName parses a provider name, and returns the options o together with those in the name. If
// the name does not belong to this family, the second result of parseName is false.
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

// New returns a provider of the family "udp". The given options apply to all domains that this
// provider opens.
func New(o Options) fabric.Provider { return provider{options: o} }

type provider struct{ options Options }

func init() { fabric.Register(New(Options{})) }

func (provider) Family() string { return family }

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadConfig}, args...)...)
}
