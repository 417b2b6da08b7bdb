//go:build linux

package stream

import (
	"encoding/json"
	"runtime"
	"testing"
)

// TestCPUOfShortStream: the report of a stream that takes some milliseconds tells the CPU time that
// was used meanwhile, and not that of the whole process, which has filled a large ring before.
func TestCPUOfShortStream(t *testing.T) {
	both := []string{"-m8192", "-b32", "-c512", "-t200", "--quiet"}
	rx, tx := pair(t, both, nil, nil)
	rx.ok()
	tx.ok()
	for _, p := range []*process{rx, tx} {
		var report struct {
			Role       string
			CPUPercent float64 `json:"cpu_percent"`
		}
		if err := json.Unmarshal([]byte(p.stdout.String()), &report); err != nil {
			t.Fatalf("%v\n%s", err, p.stdout.String())
		}
		const slack = 1.1 // CPU time and the clock are not read at the same instant
		if most := slack * 100 * float64(runtime.NumCPU()); report.CPUPercent > most {
			t.Errorf("%s: %.0f %% of a CPU on %d", report.Role, report.CPUPercent, runtime.NumCPU())
		}
	}
}
