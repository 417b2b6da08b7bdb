package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ringMemory allocates the memory of a ring. If the machine does not have the memory, or a limit
// forbids it, ringMemory returns an error instead of ending the program. If the argument huge is
// set, the kernel provides as many huge pages as it can.
func ringMemory(bytes int, huge bool) ([]byte, error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	mem, err := unix.Mmap(-1, 0, bytes, prot, flags) // mapped until the process ends
	if err == nil && huge {
		if err = unix.Madvise(mem, unix.MADV_HUGEPAGE); err != nil {
			err = errors.Join(fmt.Errorf("--huge-pages: %w", err), unix.Munmap(mem))
		}
	}
	return mem, err
}

// memoryLimits returns the limits for the memory of this process: those of the process, those of
// its control groups, and the available memory of the host. The argument "root" is the directory
// that contains proc and sys. A limit that cannot be read is left out.
func memoryLimits(root string) (limits []memoryLimit) {
	for _, r := range []struct {
		resource int
		rule     string
	}{{unix.RLIMIT_AS, "ulimit -v"}, {unix.RLIMIT_DATA, "ulimit -d"}} {
		var limit unix.Rlimit
		if unix.Getrlimit(r.resource, &limit) == nil {
			limits = append(limits, memoryLimit{limit.Cur, r.rule})
		}
	}
	limits = append(limits, groupLimits(root)...)
	if bytes, ok := availableBytes(filepath.Join(root, "proc/meminfo")); ok {
		limits = append(limits, memoryLimit{bytes, "available memory and swap of this host"})
	}
	return limits
}

// groupLimits returns the limits of the process's control groups, of version 1 and version 2, and
// of the groups above them. In a container, the files of the process's own group may be at the top.
func groupLimits(root string) (limits []memoryLimit) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) { // hierarchy:controllers:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		top, file := "sys/fs/cgroup", "memory.max"
		switch fields[1] {
		case "":
		case "memory":
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, err := os.ReadFile(filepath.Join(root, top, group, file))
			bytes, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && bad == nil { // else there is no limit
				rule := "the control group " + group + " of this process, " + file
				limits = append(limits, memoryLimit{bytes, rule})
			}
			if group == "/" {
				break
			}
		}
	}
	return limits
}

// availableBytes returns the memory that the kernel can give to processes, and the free swap space.
func availableBytes(meminfo string) (bytes uint64, ok bool) {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		kibibytes, bad := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 54)
		if bad == nil && (name == "MemAvailable" || name == "SwapFree") {
			bytes += kibibytes << 10
			ok = ok || name == "MemAvailable"
		}
	}
	return bytes, ok
}
