//go:build linux

package stream

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/test/netns"
)

// named runs the program where the name "twofold" has two addresses, the first of them IPv6.
func named(t *testing.T, args ...string) *process {
	t.Helper()
	unshare := testenv.Need(t, "unshare", "util-linux")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hosts"), []byte("::1 twofold\n127.0.0.1 twofold\n"))
	const script = `mount --bind hosts /etc/hosts && exec "$@"`
	cmd := exec.Command(unshare, append([]string{"-m", "sh", "-c", script, "sh", program}, args...)...)
	cmd.Dir = dir
	return run(t, cmd)
}

// TestPlaces: the datagrams go between the addresses of the meeting that has succeeded, where a
// name has several addresses, or the one that listens does so at all of its own.
func TestPlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Missing(t, "needs root for an /etc/hosts of its own")
	}
	for _, c := range []struct{ listen, connect string }{
		{"127.0.0.1:0", "twofold"},
		{"[::1]:0", "twofold"},
		{":0", "twofold"},
		{":0", "127.0.0.1"},
		{":0", "::1"},
		{"[::]:0", "127.0.0.1"},
	} {
		for _, sends := range []bool{false, true} {
			role, other := []string{"-t5"}, []string{"-t5", "-s"}
			if sends {
				role, other = other, role
			}
			rx := start(t, t.TempDir(), append(role, "--listen", c.listen)...)
			_, port, err := net.SplitHostPort(rx.listening())
			if err != nil {
				t.Fatal(err)
			}
			tx := named(t, append(other, "--connect", net.JoinHostPort(c.connect, port))...)
			for _, p := range []*process{rx, tx} {
				if status := p.wait(); status != 0 {
					t.Errorf("%+v, %v: status %d: %s", c, sends, status, p.stderr.String())
				}
			}
		}
	}
}

// TestSecondNetwork: a peer comes by the second network of a host that listens at all addresses.
// Others who came before, by the first one, have not chosen for it: a stranger, and another
// receiver, which is told why it is refused.
func TestSecondNetwork(t *testing.T) {
	lab := netns.New(t)
	a, b, c := lab.Host("a"), lab.Host("b"), lab.Host("c")
	first, _ := lab.Cable(b, a, 1500)
	second, _ := lab.Cable(b, c, 1500)
	cmd := b.Command(program, "--listen", ":0", "-t5")
	cmd.Dir = t.TempDir()
	rx := run(t, cmd)
	_, port, err := net.SplitHostPort(rx.listening())
	if err != nil {
		t.Fatal(err)
	}
	a.Do(func() {
		conn, err := net.Dial("tcp", net.JoinHostPort(first.V4.String(), port))
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprintln(conn, "GET / HTTP/1.0")
		conn.Close()
	})
	cmd = a.Command(program, "-t5", "--connect", net.JoinHostPort(first.V4.String(), port))
	cmd.Dir = t.TempDir()
	again := run(t, cmd)
	if status := again.wait(); status == 0 || !strings.Contains(again.stderr.String(), "a receiver") {
		t.Errorf("a second receiver: status %d, %s", status, again.stderr.String())
	}
	cmd = c.Command(program, "-s", "-t5", "--connect", net.JoinHostPort(second.V4.String(), port))
	cmd.Dir = t.TempDir()
	tx := run(t, cmd)
	tx.ok()
	rx.ok()
}

// TestLinkLocal: both sides have link-local addresses alone, of devices with different names.
func TestLinkLocal(t *testing.T) {
	lab := netns.New(t)
	a, b := lab.Host("a"), lab.Host("b")
	near, far := lab.Cable(a, b, 1500)
	b.IP("link set "+far.Dev+" down", "link set "+far.Dev+" name net7", "link set net7 up",
		"addr flush dev net7", fmt.Sprintf("addr add %s/64 dev net7 nodad", far.LinkLocal))
	a.IP("addr flush dev "+near.Dev,
		fmt.Sprintf("addr add %s/64 dev %s nodad", near.LinkLocal, near.Dev))
	for _, listen := range []string{":0", "[" + far.LinkLocal.String() + "%net7]:0"} {
		cmd := b.Command(program, "--listen", listen, "-t5")
		cmd.Dir = t.TempDir()
		rx := run(t, cmd)
		_, port, err := net.SplitHostPort(rx.listening())
		if err != nil {
			t.Fatal(err)
		}
		to := net.JoinHostPort(far.LinkLocal.WithZone(near.Dev).String(), port)
		cmd = a.Command(program, "-s", "-t5", "--connect", to)
		cmd.Dir = t.TempDir()
		tx := run(t, cmd)
		for _, p := range []*process{rx, tx} {
			if status := p.wait(); status != 0 {
				t.Errorf("%s, %s: status %d: %s", listen, to, status, p.stderr.String())
			}
		}
	}
}

// TestSaveTried: what keeps files from being saved is told before the meeting; what comes in the
// way later keeps those behind it from nothing.
func TestSaveTried(t *testing.T) {
	for _, c := range []struct{ args, reason string }{
		{"-f missing/out", "missing"},
		{"-f taken", "taken.2 is a directory"},
		{"--record dir", "dir is a directory"},
		{"--missing dir", "dir is a directory"},
	} {
		dir := t.TempDir()
		for _, name := range []string{"taken.2", "dir"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		rx := start(t, dir, append(strings.Fields(c.args), "-b4", "--listen", "127.0.0.1:0")...)
		if status := rx.wait(); status != 1 || !strings.Contains(rx.stderr.String(), c.reason) ||
			strings.Contains(rx.stderr.String(), "listening") {
			t.Errorf("%s: status %d: %s", c.args, status, rx.stderr.String())
		}
	}
	dir := t.TempDir()
	rx := start(t, dir, "-b4", "-f", "out", "--listen", "127.0.0.1:0")
	address := rx.listening()
	if err := os.Mkdir(filepath.Join(dir, "out.1"), 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, t.TempDir(), "-b4", "-s", "--connect", address).ok()
	if status := rx.wait(); status != 1 || !strings.Contains(rx.stderr.String(), "out.1") {
		t.Errorf("status %d: %s", status, rx.stderr.String())
	}
	for _, i := range []int{0, 2, 3} {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("out.%d", i))); err != nil {
			t.Error(err)
		}
	}
	if torn := tornFiles(t, dir); len(torn) > 0 {
		t.Errorf("torn: %v", torn)
	}
}
