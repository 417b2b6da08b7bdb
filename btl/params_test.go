package btl

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/reliability"
)

// TestParamsCoverConfig checks that every field of Config is a parameter, except the numbers that
// belong to a profile.
func TestParamsCoverConfig(t *testing.T) {
	var c Config
	seen := map[uintptr]string{}
	for _, p := range Params() {
		if other := seen[reflect.ValueOf(p.field(&c)).Pointer()]; other != "" {
			t.Errorf("%s and %s are the same field", p.Name, other)
		}
		seen[reflect.ValueOf(p.field(&c)).Pointer()] = p.Name
		if p.Help == "" || p.Default == "" || p.Env() != "GOBTL_"+strings.ToUpper(p.Name) {
			t.Errorf("%s lacks help or default", p.Name)
		}
	}
	ofProfile := []string{
		"Adaptive", "ResendTimeoutMax", "DupAckHold", "ResendsPerPass", "ProbeTimeoutMin",
		"ResendTimeoutMin", "InitialWindow", "WithholdEvery",
		"limits", // have one value in every program
	}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			if slices.Contains(ofProfile, v.Type().Field(i).Name) {
				continue
			}
			if f.Kind() == reflect.Struct {
				walk(f)
			} else if f.Kind() != reflect.Func && seen[f.Addr().Pointer()] == "" {
				t.Errorf("field %s is no tunable", v.Type().Field(i).Name)
			}
		}
	}
	walk(reflect.ValueOf(&c).Elem())
}

func TestParamSetGet(t *testing.T) {
	var c Config
	for _, tc := range []struct{ name, value, want string }{
		{"ack_delay", "75us", "75µs"},
		{"recv_buffer_bytes", "-1", "-1"},
		{"recv_buffer_bytes", "208K", "212992"},
		{"fragment_bytes_max", "2G", "2147483648"},
		{"reassembly_bytes_max", "3g", "3221225472"},
		{"profile", "usnic", "usnic"},
	} {
		if err := c.Set(tc.name, tc.value); err != nil {
			t.Errorf("%s=%s: %v", tc.name, tc.value, err)
		}
		if got := c.Get(tc.name); got != tc.want {
			t.Errorf("%s=%s reads back as %s", tc.name, tc.value, got)
		}
	}
	for _, kv := range [][2]string{
		{"no_such", "1"},
		{"ack_delay", "50"},
		{"mtu_bytes", "1.5K"},
		{"mtu_bytes", ""},
		{"fragment_bytes_max", "5G"},
		{"fragment_bytes_max", "-1"},
		{"mtu_bytes", "9999999999999G"},
	} {
		if err := c.Set(kv[0], kv[1]); !errors.Is(err, ErrParam) {
			t.Errorf("%s=%s: %v", kv[0], kv[1], err)
		}
	}
}

func TestParamEnv(t *testing.T) {
	var c Config
	names, err := c.LoadEnv([]string{"HOME=/", "GOBTL_ACK_DELAY=10us", "GOBTL_TEST_SEED=4"})
	if err != nil || len(names) != 1 || c.Rules.AckDelay != 10*time.Microsecond {
		t.Errorf("loaded %v, %v; ACK delay %v", names, err, c.Rules.AckDelay)
	}
	if _, err := c.LoadEnv([]string{"GOBTL_ACK_DELY=10us"}); !errors.Is(err, ErrParam) {
		t.Errorf("a misspelt variable: %v", err)
	}
}

// TestProfileOfProvider: a provider that loses nothing and keeps the order gets the rules for that,
// unless other ones are asked for.
func TestProfileOfProvider(t *testing.T) {
	for _, tc := range []struct {
		reliable, ordered bool
		asked, want       string
	}{
		{false, false, "", "adaptive"},
		{true, false, "", "adaptive"},
		{true, true, "", "lossless"},
		{true, true, "usnic", "usnic"},
		{false, false, "usnic", "usnic"},
		{false, false, "lossless", "lossless"},
	} {
		info := fabric.Info{MTUBytes: 1472, Reliable: tc.reliable, Ordered: tc.ordered}
		c, err := Config{Profile: tc.asked}.WithDefaults(info)
		rules, _ := reliability.Profile(tc.want)
		if err != nil || c.Profile != tc.want || c.Rules != rules {
			t.Errorf("%+v: profile %q, rules %+v, %v", tc, c.Profile, c.Rules, err)
		}
	}
}

func TestConfigRanges(t *testing.T) {
	info := fabric.Info{MTUBytes: 1472}
	if _, err := (Config{}).WithDefaults(info); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"profile": "nonsense", "window_packets": "3", "resend_timeout": "1ns", "mtu_bytes": "100",
		"tiny_bytes": "10", "send_buffers": "1", "peers_max": "-1", "regions_max": "100000",
		"keep_alive": "2h", "ack_delay": "200ms",
	} {
		var c Config
		if err := c.Set(name, value); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WithDefaults(info); !errors.Is(err, ErrConfig) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

// TestConfigTimes checks that the error for a time has the units of the time and of its range.
func TestConfigTimes(t *testing.T) {
	for name, want := range map[string]string{
		"peer_timeout":  "peer_timeout is 1ms, must be 10ms to 1h0m0s",
		"away":          "away is 2h0m0s, must be 0s to 1h0m0s",
		"keep_alive":    "keep_alive is 2h0m0s, must be ",
		"close_timeout": "close_timeout is 2h0m0s, must be 1ms to",
	} {
		var c Config
		value := "2h"
		if name == "peer_timeout" {
			value = "1ms"
		}
		if err := c.Set(name, value); err != nil {
			t.Fatal(err)
		}
		_, err := c.WithDefaults(fabric.Info{MTUBytes: 1472})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want %q", name, value, err, want)
		}
	}
}

// TestConfigMTUBeyond: a size of datagrams that there is not is refused, and not taken for the
// provider's.
func TestConfigMTUBeyond(t *testing.T) {
	for _, asked := range []int{-1, 65508, 1 << 30} {
		_, err := Config{MTUBytes: asked}.WithDefaults(fabric.Info{MTUBytes: 1472})
		if !errors.Is(err, ErrConfig) {
			t.Errorf("%d bytes: %v", asked, err)
		}
	}
}

// TestConfigMTU takes the size of datagrams from providers: of one that carries more than a packet
// can say, whole cache lines.
func TestConfigMTU(t *testing.T) {
	for _, tc := range []struct{ provider, asked, want int }{
		{1472, 0, 1472},
		{65507, 0, 65507},
		{65508, 0, 65472},
		{1 << 20, 0, 65472},
		{1 << 20, 9000, 9000},
		{1472, 9000, 1472},
		{1 << 20, 1 << 20, 65472},
	} {
		info := fabric.Info{MTUBytes: tc.provider}
		c, err := Config{MTUBytes: tc.asked}.WithDefaults(info)
		if err != nil || c.MTUBytes != tc.want {
			t.Errorf("provider %d, asked %d: %d (%v), want %d", tc.provider, tc.asked, c.MTUBytes, err,
				tc.want)
		}
	}
}
