//go:build linux

package shm

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/testenv"
)

var (
	kills   = flag.Int("shm.kills", 30, "how often TestKilledPeer kills a peer")
	vandals = flag.Duration("shm.vandals", 0, "for how long TestVandal sends one vandal after another")
)

// childRole is the variable with the role of a child process of the test binary.
const childRole = "GOBTL_SHM_ROLE"

func TestMain(m *testing.M) {
	flag.Parse()
	if role := os.Getenv(childRole); role != "" {
		if err := child(role, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a peer in a process of its own, which sends until it is killed.
func child(role, to string) error {
	name, err := hex.DecodeString(to)
	if err != nil {
		return err
	}
	p, err := newPlayer()
	if err != nil {
		return err
	}
	addr, err := p.dom.Insert(name)
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(p.ep.Name()))
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for i := uint64(0); ; i++ {
		if err := p.send(addr, i, 16+rng.IntN(3000)); err != nil {
			return err
		}
		if role == "vandal" && i == 100 {
			return p.vandalize(rng)
		}
	}
}

// player is a domain with one endpoint that sends numbered datagrams, and checks them.
type player struct {
	dom  *domain
	ep   *endpoint
	free []fabric.Buf
	out  [64]fabric.Completion
	next map[uint64]uint64 // the next number, by sender
	id   uint64
	// idle, if not nil, is called whenever there is no room to send.
	idle func() error
}

func newPlayer() (*player, error) {
	d, err := openDomain(newInfo(0), fabric.DomainConfig{Buffers: 256, BufferBytes: 4096})
	if err != nil {
		return nil, err
	}
	e, err := d.OpenEndpoint(fabric.EndpointConfig{TxDepth: 64, RxDepth: 64})
	if err != nil {
		return nil, err
	}
	p := &player{dom: d.(*domain), ep: e.(*endpoint), next: map[uint64]uint64{}, id: rand.Uint64()}
	for b := range fabric.Buf(64) {
		p.free = append(p.free, 64+b)
		if _, err := e.Recv([]fabric.Buf{b}); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// send sends a datagram, and waits for room as long as necessary.
func (p *player) send(to fabric.Addr, number uint64, size int) error {
	for len(p.free) == 0 {
		if err := p.pause(); err != nil {
			return err
		}
	}
	// The buffer is taken at once, because poll adds other buffers while there is no room.
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	mem := p.dom.arena.Bytes(b)[:size]
	binary.LittleEndian.PutUint64(mem, p.id)
	binary.LittleEndian.PutUint64(mem[8:], number)
	for i := 16; i < size; i++ {
		mem[i] = byte(number + uint64(i))
	}
	for {
		_, err := p.ep.Post([]fabric.Send{{To: to, Buf: b, Len: uint32(size)}})
		if errors.Is(err, fabric.ErrAgain) {
			if err = p.pause(); err == nil {
				continue
			}
		}
		if err != nil || size <= p.ep.caps.InjectBytes {
			p.free = append(p.free, b)
		}
		return err
	}
}

// pause polls while there is no room.
func (p *player) pause() error {
	if p.idle != nil {
		if err := p.idle(); err != nil {
			return err
		}
	}
	_, err := p.poll()
	return err
}

// errAltered means that a datagram differs from the sent datagram.
var errAltered = errors.New("a datagram was altered, lost or doubled")

// poll polls, and returns how many datagrams came.
func (p *player) poll() (came int, err error) {
	n, err := p.ep.Poll(p.out[:])
	for _, c := range p.out[:n] {
		if c.Op == fabric.OpSend {
			p.free = append(p.free, c.Buf)
			if c.Errno != 0 {
				err = errors.Join(err, unix.Errno(c.Errno))
			}
			continue
		}
		came++
		err = errors.Join(err, p.look(p.dom.arena.Bytes(c.Buf)[:min(c.Len, 4096)]))
		_, again := p.ep.Recv([]fabric.Buf{c.Buf})
		err = errors.Join(err, again)
	}
	return came, err
}

func (p *player) look(mem []byte) error {
	if len(mem) < 16 {
		return fmt.Errorf("%w: %d bytes", errAltered, len(mem))
	}
	id, number := binary.LittleEndian.Uint64(mem), binary.LittleEndian.Uint64(mem[8:])
	if number != p.next[id] {
		return fmt.Errorf("%w: number %d of %x, want %d", errAltered, number, id, p.next[id])
	}
	p.next[id]++
	for i := 16; i < len(mem); i++ {
		if mem[i] != byte(number+uint64(i)) {
			return fmt.Errorf("%w: byte %d of %d", errAltered, i, number)
		}
	}
	return nil
}

// vandalize writes junk over all rings of the process, until the process has no rings.
func (p *player) vandalize(rng *rand.Rand) error {
	for rings := 1; rings > 0; {
		rings = 0
		for _, l := range p.dom.peers.peers[0].links {
			if l == nil || l.fd < 0 {
				continue
			}
			rings++
			for range 1000 {
				at := rng.IntN(len(l.ring.mem)/8) * 8
				word := rng.Uint64()
				if rng.IntN(2) == 0 {
					word = rng.Uint64N(mtuBytes + 2)
				}
				binary.NativeEndian.PutUint64(l.ring.mem[at:], word)
			}
			knock(l.fd)
		}
		p.dom.loop.tend() // notices that the peer has closed a ring
	}
	return nil
}

// start starts a child that sends to p, and returns the child and its name.
func (p *player) start(t *testing.T, role string) (*exec.Cmd, []byte) {
	t.Helper()
	cmd := exec.Command(os.Args[0], hex.EncodeToString(p.ep.Name()))
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	name, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, name
}

func open(t *testing.T) *player {
	t.Helper()
	p, err := newPlayer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.dom.Close() })
	return p
}

const patience = 20 * time.Second

func await(t *testing.T, what string, step func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !step(); {
		if time.Now().After(end) {
			t.Fatalf("still waiting after %v: %s", patience, what)
		}
	}
}

// TestNoRoom checks sends without room in the ring, both injected and larger ones. All datagrams
// arrive complete and in order, with a receiver that polls only when the sender can send no more.
func TestNoRoom(t *testing.T) {
	to, from := open(t), open(t)
	addr, err := from.dom.Insert(to.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	full := 0
	from.idle = func() error {
		if from.ep.unsent == 0 {
			return nil // only buffers are missing
		}
		full++
		_, err := to.poll()
		return err
	}
	const count = 20_000
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(count) {
		if err := from.send(addr, i, 16+rng.IntN(3000)); err != nil {
			t.Fatal(err)
		}
	}
	if full == 0 {
		t.Error("there was always room")
	}
	await(t, "the rest", func() bool {
		if _, err := from.poll(); err != nil {
			t.Fatal(err)
		}
		if _, err := to.poll(); err != nil {
			t.Fatal(err)
		}
		return to.next[from.id] == count
	})
	// Each buffer must be free exactly once.
	slices.Sort(from.free)
	free := len(from.free)
	if each := slices.Compact(from.free); free != 64 || len(each) != 64 {
		t.Errorf("%d buffers are free at the end, %d of them different, want 64", free, len(each))
	}
}

// TestKilledPeer repeatedly kills a process that sends and receives, at any moment. Arriving
// datagrams are complete and in order, sends to the process end with an error, its rings are
// unmapped, and no file stays in /dev/shm.
func TestKilledPeer(t *testing.T) {
	p := open(t)
	rng := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
	for round := range *kills {
		cmd, name := p.start(t, "sender")
		to, err := p.dom.Insert(name)
		if err != nil {
			t.Fatal(err)
		}
		mine := uint64(0)
		for end := time.Now().Add(time.Duration(rng.IntN(10_000)) * time.Microsecond); ; {
			if err := p.send(to, mine, 16); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			mine++
			if _, err := p.poll(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if time.Now().After(end) {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // says "killed"
		p.id = rng.Uint64()
		await(t, "the error of a send", func() bool {
			sendErr := p.send(to, 0, 16)
			_, err := p.poll()
			if err = errors.Join(err, sendErr); errors.Is(err, errAltered) {
				t.Fatalf("round %d: %v", round, err)
			}
			return err != nil
		})
		if err := p.dom.Remove(to); err != nil {
			t.Fatal(err)
		}
		await(t, "the rings to be given back", func() bool {
			if _, err := p.poll(); errors.Is(err, errAltered) {
				t.Fatalf("round %d: %v", round, err)
			}
			return p.dom.loop.inLinks+p.dom.loop.outLinks == 0
		})
		n, err := parseName(name, &p.dom.name)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the socket of a dead process to be removed", func() bool {
			_, err := os.Stat(n.socketPath())
			return errors.Is(err, os.ErrNotExist)
		})
	}
}

// TestVandal checks that a process that writes junk over its rings ends only its own connections,
// however many such processes come.
func TestVandal(t *testing.T) {
	p := open(t)
	p.start(t, "sender")
	await(t, "an honest peer", func() bool {
		_, err := p.poll()
		return len(p.next) > 0 || err != nil
	})
	begin, count := time.Now(), 0
	for ; count == 0 || time.Since(begin) < *vandals; count++ {
		cmd, _ := p.start(t, "vandal")
		sendAway(t, p, cmd)
	}
	t.Logf("%d vandals in %v", count, time.Since(begin))
}

// sendAway polls until a vandal has noticed its refusal, and honest peers were received.
func sendAway(t *testing.T, p *player, vandal *exec.Cmd) {
	t.Helper()
	left := make(chan error, 1)
	go func() { left <- vandal.Wait() }()
	honest, refused := 0, false
	for end := time.Now().Add(patience); !refused || len(p.ep.rings) != 1 || honest < 1000; {
		n, err := p.ep.Poll(p.out[:])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.out[:n] {
			mem := p.dom.arena.Bytes(c.Buf)[:min(c.Len, 4096)]
			if len(mem) >= 16 && binary.LittleEndian.Uint64(mem) != 0 && p.look(mem) == nil {
				honest++
			}
			if _, err := p.ep.Recv([]fabric.Buf{c.Buf}); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case err := <-left:
			if refused = true; err != nil {
				t.Fatalf("a vandal: %v", err)
			}
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("refused: %v, %d rings, %d datagrams of honest peers",
				refused, len(p.ep.rings), honest)
		}
	}
}

// TestStrangersAtTheDoor checks that a connection that passes no sealed ring is closed.
func TestStrangersAtTheDoor(t *testing.T) {
	for range 5 { // unreferenced files of earlier tests are closed by the garbage collector
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	p := open(t)
	memfd := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("test", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
		if err == nil {
			err = unix.Ftruncate(fd, size)
		}
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	const ringSize = headerBytes + ringBytesMin
	null, err := unix.Open("/dev/zero", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	hello := func(endpoint uint16) []byte {
		b := binary.LittleEndian.AppendUint64(nil, helloMagic)
		return binary.LittleEndian.AppendUint16(b, endpoint)
	}
	for _, tc := range []struct {
		what  string
		hello []byte
		fds   []int
	}{
		{"says nothing and leaves", nil, nil},
		{"no memory", hello(0), nil},
		{"no hello", []byte("GET / HTTP/1.1"), []int{memfd(ringSize, sealsOfRings)}},
		{"no such endpoint", hello(7), []int{memfd(ringSize, sealsOfRings)}},
		{"memory that can be cut off", hello(0), []int{memfd(ringSize, unix.F_SEAL_GROW)}},
		{"too small", hello(0), []int{memfd(headerBytes, sealsOfRings)}},
		{"no power of two", hello(0), []int{memfd(ringSize+4096, sealsOfRings)}},
		{"too large", hello(0), []int{memfd(headerBytes+2*ringBytesMax, sealsOfRings)}},
		{"no ring in it", hello(0), []int{memfd(ringSize, sealsOfRings)}},
		{"a device", hello(0), []int{null}},
		{"two descriptors", hello(0), []int{null, null}},
	} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: p.dom.name.socketPath()})
		}
		if err == nil && tc.hello != nil {
			err = unix.Sendmsg(fd, tc.hello, unix.UnixRights(tc.fds...), nil, 0)
		}
		if err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		if tc.hello == nil {
			unix.Close(fd)
		}
		before := openDescriptors(t)
		p.dom.loop.tend()
		p.dom.loop.tend()
		o := &p.dom.loop
		if o.inLinks != 0 || len(o.silent) != 0 || len(p.ep.rings) != 0 || len(o.perPID) != 0 {
			t.Errorf("%s: %d links", tc.what, o.inLinks)
		}
		for _, held := o.closers.held(nobody); held > 0; _, held = o.closers.held(nobody) {
			time.Sleep(time.Millisecond) // a goroutine closes the descriptors
		}
		if after := openDescriptors(t); after != before {
			t.Errorf("%s: %d descriptors, %d before", tc.what, after, before)
		}
		if tc.hello != nil {
			if n, err := unix.Read(fd, make([]byte, 1)); n > 0 {
				t.Errorf("%s: %d, %v, want the end", tc.what, n, err)
			}
			unix.Close(fd)
		}
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestTooManyFromOneProcess checks that one process cannot take the places of all other processes.
func TestTooManyFromOneProcess(t *testing.T) {
	p := open(t)
	for range 2 * linksPerProcess {
		mem, memfd, err := makeRing(ringBytesMin)
		if err != nil {
			t.Fatal(err)
		}
		r := sendRing{ring: newRing(mem)}
		r.format()
		to := p.dom.name // with the endpoint number 0
		fd, err := dial(&to, memfd)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(memfd)
		_ = unix.Munmap(mem)
		defer unix.Close(fd)
		p.dom.loop.tend()
	}
	if got := p.dom.loop.inLinks; got != linksPerProcess {
		t.Fatalf("%d links of one process, want %d", got, linksPerProcess)
	}
	if _, name := p.start(t, "sender"); len(name) != nameBytes {
		t.Fatalf("a name of %d bytes", len(name))
	}
	await(t, "another process to be let in", func() bool {
		if _, err := p.poll(); err != nil {
			t.Fatal(err)
		}
		return len(p.next) > 0
	})
}

// TestNamesOfOthers checks that names of other hosts, containers and users are refused, with the
// reason.
func TestNamesOfOthers(t *testing.T) {
	p := open(t)
	for _, tc := range []struct {
		at   int
		want string
	}{{0, "version"}, {3, "another host"}, {9, "user"}} {
		b := p.ep.Name()
		b[tc.at] ^= 1
		_, err := p.dom.Insert(b)
		if !errors.Is(err, fabric.ErrBadName) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("byte %d altered: %v, want %q", tc.at, err, tc.want)
		}
	}
}

// TestLockedDirectory checks that a process that keeps the directory locked does not delay other
// processes.
func TestLockedDirectory(t *testing.T) {
	p := open(t)
	fd, err := openDir(p.dom.name.uid)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	other, err := newPlayer()
	if err != nil {
		t.Fatal("with a locked directory:", err)
	}
	if err := other.dom.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other.dom.name.socketPath()); !os.IsNotExist(err) {
		t.Errorf("a socket of who has closed: %v", err)
	}
}
