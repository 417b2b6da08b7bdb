package emfile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gobtl/vnic"
)

const whole = `
name = "lab"
lease = "3s"
[[host]]
name = "a"
lid = 1
[[host]]
name = "b"
lid = 2
[[switch]]
name = "blue"
id = 5
mtu = 9000
pkey = 0x8001
carrier = "fragment"
learning = true
flood = true
suppress = true
reported = false
ageing_seconds = 60
learned_max = 100
group_rate = 50
sc = 3
pcp_to_sc = [0, 1, 2, 3, 4, 5, 6, 7]
default = ["b"]
[[switch.port]]
host = "a"
[[switch.port]]
host = "b"
port = 9
mac = "02:00:00:00:00:07"
macs = ["02:00:00:00:00:08"]
drop = true
[[switch.mac]]
mac = "00:aa:00:00:00:01"
host = "a"
`

func TestParse(t *testing.T) {
	f, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	s := &f.Plan.Switches[0]
	want := vnic.Options{
		Carrier: vnic.CarrierFragment, Learning: true, Flood: true, Suppress: true, AgeingSeconds: 60,
		LearnedMax: 100, GroupRate: 50,
	}
	if f.Name != "lab" || f.Lease != 3*time.Second || s.Options != want || s.Reported ||
		s.PKey != 0x8001 ||
		s.SC != 3 || s.SCGroup != 3 || s.PCPToSCGroup[7] != 7 || s.Ports[0].Vport != 1 ||
		s.Ports[0].MAC != vnic.MACFor(5, 1) || s.Ports[1].Vport != 9 || !s.Ports[1].Drop ||
		s.Ports[1].MACs[0] != 0x020000000008 || s.MACs[0].Host != "a" || s.Default[0] != "b" {
		t.Errorf("%+v\n%+v", f, s)
	}
}

// TestMistakes: each is told with its place.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"mtu = 9000", "mtuu = 9000", "unknown key switch.mtuu"},
		{"mtu = 9000", "mtu = = 9000", "line 13"},
		{"mtu = 9000", "mtu = 70000", "line 13"},
		{"mtu = 9000", "mtu = 20000", "mtu is 20000"},
		{`"fragment"`, `"pigeon"`, `carrier is "pigeon"`},
		{"6, 7]", "6]", "has 7 values"},
		{"02:00:00:00:00:07", "02:00:00:00:07", "no MAC address"},
		{`name = "lab"`, `name = "the lab"`, "name:"},
		{`lease = "3s"`, `lease = "2h"`, "lease is 2h0m0s"},
		{`lease = "3s"`, `lease = "99ms"`, "lease is 99ms"},
		{"lid = 2", "lid = 1", "same lid"},
	} {
		_, err := Parse([]byte(strings.Replace(whole, c.from, c.to, 1)))
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}

// FuzzParse: no text makes it panic, and what is accepted is complete.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := file.Plan.Complete(); err != nil {
			t.Fatalf("complete, and then not: %v", err)
		}
	})
}
