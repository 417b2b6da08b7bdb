package report

import (
	"bufio"
	"os"
	"runtime"
	"strings"

	"gobtl/internal/version"
)

// Machine describes the machine on which a measurement was made. A field whose value the system
// does not report is "unknown".
type Machine struct {
	CPUModel string `json:"cpu_model"`
	CPUs     int    `json:"cpus"`
	Kernel   string `json:"kernel"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Go       string `json:"go"`
	Version  string `json:"version"` // of this program
}

// ThisMachine describes the machine on which this process runs.
func ThisMachine() Machine {
	return Machine{
		CPUModel: cpuModel(), CPUs: runtime.NumCPU(), Kernel: kernelRelease(), OS: runtime.GOOS,
		Arch: runtime.GOARCH, Go: runtime.Version(), Version: Version(),
	}
}

// cpuModel returns the first model name in /proc/cpuinfo, or "unknown".
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernelRelease() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(release))
}

// Version returns the version of the running program, or the commit from which the program was
// built.
func Version() string { return version.String() }
