package mpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/launch"
)

// offersMax is the largest number of local addresses that a rank publishes to the other ranks of
// the job, which choose one of these addresses.
const offersMax = 32

// offer is the message with which a rank publishes its local addresses to all ranks of the job.
type offer struct {
	Host  string // ranks with the same Host share all networks, including loopback
	Addrs []address
	CPUs  string // the CPUs that the rank may use: see cpusText
}

// address is a local address that a rank can use.
type address struct {
	Format  string // addresses of the same format can reach each other
	Src     string
	Network string
	Device  string

	silent bool // ranks failed to connect over the network or the device
}

// The type "places" has the fabrics that a provider offers to this rank, and the addresses that
// each rank of the job has published.
type places struct {
	infos  []fabric.Info // the fabrics of this rank, in the order of offer.Addrs
	offers []offer       // the offer of each rank; nil: all ranks are on one host
}

// offerAll exchanges the addresses of all ranks through the launcher. If all ranks are on one host,
// offerAll exchanges nothing.
func offerAll(ctx context.Context, job Job, infos []fabric.Info) (*places, error) {
	if job.Nodes() < 2 {
		return &places{infos: infos}, nil
	}
	own, p := offer{Host: string(launch.HostName()), CPUs: cpusText()}, &places{}
	for _, info := range infos[:min(len(infos), offersMax)] {
		if info.Provider == infos[0].Provider {
			own.Addrs = append(own.Addrs, address{
				Format: info.AddrFormat, Src: info.Src, Network: info.Fabric, Device: info.Domain,
			})
			p.infos = append(p.infos, info)
		}
	}
	value, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	values, err := job.Exchange(ctx, "mpi-addresses", value)
	if err != nil {
		return nil, fmt.Errorf("mpi: %w", err)
	}
	p.offers = make([]offer, len(values))
	for rank, value := range values {
		if err := json.Unmarshal(value, &p.offers[rank]); err != nil || len(p.offers[rank].Addrs) == 0 {
			return nil, fmt.Errorf("%w: rank %d offers %.80q", ErrAddress, rank, value)
		}
	}
	return p, nil
}

// The method "pick" returns the fabric that a rank uses. In a job on one host, each rank uses the
// first fabric that the provider offers. In a job on several hosts, each rank prefers the network
// in which the largest number of ranks on other hosts have an address. A rank avoids loopback
// addresses, and addresses that several hosts have, such as the address of a container bridge. If
// ranks on other hosts cannot use the chosen address, the method "pick" returns ErrAddress.
func (p *places) pick(rank int) (fabric.Info, error) {
	if p.offers == nil {
		return p.infos[0], nil
	}
	chosen := p.choose()
	return p.infos[chosen[rank]], clash(p.offers, chosen, rank)
}

// The method "cpus" returns the set of CPUs that each rank may use, in the text form that cpusText
// defines.
func (p *places) cpus() []string {
	texts := make([]string, len(p.offers))
	for rank, o := range p.offers {
		texts[rank] = o.CPUs
	}
	return texts
}

// The method "choose" chooses an address for each rank, and returns the index of each chosen
// address in the list of addresses that the rank offers.
func (p *places) choose() []int {
	chosen, format := make([]int, len(p.offers)), commonFormat(p.offers)
	for rank := range p.offers {
		chosen[rank] = chooseAddress(p.offers, rank, format)
	}
	return chosen
}

// The method "leave" excludes the networks over which ranks have failed to connect, and all
// networks of the same devices. The method "leave" reports whether each rank still has a usable
// address after the exclusion, and returns the same result at all ranks.
func (p *places) leave(missing []missed) bool {
	if p.offers == nil {
		return false
	}
	chosen, silent := p.choose(), map[string]bool{}
	for _, m := range missing {
		for _, rank := range []int{m.From, m.To} {
			silent[p.offers[rank].Addrs[chosen[rank]].Network] = true
		}
	}
	for _, o := range p.offers {
		devices := map[string]bool{}
		for _, a := range o.Addrs {
			devices[a.Device] = devices[a.Device] || silent[a.Network]
		}
		for i := range o.Addrs {
			o.Addrs[i].silent = o.Addrs[i].silent || devices[o.Addrs[i].Device]
		}
	}
	next := p.choose()
	for rank := range p.offers {
		if p.offers[rank].Addrs[next[rank]].silent || clash(p.offers, next, rank) != nil {
			return false
		}
	}
	return true
}

// The type "reach" says which hosts can reach an address.
type reach uint8

const (
	anywhere reach = iota // also if the reach is unknown
	onLink
	onHost
)

func reachOf(a address) reach {
	ip, err := netip.ParseAddr(a.Src)
	switch {
	case err != nil:
	case ip.IsLoopback():
		return onHost
	case ip.IsLinkLocalUnicast():
		return onLink
	}
	return anywhere
}

// commonFormat returns an address format in which each rank has an address that ranks on other
// hosts can use. If all ranks have several formats in common, commonFormat returns the format that
// comes first in the list of rank 0. If the ranks have no address format in common, commonFormat
// returns an empty string.
func commonFormat(offers []offer) string {
	for _, a := range offers[0].Addrs {
		everywhere := true
		for rank := range offers {
			some := false
			for _, b := range offers[rank].Addrs {
				some = some || b.Format == a.Format && !foreign(offers, rank, b)
			}
			everywhere = everywhere && some
		}
		if everywhere {
			return a.Format
		}
	}
	return ""
}

// The function "foreign" reports whether an address of a rank is unusable for ranks on other hosts.
// An address is unusable for other hosts if it is a loopback address, if several hosts have this
// address, or if ranks have failed to connect over its network. A link-local address of a rank that
// has an ordinary address counts as unusable for ranks on other hosts.
func foreign(offers []offer, rank int, a address) bool {
	if a.silent {
		return true
	}
	switch reachOf(a) {
	case anywhere:
	case onHost:
		return true
	case onLink:
		for _, b := range offers[rank].Addrs {
			if reachOf(b) == anywhere {
				return true
			}
		}
	}
	for i := range offers {
		if offers[i].Host == offers[rank].Host {
			continue
		}
		for _, b := range offers[i].Addrs {
			if a.Src != "" && a.Src == b.Src {
				return true
			}
		}
	}
	return false
}

func chooseAddress(offers []offer, rank int, format string) (best int) {
	most := -1
	for i, a := range offers[rank].Addrs {
		score := 0
		if a.Format == format || format == "" {
			score += 2 * (len(offers) + 1)
		}
		if !foreign(offers, rank, a) {
			score += len(offers) + 1 + neighbours(offers, rank, a)
		} else if reachOf(a) == anywhere {
			score++ // An ordinary address makes a better error text.
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// The function "neighbours" returns the number of ranks on other hosts that have a usable address
// in the network of the address "a".
func neighbours(offers []offer, rank int, a address) (count int) {
	if reachOf(a) == onLink {
		return 0 // All links use the same link-local network.
	}
	for i := range offers {
		if offers[i].Host == offers[rank].Host {
			continue
		}
		for _, b := range offers[i].Addrs {
			if a.Network != "" && a.Network == b.Network && !foreign(offers, i, b) {
				count++
				break
			}
		}
	}
	return count
}

// The function "clash" returns an error if ranks on other hosts cannot use the chosen address of
// the given rank. The address of a rank is unusable if a rank on another host has chosen an equal
// address or an address of a different format, or if the function "foreign" returns true for the
// address.
func clash(offers []offer, chosen []int, rank int) error {
	const hint = "choose a device by Config.Fabric"
	mine := offers[rank].Addrs[chosen[rank]]
	for i := range offers {
		other := offers[i].Addrs[chosen[i]]
		switch {
		case offers[i].Host == offers[rank].Host:
		case mine.Src != "" && mine.Src == other.Src:
			return fmt.Errorf("%w: %s (%s) is also the address of rank %d, on another host: %s",
				ErrAddress, mine.Src, mine.Device, i, hint)
		case mine.Format != other.Format:
			return fmt.Errorf("%w: %s (%s) here, %s (%s) at rank %d, on another host: %s", ErrAddress,
				mine.Src, mine.Device, other.Src, other.Device, i, hint)
		case foreign(offers, rank, mine):
			return fmt.Errorf("%w: %s (%s), and rank %d is on another host: %s", ErrAddress, mine.Src,
				mine.Device, i, hint)
		}
	}
	return nil
}

// The method "way" adds details about the connection to an error that reports an unreachable rank.
// The details that the method "way" adds are the local and the remote address of the connection,
// and the limit on open files if it is a possible cause of the failure.
func (e *engine) way(rank int, err error) error {
	if !errors.Is(err, btl.ErrUnreachable) {
		return err
	}
	if limit := limitOfFiles(filesForPeer); limit != "" {
		err = fmt.Errorf("%w: %s", err, limit)
	}
	if ends := endsOfWay(e, rank); ends != "" {
		err = fmt.Errorf("%w: %s", err, ends)
	}
	return err
}

// endsOfWay returns a text with the local and the remote address of the connection to a rank.
// endsOfWay returns an empty text if the local address is unknown.
func endsOfWay(e *engine, rank int) string {
	if e.m == nil {
		return ""
	}
	info := e.m.Info()
	if info.Src == "" {
		return ""
	}
	to := ""
	if p := e.peers[rank]; p != nil {
		to = " to " + p.Endpoint().PeerAddress()
	}
	return fmt.Sprintf("from %s (%s)%s", info.Src, info.Domain, to)
}
