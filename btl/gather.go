package btl

// gathers says whether the payload of a fragment is to be read by the fabric where it lies, and not
// copied. Memory that is not registered is registered for as long as the fragment is under way,
// where that costs next to nothing.
func (m *Module) gathers(f *Fragment) bool {
	if f.hasSeg || f.size < gatherBytesMin {
		return false
	}
	if f.vec != nil {
		return m.gathersPieces(f)
	}
	if f.gather != 0 || !m.data.caps.FreeRegions {
		return f.gather != 0
	}
	region, err := m.dom.RegisterRegion(f.mem)
	if err != nil {
		return false // it is copied, then
	}
	f.gather, f.gatherOff, f.ownRegion = region, 0, true
	m.regions.own++
	return true
}

// gatherBytesMin is the size from which on copying a fragment costs more than to have it gathered,
// and its sender told when it is acknowledged.
const gatherBytesMin = 4 << 10

// dropRegion ends the registration that was made for one fragment.
func (m *Module) dropRegion(f *Fragment) {
	m.regions.own--
	if !m.closed { // else the fabric is gone, with all its regions
		// The region is known; nothing can be done about a provider that does not let go of it.
		if f.vec != nil {
			m.dropPieces(f)
		} else {
			_ = m.dom.DeregisterRegion(f.gather)
		}
	}
	f.ownRegion, f.gather = false, 0
}
