package path

// Why returns a text with the reason for the present datagram size. If reliable is true, the fabric
// loses no datagrams, and there is no search.
func (p *Path) Why(reliable bool) string {
	switch {
	case reliable:
		return "all that both devices take, of a fabric that loses nothing"
	case p.Begun():
		return p.Reason()
	default:
		return "not connected"
	}
}
