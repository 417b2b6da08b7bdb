package udp

import (
	"fmt"
	"strings"

	"gobtl/fabric"
)

// The constant "family" is the name of the provider without options.
const family = "udp"

// Options turns off features of the kernel that the provider would otherwise use. The provider
// never uses a feature that the kernel lacks.
type Options struct {
	NoGSO  bool // send each datagram as one message (no UDP_SEGMENT)
	NoGRO  bool // receive each datagram as one message (no UDP_GRO)
	NoMmsg bool // one system call per message (no sendmmsg and recvmmsg)
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
	return []optionFlag{{"nogso", &o.NoGSO}, {"nogro", &o.NoGRO}, {"nommsg", &o.NoMmsg}}
}

// parseName parses a provider name, and returns the options "o" with the options in the name added.
// The second result of parseName is true if the name belongs to the provider family "udp", and
// otherwise false.
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

// New returns a provider of the family "udp". The options given to New apply to all domains that
// the new provider opens.
func New(o Options) fabric.Provider { return provider{options: o} }

type provider struct{ options Options }

func init() { fabric.Register(New(Options{})) }

func (provider) Family() string { return family }

func badConfig(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{fabric.ErrBadConfig}, args...)...)
}
