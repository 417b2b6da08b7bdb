//go:build unix

package job

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"gobtl/launch/pmi"
)

// ErrHosts means that the list of hosts is invalid.
var ErrHosts = errors.New("invalid list of hosts")

// Host is a machine on which ranks can run.
type Host struct {
	Name  string
	Slots int  // ranks that the host takes in each turn
	Local bool // the host on which btlrun runs
}

// ParseHosts parses a list of hosts such as "a,b:2". An empty list of hosts means this host, with
// slots for all ranks. ParseHosts returns ErrHosts if the list is invalid.
func ParseHosts(text string) ([]Host, error) {
	own, err := os.Hostname()
	if err != nil {
		own = "localhost"
	}
	if text == "" {
		return []Host{{Name: own, Slots: pmi.RanksMax, Local: true}}, nil
	}
	var hosts []Host
	known := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		name, slots, counted := cutHost(item)
		h := Host{Name: name, Slots: 1, Local: name == "localhost" || name == own}
		if counted {
			h.Slots, err = strconv.Atoi(slots)
			if err != nil || h.Slots < 1 || h.Slots > pmi.RanksMax {
				return nil, fmt.Errorf("%w: %q: write HOST:RANKS with 1 to %d ranks", ErrHosts, item,
					pmi.RanksMax)
			}
		}
		switch {
		case name == "":
			return nil, fmt.Errorf("%w: a host without a name", ErrHosts)
		case known[name]:
			return nil, fmt.Errorf("%w: %q is there twice: write %s:RANKS", ErrHosts, name, name)
		// The remote shell would treat a host name that begins with a dash as an option.
		case strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t"):
			return nil, fmt.Errorf("%w: %q is no name of a host", ErrHosts, name)
		}
		known[name] = true
		hosts = append(hosts, h)
	}
	return hosts, nil
}

// cutHost cuts an item such as "a:2" at the colon before the number. An IPv6 address must be in
// brackets, as in "[fe80::1%eth0]:2".
func cutHost(item string) (name, slots string, counted bool) {
	inner, bracketed := strings.CutPrefix(item, "[")
	if address, rest, ends := strings.Cut(inner, "]"); bracketed && ends {
		slots, counted = strings.CutPrefix(rest, ":")
		if counted || rest == "" {
			return address, slots, counted
		}
	}
	return strings.Cut(item, ":")
}

// The function place returns, for each of size ranks, the index of the host that runs the rank.
// Each host in turn gets as many ranks as it has slots, and the first host follows the last one.
func place(hosts []Host, size int) []int {
	var at []int
	for {
		for i, h := range hosts {
			for range h.Slots {
				if len(at) == size {
					return at
				}
				at = append(at, i)
			}
		}
	}
}

// cleanEnv removes the variables of another launcher from an environment, because the ranks would
// use them as their own.
func cleanEnv(environ []string) []string {
	var env []string
	for _, variable := range environ {
		foreign := false
		for _, prefix := range []string{"PMI_", "PMIX_", "OMPI_COMM_WORLD_", "MPI_LOCAL", "HYDI_"} {
			foreign = foreign || strings.HasPrefix(variable, prefix)
		}
		if !foreign {
			env = append(env, variable)
		}
	}
	return env
}
