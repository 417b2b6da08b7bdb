package main

import (
	"math"
	"time"
)

// cpusMax is one more than the largest CPU number that the fixed mask of sched_setaffinity holds.
const cpusMax = 1024

// cpuMeter measures the CPU time that the process uses during a stream. The caller calls begin when
// the first message may arrive, and end after the stream has ended.
type cpuMeter struct {
	at         time.Time
	cpu        time.Duration
	wall, used time.Duration // from begin to end
}

func (m *cpuMeter) begin() { m.at, m.cpu = time.Now(), processCPU() }

// The method end stops the measurement of the CPU time. If begin was never called, end does
// nothing.
func (m *cpuMeter) end() {
	if !m.at.IsZero() {
		m.wall, m.used = time.Since(m.at), processCPU()-m.cpu
	}
}

// percent returns the CPU time in percent of the elapsed time. Each CPU of the host counts for up
// to 100 percent.
func (m *cpuMeter) percent() float64 {
	if m.wall <= 0 {
		return 0
	}
	return math.Round(1e4*m.used.Seconds()/m.wall.Seconds()) / 100
}
