package layers

import "gobtl/internal/report"

// HostFacts describes the host of a side.
type HostFacts struct {
	report.Machine
	PinnedCPU int `json:"pinned_cpu"` // -1 is none
}

func newHostFacts(pinnedCPU int) HostFacts { return HostFacts{report.ThisMachine(), pinnedCPU} }
