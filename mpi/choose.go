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

// offersMax is how many addresses a rank offers to the other ranks, at most: its first addresses.
const offersMax = 32

// offer is a rank's message to the other ranks before they choose their addresses.
type offer struct {
	Host  string // the same for ranks with a network in common, loopback included
	Addrs []address
}

// address is an address that a rank may use.
type address struct {
	Format  string // addresses of one format can reach each other
	Src     string
	Network string
	Device  string

	silent bool // ranks failed to reach each other by its network
}

// places are the fabrics that a provider offers to the ranks of a job.
type places struct {
	infos  []fabric.Info // of this rank, as many as its offer has
	offers []offer       // of each rank; nil: the job is on one host, or each rank has one fabric
}

// offerAll exchanges the offered addresses with the ranks of other hosts, through the launcher.
// Ranks of a job on one host skip the exchange.
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

// pick returns the fabric that a rank uses. In a job on one host each rank uses its first fabric.
// In a job on several hosts each rank uses the fabric whose network most other hosts share.
// Addresses that another host has too (as bridges of containers have) and loopback addresses come
// last.
func (p *places) pick(rank int) (fabric.Info, error) {
	if p.offers == nil {
		return p.infos[0], nil
	}
	chosen := p.choose()
	return p.infos[chosen[rank]], clash(p.offers, chosen, rank)
}

// choose returns the address of each rank, as an index into the offer of that rank.
func (p *places) choose() []int {
	chosen, format := make([]int, len(p.offers)), commonFormat(p.offers)
	for rank := range p.offers {
		chosen[rank] = chooseAddress(p.offers, rank, format)
	}
	return chosen
}

// leave excludes the networks and devices by which ranks failed to reach each other. It reports
// false if some rank has no other network. All ranks come to the same result.
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

// reach is the scope in which an address can be used.
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

// commonFormat returns an address format in which each rank has an address that no other host has.
// If there are several, it is the first in the order of rank 0. It is empty if there is no such
// format.
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

// foreign reports whether other hosts cannot use an address of a rank. This is so if another host
// has the same address, if it is a loopback address, if it is link-local and the host has other
// addresses, or if its network was found not to work.
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

// chooseAddress returns the address of a rank, as an index into the offer of the rank.
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
			score++ // This address is more useful in the error text.
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// neighbours counts the ranks of other hosts that have an address of their own in the network of
// the given address.
func neighbours(offers []offer, rank int, a address) (count int) {
	if reachOf(a) == onLink {
		return 0 // Every link has the link-local network.
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

// clash is the error of a rank whose address is useless to the ranks of another host, or leads them
// to their own host.
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

// way completes the error of an unreachable rank. It adds both addresses of the connection, and the
// limit of this process that may be the reason.
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

// endsOfWay names the local and the remote address of the connection to a rank. It is "" if there
// is no address.
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
