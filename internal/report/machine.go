package report

import (
	"bufio"
	"os"
	"runtime"
	"strings"

	"gobtl/internal/version"
)

// Machine says where figures come from. What the system does not tell is "unknown".
type Machine struct {
	CPUModel string `json:"cpu_model"`
	CPUs     int    `json:"cpus"`
	Kernel   string `json:"kernel"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	Go       string `json:"go"`
	Version  string `json:"version"` // of this program
}

// ThisMachine describes the one that this process runs on.
func ThisMachine() Machine {
	return Machine{
		CPUModel: cpuModel(), CPUs: runtime.NumCPU(), Kernel: kernelRelease(), OS: runtime.GOOS,
		Arch: runtime.GOARCH, Go: runtime.Version(), Version: Version(),
	}
}

// cpuModel is the first model name that /proc/cpuinfo tells, where there is such a file.
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

// Version is the program's version, or the commit that a working copy stands at.
func Version() string { return version.String() }
