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

// offersMax is how many of a rank's addresses the others are told: the first ones.
const offersMax = 32

// offer is what a rank says of itself before the ranks choose their addresses.
type offer struct {
	Host  string // the same for ranks with a network in common, loopback included
	Addrs []address
}

// address is one that a rank may use.
type address struct {
	Format  string // names of one form reach each other
	Src     string
	Network string
	Device  string

	silent bool // ranks have not reached each other by its network
}

// places are the fabrics that a provider offers to the ranks of a job.
type places struct {
	infos  []fabric.Info // of this rank, as many as its offer has
	offers []offer       // of each rank; nil: the job is on one host, or each rank has one fabric
}

// offerAll tells the ranks of other hosts which addresses this one has, by the launcher, and hears
// of theirs. Ranks of one host need not ask.
func offerAll(ctx context.Context, job Job, infos []fabric.Info) (*places, error) {
	if job.Nodes() < 2 {
		return &places{infos: infos}, nil
	}
	own, p := offer{Host: string(launch.HostName())}, &places{}
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

// pick is the fabric that a rank takes. Ranks of one host take the first. Of those of several hosts
// each takes the one that most other hosts have a network in common with; one that another host has
// as well, as bridges of containers do, comes last, and so does what is loopback.
func (p *places) pick(rank int) (fabric.Info, error) {
	if p.offers == nil {
		return p.infos[0], nil
	}
	chosen := p.choose()
	return p.infos[chosen[rank]], clash(p.offers, chosen, rank)
}

// choose is the address that each rank takes, by its place in what that rank offers.
func (p *places) choose() []int {
	chosen, format := make([]int, len(p.offers)), commonFormat(p.offers)
	for rank := range p.offers {
		chosen[rank] = chooseAddress(p.offers, rank, format)
	}
	return chosen
}

// leave has the ranks take other networks than those by which ranks have missed each other, and
// other devices. It reports false if some rank has no other one. All ranks come to the same result.
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

// reach is from where an address can be used.
type reach uint8

const (
	anywhere reach = iota // or nothing is known
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

// commonFormat is the form of addresses that all ranks have some of which are theirs alone, the
// first in the order of rank 0. Empty: there is none.
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

// foreign says whether an address of a rank says nothing to other hosts: one of them has it as
// well, or it is loopback, or one of a link's own where the host has others, or its network has led
// nowhere.
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

// chooseAddress is the address that a rank takes, by its place in what the rank offers.
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
			score++ // It says more to who reads the error.
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// neighbours is how many ranks of other hosts have an address of their own in the network of one.
func neighbours(offers []offer, rank int, a address) (count int) {
	if reachOf(a) == onLink {
		return 0 // Each link has that network.
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

// clash is the error of a rank whose address leads another host's ranks nowhere, or to themselves.
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

// way names both ends of the way to a rank that cannot be reached, in its error, and the limit of
// this process that may be the reason.
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

// endsOfWay are both ends of the way to a rank, "" if there is no address.
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
