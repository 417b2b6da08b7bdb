package main

import (
	"math"
	"time"
)

// cpusMax is one more than the largest CPU number that sched_setaffinity's fixed mask holds.
const cpusMax = 1024

// cpuMeter measures the CPU time that the process uses while a stream lasts. begin is called when
// the first message may come, end after that stream has ended.
type cpuMeter struct {
	at         time.Time
	cpu        time.Duration
	wall, used time.Duration // from begin to end
}

func (m *cpuMeter) begin() { m.at, m.cpu = time.Now(), processCPU() }

// end does nothing if the stream has never begun.
func (m *cpuMeter) end() {
	if !m.at.IsZero() {
		m.wall, m.used = time.Since(m.at), processCPU()-m.cpu
	}
}

// percent is the CPU time by the time that has passed: at most 100 for each of the host's CPUs.
func (m *cpuMeter) percent() float64 {
	if m.wall <= 0 {
		return 0
	}
	return math.Round(1e4*m.used.Seconds()/m.wall.Seconds()) / 100
}
