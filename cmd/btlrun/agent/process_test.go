//go:build unix

package agent

import (
	"testing"

	"gobtl/launch/pmi"
)

// Each line that the PMI server may answer counts as a request without a reply, however a rank
// spells it. So a rank has at most requestsMax of them.
func TestRequestsOfAnySpelling(t *testing.T) {
	for _, lines := range [][]string{
		{"cmd=get_maxes\n"},
		{" cmd=get_maxes\n"},
		{"mcmd=get_maxes\n"},
		{"mcmd=spawn\n", "nprocs=1\n", "cmd=get_maxes\n", "endcmd\n"},
		{" cmd=spawn a=b\n", "endcmd\n"},
	} {
		server, err := pmi.NewServer(pmi.Config{Size: 1, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Handle(0, []byte("cmd=init pmi_version=1 pmi_subversion=1\n")); err != nil {
			t.Fatal(err)
		}
		p := &process{asked: make(chan struct{}, requestsMax), stop: make(chan struct{})}
		replies := 0
		for range requestsMax {
			for _, line := range lines {
				p.mayAsk([]byte(line))
				said, err := server.Handle(0, []byte(line))
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				replies += len(said)
			}
		}
		if replies != requestsMax || len(p.asked) != replies {
			t.Errorf("%q: %d requests count, and have %d replies", lines, len(p.asked), replies)
		}
		close(p.stop)
		for _, line := range lines {
			if len(p.asked) == requestsMax && p.mayAsk([]byte(line)) {
				t.Errorf("%q: one request more than %d", line, requestsMax)
			}
			break
		}
	}
}
