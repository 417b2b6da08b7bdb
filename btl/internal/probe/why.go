package probe

import "gobtl/btl/internal/pmtu"

// Why returns a text that explains the present datagram size. The argument "reliable" of Why says
// whether the fabric loses no datagrams, so that there is no path MTU search.
func (p *Path) Why(reliable bool) string {
	switch {
	case reliable:
		return "all that both devices take, of a fabric that loses nothing"
	case p.search != nil:
		return p.Reason()
	case p.most != 0:
		var over pmtu.Search
		over.Resume(int(p.most), 0)
		return over.Reason()
	default:
		return "not connected"
	}
}
