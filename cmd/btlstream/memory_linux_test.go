package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobtl/stream"
)

// TestMemoryLimits: rings that need more memory than the smallest limit of the process are an error
// that says the need and the limit, for either version of control groups.
func TestMemoryLimits(t *testing.T) {
	const meminfo = "MemTotal: 9000000 kB\nMemAvailable: 2097152 kB\nSwapFree: 1048576 kB\n"
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string // of the error of a ring of 4 GiB
	}{
		{
			"host",
			map[string]string{"proc/meminfo": meminfo},
			"the ring needs 4096 MiB of memory, and the limit is 3072 MiB (available memory and swap",
		},
		{"version 2", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "2147483648\n",
		}, "the limit is 2048 MiB (the control group /a of this process, memory.max)"},
		{"version 1", map[string]string{
			"proc/self/cgroup": "8:pids:/x\n4:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1048576\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, "the limit is 1 MiB (the control group /x of this process, memory.limit_in_bytes)"},
		{"container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "3221225472\n",
		}, "the limit is 3072 MiB (the control group / of this process, memory.max)"},
		{"room", map[string]string{"proc/meminfo": "MemAvailable: 4194304 kB\n"}, ""},
		{"nothing known", nil, ""},
		{"nonsense", map[string]string{
			"proc/meminfo": "MemAvailable: x kB\n", "proc/self/cgroup": "0\n::\n",
			"sys/fs/cgroup/memory.max": "-1\n",
		}, ""},
	} {
		root := t.TempDir()
		for name, text := range tc.files {
			name = filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		g := stream.Geometry{MessageBytes: 1 << 20, Regions: 1024, RegionMessages: 4}
		err := exceeds(g, 1, memoryLimits(root))
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	g := stream.Geometry{MessageBytes: 1 << 20, Regions: 1, RegionMessages: 1}
	limits := []memoryLimit{{3 << 20, "ulimit -v"}}
	if err := exceeds(g, 3, limits); err != nil {
		t.Errorf("three rings that fit: %v", err)
	}
	const want = "-m 1048576 -b 1 -c 1: the 4 rings need 4 MiB of memory, " +
		"and the limit is 3 MiB (ulimit -v)"
	if err := exceeds(g, 4, limits); err == nil || err.Error() != want {
		t.Errorf("four rings: %v, want %s", err, want)
	}
}
