//go:build unix

package job

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"gobtl/launch/pmi"
)

// runBad runs three ranks, of which rank 1 does something bad. The other ranks go on until rank 1
// has ended. It returns what the ranks and btlrun have written.
func runBad(t *testing.T, bad string) (said, remarks string) {
	t.Helper()
	script := "if [ $PMI_RANK = 1 ]; then echo $$ >id; " + bad + "; else n=0; " +
		"while [ ! -s id ] || kill -0 $(cat id) && [ $n -lt 300 ]; do sleep .1; n=$((n+1)); done; " +
		"echo rank $PMI_RANK lives; fi 2>/dev/null"
	var out, errs bytes.Buffer
	_, err := Run(Options{
		Size: 3, Hosts: []Host{{Name: "here", Slots: pmi.RanksMax, Local: true}},
		Args: []string{"bash", "-c", script}, Env: os.Environ(), Dir: t.TempDir(),
		Stdout: &out, Stderr: &errs, Grace: time.Second, StartTimeout: time.Minute, KeepGoing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, rank := range []string{"0", "2"} {
		if !strings.Contains(out.String(), "rank "+rank+" lives") {
			t.Errorf("%q: rank %s was ended with rank 1: %s", bad, rank, &errs)
		}
	}
	return out.String(), errs.String()
}

const pmiInit = "echo cmd=init pmi_version=1 pmi_subversion=1 >&3; cat <&3 >/dev/null & "

// With KeepGoing, a rank that violates the protocol of the launcher is killed alone, and the reason
// is told once.
func TestNonsenseOfOneRank(t *testing.T) {
	for bad, why := range map[string]string{
		"echo nonsense >&3":       "no pair",
		"echo cmd=barrier_in >&3": "barrier_in",
		pmiInit + "echo cmd=barrier_in >&3; echo cmd=get_maxes >&3": "get_maxes",
	} {
		said, remarks := runBad(t, bad+"; sleep 60; echo rank 1 lives")
		if strings.Contains(said, "rank 1") {
			t.Errorf("%q: rank 1 goes on", bad)
		}
		if strings.Count(remarks, "\n") != 1 || !strings.Contains(remarks, why) {
			t.Errorf("%q: btlrun writes %q, want one line with %s", bad, remarks, why)
		}
	}
}

// A rank that makes requests without a pause, however it spells them, does not end the other ranks
// of its host.
func TestRequestsOfOneRank(t *testing.T) {
	for _, line := range []string{"cmd=get_maxes", " cmd=get_maxes", "mcmd=spawn\nendcmd"} {
		runBad(t, pmiInit+"yes '"+line+"' | head -n 600 >&3; kill %1")
	}
}
