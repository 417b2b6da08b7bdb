package usage

import (
	"regexp"
	"strings"
)

// For each program of this module, "habits" maps flags that users know from other programs to hints
// at the program's own flags.
var habits = map[string]map[string]string{
	"btlbench": { // iperf3, ucx_perftest, the OSU benchmarks
		"-s": `write "btlbench serve"`,
		"-c": `write "btlbench run HOST"`,
		"-p": `write "btlbench run HOST:PORT", or "btlbench serve --listen :PORT"`,
		"-n": "write --iterations N", "--iters": "write --iterations N",
		"-w": "write --window N: the number of messages that are not answered yet",
		"-u": "the kernel's UDP is the default provider: leave the flag out",
		"-l": "write --size SIZE", "--len": "write --size SIZE",
		"-m": "write --size SIZE", "--bind": "write --node ADDR", "-B": "write --node ADDR",
		"--port": `write "btlbench run HOST:PORT", or "btlbench serve --listen :PORT"`,
	},
	"mpibench": { // the OSU benchmarks
		"-i": "write --duration TIME: the time of each measurement",
		"-m": "write -s SIZE,SIZE: the sizes",
		"-n": `write "btlrun -n N mpibench"`,
	},
}

// unknownFlag matches the error text of kong for a flag that the program does not have.
var unknownFlag = regexp.MustCompile(`^unknown flag (-[^,\s]+)`)

// mpirunRanks is the error text for mpirun's flag -np, which btlrun parses as the flag -n with the
// value "p".
const mpirunRanks = `--np: "p" is not a whole number`

// habit replaces the error text for an unknown flag by a hint, if the flag is listed in the map
// "habits". If the flag is not in the map "habits", the function "habit" returns the error text
// unchanged. The argument "program" of the function "habit" is the program's name, optionally
// followed by the name of a command.
func habit(program, text string) string {
	name, _, _ := strings.Cut(program, " ")
	if name == "btlrun" && text == mpirunRanks {
		return "unknown flag -np: write -n N"
	}
	if found := unknownFlag.FindStringSubmatch(text); found != nil {
		if hint, ok := habits[name][found[1]]; ok {
			return "unknown flag " + found[1] + ": " + hint
		}
	}
	return text
}
