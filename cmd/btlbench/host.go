package main

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// hostFacts describe a side, so that a report can be judged away from the machine it came from.
type hostFacts struct {
	CPUModel  string `json:"cpu_model"`
	CPUs      int    `json:"cpus"`
	Kernel    string `json:"kernel"`
	Go        string `json:"go"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Version   string `json:"version"`
	PinnedCPU int    `json:"pinned_cpu"` // -1 is none
}

func newHostFacts(pinnedCPU int) hostFacts {
	return hostFacts{
		CPUModel: cpuModel(), CPUs: runtime.NumCPU(), Kernel: kernelRelease(), Go: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Version: version(), PinnedCPU: pinnedCPU,
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

// version is the module's version, or the commit that a working copy stands at.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, modified := "devel", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	return revision + modified
}
