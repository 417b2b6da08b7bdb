package main

import "gobtl/internal/report"

// hostFacts describe where a side runs.
type hostFacts struct {
	report.Machine
	PinnedCPU int `json:"pinned_cpu"` // -1 is none
}

func newHostFacts(pinnedCPU int) hostFacts { return hostFacts{report.ThisMachine(), pinnedCPU} }
