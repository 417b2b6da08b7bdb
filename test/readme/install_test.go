package readme

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

// How many blocks the README has in its sections "Hello" and "Install".
const (
	helloBlocks   = 2
	installBlocks = 2
)

// goFlags are for builds of a tree whose owner may be another user.
const goFlags = "GOFLAGS=-buildvcs=false -trimpath"

// patient is the environment of programs that must work on a busy machine.
var patient = []string{goFlags, "GOBTL_HANDSHAKE_TIMEOUT=1m", "GOBTL_PEER_TIMEOUT=1m"}

// page has the ways to install.
const page = "docs/how-to/installing.md"

// stranger is the folder of a module beside a link to the tree, as the README wants it.
func stranger(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the README's programs use the provider udp, which is for Linux")
	}
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := os.Symlink(tree, filepath.Join(dir, "gobtl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	sh(t, own, "go mod init example.org/own")
	return own
}

// sh runs a script in a folder, as a stranger without cgo.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command(testenv.Need(t, "bash", "bash"), "-euc", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOSUMDB=off", goFlags,
		"CGO_ENABLED=0", "GOWORK=", "GOBIN="+filepath.Join(dir, "bin"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, out)
	}
	return string(out)
}

// program is a main package around a block of the README.
func program(block, after string) string {
	imports := []string{`"gobtl"`}
	for _, name := range []string{"context", "fmt"} {
		if strings.Contains(block+after, name+".") {
			imports = append(imports, `"`+name+`"`)
		}
	}
	return "package main\n\nimport (\n" + strings.Join(imports, "\n") + "\n)\n\nfunc main() {\n" +
		block + "\nif err != nil { panic(err) }\n" + after + "\n}\n"
}

// writeHello writes the README's two programs, with an address of this host in the place of the
// README's.
func writeHello(t *testing.T, dir, address string) {
	t.Helper()
	parts := blocks(read(t, "README.md"), "Hello", "go")
	if len(parts) != helloBlocks {
		t.Fatalf("%d blocks in the section Hello", len(parts))
	}
	server := program(parts[0], `fmt.Println("ready"); select {}`)
	client := program("ctx := context.Background()\n"+parts[1], `fmt.Printf("%s", answer)`)
	for name, text := range map[string]string{
		"server": strings.Replace(server, `":4000"`, `"`+address+`"`, 1),
		"client": strings.Replace(client, `"server:4000"`, `"`+address+`"`, 1),
	} {
		if !strings.Contains(text, address) {
			t.Fatalf("the README's %s has another address than expected", name)
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "main.go"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tried counts the pairs of ports that freeAddress has tried.
var tried atomic.Int64

// freeAddress is an address of loopback at which nobody listens, nor at the port behind it. The
// kernel gives none of these ports to a program that asks for any port. Test programs that run at
// the same time begin at different ports.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, pairs = 10000, 11000 // below the ports that the kernel chooses (ip_local_port_range)
	for range pairs {
		port := first + 2*((os.Getpid()*64+int(tried.Add(1)))%pairs)
		if free(port) && free(port+1) {
			return fmt.Sprint("127.0.0.1:", port)
		}
	}
	t.Fatal("no two ports in a row are free")
	return ""
}

// free says whether nobody listens at a port of loopback.
func free(port int) bool {
	at := fmt.Sprint("127.0.0.1:", port)
	udp, err := net.ListenPacket("udp4", at)
	if err != nil {
		return false
	}
	defer udp.Close()
	tcp, err := net.Listen("tcp4", at)
	if err != nil {
		return false
	}
	defer tcp.Close()
	return true
}

// greet runs the two programs and returns what the client prints.
func greet(t *testing.T, dir string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	server := exec.CommandContext(ctx, filepath.Join(dir, "bin", "server"))
	server.Env = append(os.Environ(), patient...)
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait() // killed, so never nil
	}()
	if _, err := fmt.Fscan(stdout, new(string)); err != nil {
		t.Fatalf("the server is not ready: %v", err)
	}
	client := exec.CommandContext(ctx, filepath.Join(dir, "bin", "client"))
	client.Env = append(os.Environ(), patient...)
	out, err := client.CombinedOutput()
	if err != nil {
		t.Fatalf("the client: %v\n%s", err, out)
	}
	return string(out)
}

// block is the only one of a section.
func block(t *testing.T, file, section string) string {
	t.Helper()
	found := blocks(read(t, file), section, "sh")
	if len(found) != 1 {
		t.Fatalf("%s, %s: %d blocks, want 1", file, section, len(found))
	}
	return found[0]
}

// TestInstall takes the tree in each way that the page names.
func TestInstall(t *testing.T) {
	t.Parallel()
	replace := block(t, page, "A replace line")
	for name, tc := range map[string]struct{ script, left string }{
		"replace":   {replace, "go.sum"},
		"workspace": {block(t, page, "A workspace"), "go.work"},
		"vendor":    {replace + block(t, page, "Vendoring"), "vendor/gobtl/node.go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := stranger(t)
			writeHello(t, dir, freeAddress(t))
			sh(t, dir, tc.script)
			if _, err := os.Stat(filepath.Join(dir, tc.left)); err != nil {
				t.Error(err)
			}
			if name == "vendor" { // It needs the tree no longer.
				if err := os.Remove(filepath.Join(filepath.Dir(dir), "gobtl")); err != nil {
					t.Fatal(err)
				}
			}
			sh(t, dir, "mkdir bin; go build -o bin/ ./server ./client")
			if got := greet(t, dir); got != "hello Ada" {
				t.Errorf("the client prints %q", got)
			}
		})
	}
}

// TestInstallCommands installs the commands as the page says.
func TestInstallCommands(t *testing.T) {
	t.Parallel()
	dir := stranger(t)
	sh(t, dir, "cd ../gobtl\n"+block(t, page, "The programs"))
	list, err := os.ReadDir(filepath.Join(root, "cmd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if out := sh(t, dir, "bin/"+c.Name()+" --help"); !strings.Contains(out, "Usage: "+c.Name()) {
			t.Errorf("%s --help:\n%s", c.Name(), out)
		}
	}
}

// TestSameCommands: the README and the page name the same commands.
func TestSameCommands(t *testing.T) {
	t.Parallel()
	got := strings.Join(blocks(read(t, "README.md"), "Install", "sh"), "")
	want := block(t, page, "A replace line") + block(t, page, "The programs")
	if got != want {
		t.Errorf("the README has\n%s\nand %s\n%s", got, page, want)
	}
}
