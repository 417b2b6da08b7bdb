package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"gobtl/btl"
)

// TestUsageErrors holds that mistakes on the command line are one line, and status 2.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "expected one of"},
		{"frobnicate", "unexpected argument"},
		{"pair --siz 8", "did you mean"},
		{"pair --size 8Q", `"8Q" is no size`},
		{"pair --size 5G", "beyond the limit"},
		{"pair --test latency", `unknown test "latency"`},
		{"pair --layer cooked", `"cooked"`},
		{"pair --format xml", `"xml"`},
		{"pair --duration fast", "fast"},
		{"pair --duration=-1s", "must be positive"},
		{"pair --duration -1s", "--duration must not be negative: -1s"},
		{"pair --duration 0", "--duration: must not be 0"},
		{"pair --duration 0s --iterations 5", "--duration: must not be 0"},
		{"run host:1 --iterations 0", "--iterations: must not be 0"},
		{"pair --places 0", "--places: must not be 0"},
		{"rate --mtu 0", "--mtu: must not be 0"},
		{"pair --size -1", "--size must not be negative: -1 ("},
		{"pair --size", "--size needs a value ("},
		{"pair --size --verify", "--size needs a value, and --verify is a flag"},
		{"pair --duration 1s --iterations 5", "exclude each other"},
		{"pair --iterations=-5", "--iterations"},
		{"pair --rounds 0", "--rounds: must not be 0"},
		{"pair --rounds 1001", "--rounds must be"},
		{"pair -P 0", "--parallel: must not be 0"},
		{"pair -P 65", "--parallel must be 1 to 64"},
		{"pair -P 4 --iterations 3 --rounds 1", "each of --parallel needs one"},
		{"pair --reverse --bidir", "--reverse and --bidir exclude each other"},
		{"pair --reverse --test lat", "--reverse is for bw"},
		{"rate --bidir", "--bidir is for bw"},
		{"pair --rate 0", "--rate: "},
		{"pair -b 1Q", `"1Q" is no rate`},
		{"pair --bitrate 20T", "bits a second from 1K to 10T"},
		{"pair --rate 1G --test lat,rate", "--rate is for bw, bibw and bw_reverse"},
		{"pair --cpus 0,1,2,3 -P 1", "two are needed"},
		{"serve --clients 0", "--clients must be 1 to 256"},
		{"serve --memory 8G", "beyond the limit of 4294967295 bytes"},
		{"pair --hdr f --test bw", "--hdr is for tests of latency"},
		{"pair -i 0", "--interval: must not be 0"},
		{"pair -i 10ms", "--interval must be 100ms to 1h"},
		{"pair -i soon", `"soon" is no time`},
		{"pair -i 1 --format csv", "--interval is for --format text and json"},
		{"pair --json-stream --format json", "--json-stream and --format exclude each other"},
		{"pair --window 0", "--window must be"},
		{"pair --window 65537", "--window must be"},
		{"pair --window 8,x", "--window must be"},
		{"pair --load 0%", `"0%" is no load`},
		{"pair --load 101%", `"101%" is no load`},
		{"pair --load 50", `"50" is no load`},
		{"pair --load-size 0", "--load-size must be 1 to 32M"},
		{"pair --load-size 1G", "--load-size must be 1 to 32M"},
		{"pair --test bw --gap 1s", "--gap is for lat, put_lat and notice"},
		{"rate --gap 1s", "--gap is for lat, put_lat and notice"},
		{"pair --test bw --places 4", "--places is for put_bw and get_bw"},
		{"pair --test put_bw --places=-1", "--places must be"},
		{"pair --test get_bw --places 4 --verify", "exclude each other"},
		{"pair --offload", "--offload needs --provider ofi/udp"},
		{"pair --offload --provider udp", "--offload needs --provider ofi/udp"},
		{"rate --window 0", "--window must be"},
		{"pair --mtu=-1", "is no size"},
		{"pair --warmup x", "neither a number"},
		{"pair --cpus a", "no list of CPUs"},
		{"pair --cpus 0,1,2", "two are needed"},
		{"pair --impair loss=200%", "--impair"},
		{"pair --impair los=1%", "--impair"},
		{"pair --set x", "write NAME=VALUE"},
		{"pair --peer-timeout 1ms", "--peer-timeout must be"},
		{"pair --timeout 0s", "--timeout must be"},
		{"pair --metrics nonsense", "write HOST:PORT with"},
		{"run", "expected"},
		{"run nonsense:", "write HOST:PORT with"},
		{"run host:99999", "write HOST:PORT with"},
		{"run host:port", "write HOST:PORT with"},
		{"serve --listen nonsense", "write HOST:PORT with"},
		{"serve --set =5", "write NAME=VALUE"},
		{"params --set x", "write NAME=VALUE"},
		{"info --format csv", `"csv"`},
	} {
		status, stdout, stderr := runCLI(strings.Fields(c.args)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("btlbench %s: status %d, %q, want %q\n%s", c.args, status, stderr, c.want, stdout)
		}
		checkOneLine(t, stderr)
	}
}

// TestFailures holds that what turns out to be wrong only when it is tried is one line, and status
// 1.
func TestFailures(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	addr := busy.Addr().String()
	for _, c := range []struct{ args, want string }{
		{"run 127.0.0.1:1 --provider mem/local", "is \"btlbench serve\" running there?"},
		{"run no-such-host.invalid:4711 --timeout 2s", "cannot reach"},
		{"run " + addr + " --timeout 50ms", "does not answer as a btlbench server"},
		{"pair --provider mem/loca", `did you mean "mem/local"?`},
		{"pair --provider zzz", "btlbench info"},
		{"pair --provider mem/local --domain nowhere", `has no domain "nowhere"`},
		{"pair --provider mem/local --node 192.0.2.77", "--node 192.0.2.77 is not of this host"},
		{"pair --provider mem/local --node 127.0.0.1", `has no local address "127.0.0.1"`},
		{"pair --node 192.0.2.77", "which has "},
		{"serve --node 192.0.2.77", "--node 192.0.2.77 is not of this host, which has "},
		{"serve --node 127.0.0.1:70000", `"70000" is no port`},
		{"pair --domain nowhere", `has no domain "nowhere"`},
		{"serve --listen " + addr, "choose another address with --listen"},
		{"serve --listen 127.0.0.1:0 --metrics " + addr, "choose another address with --metrics"},
		{"info --provider zzz/y", "no provider matches"},
		{"info --domain lo,eth0", `no provider matches --domain "lo,eth0"; see`},
		{"info --provider udp --domain no", `no provider matches --provider "udp" --domain "no"; see`},
		{"params ack_dely", `did you mean "ack_delay"?`},
		{"params --set ack_dely=1us", `did you mean "ack_delay"?`},
		{"params --set ack_delay=soon", "--set ack_delay=soon"},
		{"params --set profile=nosuch", "nosuch"},
		{"params --set mtu_bytes=99999999", "mtu_bytes is 99999999, must be"},
	} {
		status, stdout, stderr := runCLI(strings.Fields(c.args)...)
		if status != exitFailure || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("btlbench %s: status %d, %q, want %q\n%s", c.args, status, stderr, c.want, stdout)
		}
		checkOneLine(t, stderr)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{
		"--help", "pair --help", "run --help", "serve --help", "info --help",
		"params --help", "rate --help",
	} {
		status, stdout, stderr := runCLI(strings.Fields(args)...)
		if status != exitOK || stderr != "" || !strings.HasPrefix(stdout, "Usage: btlbench") {
			t.Errorf("%s: status %d, %q\n%s", args, status, stderr, stdout)
		}
		if strings.Contains(stdout, "--quiet") {
			t.Errorf("%s shows a hidden flag", args)
		}
	}
}

// TestDefaultsOfCommands holds that a command's defaults are its own.
func TestDefaultsOfCommands(t *testing.T) {
	for _, c := range []struct{ command, tests, layer string }{
		{"pair", "lat,bw", "btl"}, {"run", "lat,bw", "btl"}, {"rate", "rate", "both"},
	} {
		_, stdout, _ := runCLI(c.command, "--help")
		text := strings.Join(strings.Fields(stdout), " ")
		for _, want := range []string{
			"commas, or all. Default: " + c.tests + ".", "with their ratio. Default: " + c.layer + ".",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", c.command, want, stdout)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	status, stdout, stderr := runCLI("version")
	if status != exitOK || stderr != "" || !strings.HasPrefix(stdout, "btlbench ") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

func TestInfo(t *testing.T) {
	status, stdout, stderr := runCLI("info", "--provider", "mem/local", "--format", "json")
	var d infoDocument
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || status != exitOK {
		t.Fatalf("status %d, %v, %q", status, err, stderr)
	}
	if len(d.Providers) != 1 || d.Providers[0].Provider != "mem/local" ||
		d.Providers[0].MTUBytes == 0 || len(d.Providers[0].Attrs) == 0 {
		t.Errorf("%+v", d)
	}
	if d.Providers[0].Default {
		t.Error("a network for tests is the default")
	}
	for _, args := range [][]string{{"info"}, {"info", "-v"}, {"info", "--provider", "mem/"}} {
		status, stdout, stderr := runCLI(args...)
		if status != exitOK || stderr != "" || !strings.Contains(stdout, "mem/local") {
			t.Errorf("%v: status %d, %q\n%s", args, status, stderr, stdout)
		}
	}
}

func TestParams(t *testing.T) {
	t.Setenv("GOBTL_ACK_DELAY", "70us")
	t.Setenv("GOBTL_ACK_EVERY", "8")
	status, stdout, stderr := runCLI("params", "--format", "json", "--set", "ack_every=9")
	var d struct{ Params []paramRecord }
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || status != exitOK {
		t.Fatalf("status %d, %v, %q", status, err, stderr)
	}
	if len(d.Params) != len(btl.Params()) {
		t.Errorf("%d parameters of %d", len(d.Params), len(btl.Params()))
	}
	for _, p := range d.Params {
		value, source := p.Default, "default"
		switch p.Name {
		case "ack_delay":
			value, source = "70µs", "env"
		case "ack_every":
			value, source = "9", "flag"
		}
		if p.Value != value || p.Source != source || p.Help == "" ||
			p.Env != "GOBTL_"+strings.ToUpper(p.Name) {
			t.Errorf("%+v", p)
		}
	}
	status, stdout, _ = runCLI("params", "ack_delay")
	if status != exitOK || !strings.Contains(stdout, "70µs") || strings.Contains(stdout, "ack_every") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	status, stdout, _ = runCLI("params")
	for line := range strings.SplitSeq(stdout, "\n") {
		if width := utf8.RuneCountInString(line); status != exitOK || width > 80 {
			t.Errorf("status %d, %d columns: %s", status, width, line)
		}
	}
	t.Setenv("GOBTL_ACK_DELLAY", "1us")
	if status, _, stderr := runCLI("params"); status != exitFailure {
		t.Errorf("a misspelt environment variable: status %d, %q", status, stderr)
	}
}

func TestNextPort(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:9100": "127.0.0.1:9101", "[::1]:0": "[::1]:0", ":65535": ":0",
	} {
		if got, err := nextPort(addr); err != nil || got != want {
			t.Errorf("%s: %s, %v", addr, got, err)
		}
	}
}
