package reliability

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestProfile(t *testing.T) {
	t.Parallel()
	for _, name := range Profiles() {
		rules, err := Profile(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := rules.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "Usnic", "usnic ", "fast"} {
		_, err := Profile(name)
		if !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), "usnic") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestUsnic checks the documented numbers of the profile usnic.
func TestUsnic(t *testing.T) {
	t.Parallel()
	want := Rules{
		WindowPackets:    4096,
		ResendTimeout:    100 * time.Millisecond,
		ResendTimeoutMax: 1600 * time.Millisecond,
		DupAckHold:       time.Millisecond,
		ResendsPerPass:   16,
		AckDelay:         50 * time.Microsecond,
		AckEvery:         64,
	}
	if got, err := Profile("usnic"); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestLossless checks the differences between the profiles lossless and usnic.
func TestLossless(t *testing.T) {
	t.Parallel()
	want := Usnic()
	want.ResendTimeout, want.ResendTimeoutMax = 2*time.Second, 4*time.Second
	want.DupAckHold, want.AckEvery = time.Second, 1024
	if got, err := Profile("lossless"); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWithDefaults(t *testing.T) {
	t.Parallel()
	if got := (Rules{}).WithDefaults(Usnic()); got != Usnic() {
		t.Errorf("zero rules became %+v", got)
	}
	if got := quick().WithDefaults(Usnic()); got != quick() {
		t.Errorf("full rules became %+v", got)
	}
	// A time-out above the profile's maximum raises the maximum.
	got := Rules{ResendTimeout: time.Minute}.WithDefaults(Usnic())
	if got.ResendTimeoutMax != time.Minute || got.Validate() != nil {
		t.Errorf("%+v: %v", got, got.Validate())
	}
	got = Rules{WindowPackets: 8, AckEvery: 2}.WithDefaults(Usnic())
	want := Usnic()
	want.WindowPackets, want.AckEvery = 8, 2
	if got != want {
		t.Errorf("%+v", got)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		change func(r *Rules)
		good   bool
	}{
		{"as they are", func(*Rules) {}, true},
		{"window of one", func(r *Rules) { r.WindowPackets = 1 }, true},
		{"no window", func(r *Rules) { r.WindowPackets = 0 }, false},
		{"negative window", func(r *Rules) { r.WindowPackets = -8 }, false},
		{"window no power of two", func(r *Rules) { r.WindowPackets = 12 }, false},
		{"largest window", func(r *Rules) { r.WindowPackets = WindowMax }, true},
		{"window too large", func(r *Rules) { r.WindowPackets = 2 * WindowMax }, false},
		{"shortest time-out", func(r *Rules) { r.ResendTimeout, r.AckDelay = time.Microsecond, 0 }, true},
		{"time-out too short", func(r *Rules) { r.ResendTimeout, r.AckDelay = 999, 0 }, false},
		{"no time-out", func(r *Rules) { r.ResendTimeout = 0 }, false},
		{"negative time-out", func(r *Rules) { r.ResendTimeout = -time.Second }, false},
		{"no back-off", func(r *Rules) { r.ResendTimeoutMax = r.ResendTimeout }, true},
		{"maximum below", func(r *Rules) { r.ResendTimeoutMax = r.ResendTimeout - 1 }, false},
		{"no resends", func(r *Rules) { r.ResendsPerPass = 0 }, false},
		{"one resend per pass", func(r *Rules) { r.ResendsPerPass = 1 }, true},
		{"never an ACK", func(r *Rules) { r.AckEvery = 0 }, false},
		{"ACK each", func(r *Rules) { r.AckEvery = 1 }, true},
		{"no ACK delay", func(r *Rules) { r.AckDelay = 0 }, true},
		{"negative ACK delay", func(r *Rules) { r.AckDelay = -1 }, false},
		{"longest ACK delay", func(r *Rules) { r.AckDelay = r.ResendTimeout - 1 }, true},
		{"ACK after the time-out", func(r *Rules) { r.AckDelay = r.ResendTimeout }, false},
		{"no hold", func(r *Rules) { r.DupAckHold = 0 }, true},
		{"negative hold", func(r *Rules) { r.DupAckHold = -1 }, false},
		{"withholds most", func(r *Rules) { *r = Adaptive(); r.WithholdEvery = 16 }, true},
		{"withholds too many", func(r *Rules) { *r = Adaptive(); r.WithholdEvery = 15 }, false},
		{"withholds least", func(r *Rules) { *r = Adaptive(); r.WithholdEvery = 1 << 20 }, true},
		{"withholds too few", func(r *Rules) { *r = Adaptive(); r.WithholdEvery = 1<<20 + 1 }, false},
	}
	for _, c := range cases {
		rules := Usnic()
		c.change(&rules)
		err := rules.Validate()
		if c.good && err != nil || !c.good && !errors.Is(err, ErrRules) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
