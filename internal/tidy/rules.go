package tidy

import (
	"path"
	"slices"
	"strings"
)

// The constant "module" is the module path of this repository, with which the import paths of its
// packages begin.
const module = "gobtl"

// The constants below limit the lengths of lines, functions and files.
const (
	lineColumnsMax   = 100
	funcLinesMax     = 70
	fileLinesMax     = 500
	testFileLinesMax = 800
)

// The type "policy" says what the packages in a directory may import, in addition to the standard
// library. The directory names in a policy are relative to the module's root directory. A directory
// name that ends in "/..." stands for all directories below it.
type policy struct {
	dir     string
	imports []string // packages of the module
	libs    []string // other modules
	deny    []string // forbidden packages of the standard library
}

// pureDeny lists packages of the standard library that a package without I/O must not import. The
// package "time" is not in pureDeny, because packages without I/O use time.Duration.
var pureDeny = []string{
	"context", "crypto/rand", "io", "log/...", "math/rand", "net/...", "os/...", "runtime/...",
	"sync/...", "syscall", "testing/...", "unsafe",
}

// The variable "leaves" lists packages of this module. A leaf imports no package of this module
// except other leaves.
var leaves = []string{
	"internal/byhost", "internal/cookie", "internal/fifo", "internal/kept",
	"internal/limits", "internal/list", "internal/mono", "internal/recent", "internal/seq",
	"internal/slots", "internal/words",
}

// policies defines, for the packages in each directory, which packages they may import. If several
// entries of the variable "policies" match a directory, the first matching entry applies. It is a
// violation if a directory with Go code matches no entry of the variable "policies". Each new
// package needs an entry in the variable "policies".
var policies = []policy{
	{dir: "internal/tidy", libs: []string{"golang.org/x/tools"}},
	{dir: "internal/testenv"},
	{dir: "internal/testnet", imports: []string{"btl", "fabric", "fabric/mem"}},
	{dir: "internal/version"},
	{
		dir: "internal/report", imports: []string{"internal/version"},
		libs: []string{
			"github.com/jedib0t/go-pretty/v6", "github.com/schollz/progressbar/v3",
			"golang.org/x/term", "gonum.org/v1/plot",
		},
	},
	{dir: "internal/waiting", imports: leaves, libs: []string{"golang.org/x/sys"}},
	{dir: "internal/park", libs: []string{"golang.org/x/sys"}},
	{dir: "internal/bounded"},
	{
		dir: "internal/usage", imports: []string{"internal/version"},
		libs: []string{"github.com/alecthomas/kong", "golang.org/x/term"},
	},
	{dir: "internal/bulk", libs: []string{"golang.org/x/sys"}},
	{dir: "internal/...", imports: leaves, deny: pureDeny},
	{dir: "hotel", imports: leaves, deny: pureDeny},
	{
		dir: "frag", imports: []string{"internal/list", "internal/seq", "internal/words"},
		deny: with(pureDeny, "time"),
	},
	{dir: "reliability", imports: with(leaves, "hotel"), deny: pureDeny},
	{dir: "fabric", imports: with(leaves, "internal/bulk")},
	{dir: "fabric/internal/...", imports: []string{"fabric"}},
	{
		dir: "fabric/...",
		imports: with(leaves, "fabric", "fabric/internal/doorbell", "fabric/internal/inet",
			"fabric/internal/regions", "internal/bulk", "internal/park"),
		libs: []string{"golang.org/x/sys"},
	},
	{dir: "btl/internal/backoff", imports: []string{"internal/mono"}, deny: pureDeny},
	{dir: "btl/internal/clock", imports: []string{"internal/mono"}, deny: pureDeny},
	{dir: "btl/internal/errs", imports: []string{"frag"}, deny: with(pureDeny, "time")},
	{
		dir: "btl/internal/flush", imports: []string{"internal/fifo", "internal/seq"},
		deny: with(pureDeny, "time"),
	},
	{
		dir:     "btl/internal/inbound",
		imports: []string{"frag", "internal/seq", "reliability"}, deny: with(pureDeny, "time"),
	},
	{
		dir:     "btl/internal/keep",
		imports: []string{"btl/internal/port", "fabric", "frag", "internal/fifo", "internal/words"},
		deny:    with(pureDeny, "time"),
	},
	{
		dir: "btl/internal/landing", imports: with(leaves, "btl/internal/port", "fabric", "frag"),
		deny: pureDeny,
	},
	{dir: "btl/internal/liveness", imports: with(leaves, "hotel"), deny: pureDeny},
	{
		dir:     "btl/internal/meet",
		imports: with(leaves, "btl/internal/port", "btl/internal/share", "frag"), deny: pureDeny,
	},
	{
		dir: "btl/internal/numbers", imports: []string{"btl/internal/port", "internal/seq"},
		deny: with(pureDeny, "time"),
	},
	{dir: "btl/internal/owed", imports: with(leaves, "reliability"), deny: pureDeny},
	{dir: "btl/internal/pack", imports: []string{"frag"}, deny: with(pureDeny, "time")},
	{
		dir: "btl/internal/payload", imports: []string{"btl/internal/regcache", "fabric"},
		deny: with(pureDeny, "time"),
	},
	{dir: "btl/internal/pmtu", imports: leaves, deny: pureDeny},
	{dir: "btl/internal/port", imports: with(leaves, "fabric"), deny: without(pureDeny, "unsafe")},
	{
		dir: "btl/internal/probe", imports: with(leaves, "btl/internal/pmtu", "fabric", "hotel"),
		deny: pureDeny,
	},
	{
		dir: "btl/internal/regcache", imports: []string{"fabric"},
		libs: []string{"github.com/google/btree"},
	},
	{
		dir: "btl/internal/remote",
		imports: []string{
			"btl/internal/share", "btl/internal/spare", "frag", "internal/slots",
		},
		deny: with(pureDeny, "time"),
	},
	{dir: "btl/internal/sched", imports: []string{"internal/list"}, deny: with(pureDeny, "time")},
	{dir: "btl/internal/setting", deny: pureDeny},
	{dir: "btl/internal/share", imports: []string{"internal/fifo"}, deny: with(pureDeny, "time")},
	{dir: "btl/internal/snapshot", deny: without(pureDeny, "sync/...")},
	{dir: "btl/internal/spare", deny: with(pureDeny, "time")},
	{dir: "btl/internal/stats", deny: with(pureDeny, "time")},
	{
		dir: "btl/internal/peer",
		imports: with(leaves, "btl/internal/backoff", "btl/internal/clock", "btl/internal/errs",
			"btl/internal/flush",
			"btl/internal/inbound", "btl/internal/landing", "btl/internal/liveness",
			"btl/internal/meet", "btl/internal/numbers", "btl/internal/owed", "btl/internal/pack",
			"btl/internal/payload", "btl/internal/pmtu", "btl/internal/port", "btl/internal/probe",
			"btl/internal/remote", "btl/internal/sched", "btl/internal/setting",
			"btl/internal/share", "btl/internal/spare", "btl/internal/stats", "fabric", "frag",
			"reliability"),
		deny: without(pureDeny, "syscall"),
	},
	{
		dir: "btl/internal/receive",
		imports: with(leaves, "btl/internal/errs", "btl/internal/inbound", "btl/internal/keep",
			"btl/internal/landing",
			"btl/internal/payload", "btl/internal/peer", "btl/internal/port", "btl/internal/remote",
			"btl/internal/stats", "fabric", "frag", "reliability"),
		deny: pureDeny,
	},
	{
		dir: "btl",
		imports: with(leaves, "btl/internal/errs", "btl/internal/keep", "btl/internal/meet",
			"btl/internal/numbers",
			"btl/internal/payload", "btl/internal/peer", "btl/internal/port",
			"btl/internal/receive", "btl/internal/regcache", "btl/internal/remote",
			"btl/internal/setting", "btl/internal/snapshot", "btl/internal/stats", "fabric",
			"frag", "reliability"),
	},
	{
		// The directory "." holds the root package gobtl, which is the simplified API.
		dir: ".",
		imports: []string{
			"btl", "btl/call", "btl/conn", "btl/queue", "btl/runner", "fabric", "fabric/net",
			"fabric/ofi", "fabric/shm", "fabric/udp", "internal/bounded", "internal/plain",
			"internal/version",
		},
	},
	{
		dir:     "btl/runner",
		imports: []string{"btl", "fabric", "internal/byhost", "internal/list", "internal/waiting"},
		libs:    []string{"golang.org/x/sys"},
	},
	{
		dir:     "btl/btlprom",
		imports: []string{"btl", "internal/waiting"},
		libs:    []string{"github.com/prometheus/client_golang"},
	},
	{dir: "btl/call", imports: []string{"btl", "btl/runner", "internal/byhost", "internal/plain"}},
	{dir: "btl/conn", imports: []string{"btl", "btl/runner", "internal/byhost", "internal/kept"}},
	{dir: "btl/queue", imports: []string{"btl", "btl/runner", "internal/byhost", "internal/kept"}},
	{dir: "vnic", imports: with(leaves, "btl", "fabric"), deny: pureDeny},
	{dir: "vnic/offload", deny: with(pureDeny, "time")},
	{
		dir: "vnic/tap", imports: []string{"vnic/offload"},
		libs: []string{"github.com/vishvananda/netlink", "golang.org/x/sys"},
	},
	{dir: "vnic/emfile", imports: []string{"vnic"}, libs: []string{"github.com/BurntSushi/toml"}},
	{
		dir: "stream", imports: with(leaves, "btl", "fabric", "internal/bounded", "internal/plain",
			"internal/waiting"),
		libs: []string{"golang.org/x/sys"},
		deny: []string{"log/..."},
	},
	{dir: "pml", imports: with(leaves, "btl"), deny: pureDeny},
	{
		dir: "mpi",
		imports: with(leaves, "btl", "btl/runner", "fabric", "internal/plain", "internal/waiting",
			"launch", "mpi/coll", "pml"),
	},
	{dir: "mpi/coll", imports: []string{"pml"}, deny: pureDeny},
	{dir: "launch/pmi", deny: pureDeny},
	{dir: "launch", imports: []string{"internal/bounded", "launch/pmi"}},
	{
		// Examples must not import internal packages, because the module of a user cannot import
		// them.
		dir: "examples/...",
		imports: []string{
			".", "btl/...", "fabric/...", "frag", "hotel", "mpi", "pml", "reliability",
		},
		libs: []string{"github.com/prometheus/client_golang"},
	},
	{
		dir: "cmd/btlbench/plan", imports: []string{"fabric/impair", "internal/usage"},
		libs: []string{"github.com/agnivade/levenshtein"},
	},
	{
		dir: "cmd/btlbench/layers",
		imports: with(leaves, "btl", "btl/runner", "cmd/btlbench/plan", "fabric", "fabric/impair",
			"frag", "internal/report", "internal/waiting"),
		libs: []string{"github.com/HdrHistogram/hdrhistogram-go", "golang.org/x/sys"},
	},
	{
		dir: "cmd/btlbench/session",
		imports: []string{
			"cmd/btlbench/layers", "cmd/btlbench/plan", "internal/bounded", "internal/plain",
			"internal/report",
		},
	},
	{
		dir: "cmd/btlbench/measure",
		imports: []string{
			"cmd/btlbench/layers", "cmd/btlbench/plan", "cmd/btlbench/session", "internal/plain",
			"internal/report",
		},
		libs: []string{"golang.org/x/term"},
	},
	{
		dir: "cmd/btlbench/page",
		imports: []string{
			"cmd/btlbench/layers", "cmd/btlbench/measure", "cmd/btlbench/plan", "internal/report",
		},
	},
	{
		dir: "cmd/btlbench/systems", imports: []string{"cmd/btlbench/plan"},
		libs: []string{"golang.org/x/sys"},
	},
	{
		dir:     "cmd/btlbench/compare",
		imports: []string{"cmd/btlbench/plan", "cmd/btlbench/systems", "internal/report"},
	},
	{
		dir: "cmd/...",
		imports: with(leaves, "btl/...", "cmd/...", "fabric/...", "frag", "hotel", "internal/bounded",
			"internal/plain", "internal/report", "internal/usage", "internal/waiting", "launch/...", "mpi",
			"reliability", "stream", "vnic/..."),
		libs: []string{
			"github.com/HdrHistogram/hdrhistogram-go", "github.com/agnivade/levenshtein",
			"github.com/alecthomas/kong", "github.com/fsnotify/fsnotify",
			"github.com/gopacket/gopacket", "github.com/jedib0t/go-pretty/v6",
			"github.com/prometheus/client_golang", "github.com/schollz/progressbar/v3",
			"github.com/vishvananda/netlink", "golang.org/x/sys", "golang.org/x/term", "golang.org/x/text",
		},
	},
	{dir: "test/...", imports: []string{"..."}, libs: []string{"..."}},
}

// testOnly lists packages of this module that only tests may import.
var testOnly = []string{"test/...", "fabric/fabrictest", "internal/testenv", "internal/testnet"}

func with(list []string, more ...string) []string { return append(slices.Clone(list), more...) }

func without(list []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == one })
}

// policyOf returns the entry of the variable "policies" that applies to a directory, and true. If
// no entry matches the directory, policyOf returns false.
func policyOf(dir string) (policy, bool) {
	for _, p := range policies {
		if covers(p.dir, dir) {
			return p, true
		}
	}
	return policy{}, false
}

// The function "covers" reports whether a pattern (which may end in "/...") matches a directory or
// an import path.
func covers(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	prefix, below := strings.CutSuffix(pattern, "/...")
	return name == prefix || below && strings.HasPrefix(name, prefix+"/")
}

func coversAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, name) })
}

// isTest reports whether a file is test code. The rules for clocks, output and function lengths do
// not apply to test code.
func isTest(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.Contains("/"+name, "/testdata/") ||
		coversAny(testOnly, path.Dir(name))
}

func isProgram(name string) bool {
	return coversAny([]string{"cmd/...", "examples/...", "internal/report", "test/..."},
		path.Dir(name))
}

func isProvider(dir string) bool { return dir != "fabric" && covers("fabric/...", dir) }

// mayReadClock reports whether a file may read the real clock, or sleep. Library code may read the
// real clock or sleep only in a few packages, and in files with certain names.
func mayReadClock(name string) bool {
	if isTest(name) || isProgram(name) {
		return true
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	return dir == "btl/runner" || dir == "btl/call" || dir == "btl/conn" || dir == "." ||
		dir == "internal/bounded" ||
		dir == "stream" && strings.HasPrefix(base, "run") ||
		(dir == "launch" || dir == "mpi" || dir == "internal/park") && strings.HasPrefix(base, "wait") ||
		isProvider(dir) && (strings.HasPrefix(base, "clock") || strings.HasPrefix(base, "wait"))
}

// mayStartGoroutines reports whether a file may contain a go statement. The transport (frag, hotel,
// reliability, btl) must not start goroutines. The simulator fabric/sim must not start goroutines
// either, because goroutines would make the simulator non-deterministic.
func mayStartGoroutines(name string) bool {
	if isTest(name) || isProgram(name) {
		return true
	}
	dir, base := path.Split(name)
	dir = path.Clean(dir)
	return dir == "btl/runner" || dir == "btl/call" || dir == "btl/conn" || dir == "btl/queue" ||
		dir == "." || dir == "internal/bounded" || dir == "stream" && strings.HasPrefix(base, "run") ||
		dir == "mpi" && strings.HasPrefix(base, "wait") ||
		dir != "fabric/sim" && isProvider(dir)
}

// mayYield reports whether a file may call the given function (how), which yields the CPU. A
// polling loop must yield the CPU only by calling the functions of internal/waiting. In btl/runner,
// mpi and the examples, code may call runtime.Gosched, so that a waiting goroutine can run.
func mayYield(name, how string) bool {
	dir := path.Dir(name)
	return isTest(name) || dir == "internal/waiting" || how == "Gosched" &&
		(dir == "btl/runner" || dir == "mpi" || covers("examples/...", dir))
}

// btlDir is the directory of package btl. Additional rules apply to the files of package btl.
const btlDir = "btl"

// insideDirs lists the directories to which the rules for packet headers and for the sizes of
// structs apply.
var insideDirs = []string{btlDir, "btl/internal/peer", "btl/internal/receive"}

// headerRooms lists functions that write or decode packet headers. In the packages of insideDirs,
// only files whose names match the given pattern may call the listed functions.
var headerRooms = []struct {
	file, does string
	calls      []string
}{
	{"write_*.go", "writes headers", []string{
		"Encode", "EncodePing", "EncodeReject", "PutFrag", "PutPart", "Write", "SetAck", "SetNumber",
		"ClearAck",
	}},
	{"read_headers.go", "reads headers", []string{
		"Decode", "DecodeOver", "DecodeHello", "DecodeSack", "DecodeSplit",
		"ForeignHello", "DecodeReject", "DecodeRetry",
	}},
}

// methodsMax is the largest number of methods that a type of the library may have. packageLinesMax
// is the largest number of lines, without tests, of a package in the directory btl or in a
// directory below btl.
const (
	methodsMax      = 60
	packageLinesMax = 7000
)

// linesToday holds the limit of each package for which packageLinesMax is not the limit.
var linesToday = map[string]int{"btl": 2890}

const structFieldsMax = 25

// tunables lists structs of settings in package btl. The limit structFieldsMax does not apply to
// the structs in the list "tunables".
var tunables = []string{"Config"}

// btlFloors divides the files of package btl into layers, from the API at the top to the basic
// types at the bottom.
var btlFloors = [][]string{
	{"hooks.go", "module.go", "progress.go", "ready.go", "check.go"},
	{
		"admission.go", "completions.go", "dial.go", "keep.go", "polling.go", "region.go", "remote.go",
		"send.go",
	},
	{"clock.go", "endpoint.go", "fragment.go"},
	{"config.go", "errors.go", "params.go", "stats.go", "strings.go"},
}

// arrowsUp lists the exceptions to the rule of layers, which are permitted calls from a file in a
// lower layer to a file in a higher layer.
var arrowsUp = []arrow{}

// commonNames lists names of methods that exist both in package btl and in packages that are not
// btl.
var commonNames = []string{
	"Accept", "Admit", "All", "Check", "Close", "Defer", "End", "Enter", "Name", "Now", "Open",
	"Random",
	"Refuse", "Wait", "Wake", "label", "len",
}
