package launch

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"gobtl/internal/testenv"
)

// hostNameAsked has a test binary tell its host's name.
const hostNameAsked = "GOBTL_TEST_HOST_NAME"

// Two hosts of one name, here two networks, are two; two processes of one host are on one.
func TestHostName(t *testing.T) {
	if os.Getenv(hostNameAsked) != "" {
		_, _ = os.Stderr.Write(HostName())
		return
	}
	if os.Geteuid() != 0 {
		testenv.Missing(t, "needs root, to make a network namespace")
	}
	tell := func(attr *syscall.SysProcAttr) []byte {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestHostName$")
		cmd.Env = append(os.Environ(), hostNameAsked+"=1")
		cmd.SysProcAttr = attr
		var name bytes.Buffer
		cmd.Stderr = &name
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		return name.Bytes()
	}
	here, there := tell(nil), tell(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET})
	if mine := HostName(); !bytes.Equal(here, mine) || bytes.Equal(there, mine) {
		t.Errorf("this process is on %q, another on %q, one in another network on %q", mine, here, there)
	}
	nodes := numberHosts([][]byte{here, there, here})
	if nodes[0] != nodes[2] || nodes[0] == nodes[1] {
		t.Errorf("nodes %v", nodes)
	}
}
