//go:build unix

package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"gobtl/internal/testenv"
	"gobtl/launch/pmi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair returns both ends of a socket, of which one is a descriptor as a process inherits it.
func pair(t *testing.T) (server net.Conn, fd int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[0]), "server")
	defer file.Close()
	server, err = net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return server, fds[1]
}

func pmiEnv(rank, size, fd int) []string {
	return []string{
		"PMI_RANK=" + strconv.Itoa(rank), "PMI_SIZE=" + strconv.Itoa(size), "PMI_FD=" + strconv.Itoa(fd),
	}
}

// serve is a launcher: it serves a job whose ranks inherit descriptors, which it returns.
func serve(t *testing.T, cfg pmi.Config) (fds []int) {
	t.Helper()
	return serveUntil(t, cfg, func(error) {})
}

// serveUntil is serve that says why the job has ended.
func serveUntil(t *testing.T, cfg pmi.Config, over func(error)) (fds []int) {
	t.Helper()
	s, err := pmi.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]net.Conn, cfg.Size)
	fds = make([]int, cfg.Size)
	var lock sync.Mutex
	var ended sync.WaitGroup
	t.Cleanup(ended.Wait)
	for rank := range conns {
		conns[rank], fds[rank] = pair(t)
	}
	for rank, conn := range conns {
		ended.Go(func() {
			in := bufio.NewReader(conn)
			for {
				line, err := in.ReadSlice('\n')
				if err != nil {
					return
				}
				lock.Lock()
				replies, err := s.Handle(rank, line)
				for _, r := range replies {
					_, _ = io.WriteString(conns[r.Rank], r.Line)
				}
				lock.Unlock()
				if err != nil {
					over(err)
					for _, conn := range conns {
						conn.Close()
					}
				}
			}
		})
	}
	return fds
}

// all runs the ranks of a job side by side.
func all(t *testing.T, envs [][]string, life func(j *Job) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	for rank, env := range envs {
		group.Go(func() error {
			j, err := Join(ctx, Config{Environ: env, Timeout: 20 * time.Second})
			if err == nil && (j.Rank() != rank || j.Size() != len(envs)) {
				err = fmt.Errorf("rank %d of %d", j.Rank(), j.Size())
			}
			if err == nil {
				err = life(j)
			}
			if err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// exchangeAll exchanges values of all sizes and ends the job.
func exchangeAll(seed uint64) func(j *Job) error {
	return func(j *Job) error {
		ctx := context.Background()
		for _, size := range []int{0, 1, 2, 3, 700, 2000, ValueBytesMax} {
			value := func(rank int) []byte {
				random := rand.New(rand.NewPCG(seed, uint64(rank)))
				b := make([]byte, size)
				for i := range b {
					b[i] = byte(random.Uint32())
				}
				return b
			}
			key := "key-" + strconv.Itoa(size)
			got, err := j.Exchange(ctx, key, value(j.Rank()))
			if err != nil {
				return err
			}
			for rank := range got {
				if !bytes.Equal(got[rank], value(rank)) {
					return fmt.Errorf("%d bytes of rank %d are %d others", size, rank, len(got[rank]))
				}
			}
		}
		return j.Finalize(ctx)
	}
}

func TestExchange(t *testing.T) {
	seed := testenv.Seed(t, 0)
	for _, nodes := range [][]int{nil, {0, 1, 0, 1}} {
		fds := serve(t, pmi.Config{Size: 4, Name: "job", Nodes: nodes})
		var envs [][]string
		for rank, fd := range fds {
			envs = append(envs, pmiEnv(rank, 4, fd))
		}
		all(t, envs, func(j *Job) error {
			node, nodesAll, locals, local, third := 0, 1, "[0 1 2 3]", j.Rank(), 0
			if nodes != nil {
				node, nodesAll, local, third = j.Rank()%2, 2, j.Rank()/2, nodes[3]
				locals = fmt.Sprint([]int{node, node + 2})
			}
			want := fmt.Sprintln(node, nodesAll, third, local, locals, -1, "job", PMI1)
			got := fmt.Sprintln(j.Node(), j.Nodes(), j.NodeOf(3), j.LocalRank(), fmt.Sprint(j.Locals()),
				j.NodeOf(4), j.ID(), j.Launcher())
			if len(j.Locals()) != j.LocalSize() {
				return fmt.Errorf("%d local ranks, %v", j.LocalSize(), j.Locals())
			}
			if got != want {
				return fmt.Errorf("place %s, want %s", got, want)
			}
			return exchangeAll(seed)(j)
		})
	}
}

func TestNumberHosts(t *testing.T) {
	got := numberHosts([][]byte{[]byte("b"), []byte("a"), []byte("b"), []byte("c"), []byte("a")})
	if fmt.Sprint(got) != "[0 1 0 2 1]" {
		t.Error(got)
	}
}

// A call with a nil context is refused, and nothing has begun.
func TestNilContext(t *testing.T) {
	cfg := Config{Environ: []string{"BTL_LAUNCHER=none"}}
	j, err := Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	second := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"Join": second(Join(none, cfg)), "Put": j.Put(none, "key", nil), "Fence": j.Fence(none),
		"Get": second(j.Get(none, 0, "key")), "Exchange": second(j.Exchange(none, "key", nil)),
		"Abort": j.Abort(none, 1), "Finalize": j.Finalize(none),
	} {
		if !errors.Is(err, ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if _, err := j.Exchange(t.Context(), "key", nil); err != nil {
		t.Error(err)
	}
	if err := j.Finalize(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAlone(t *testing.T) {
	all(t, [][]string{{}}, func(j *Job) error {
		if j.Launcher() != None || j.Node() != 0 || j.Nodes() != 1 || j.LocalRank() != 0 {
			return fmt.Errorf("%+v", j)
		}
		return exchangeAll(1)(j)
	})
}

// What a caller may not do is an error, and the job goes on.
func TestMisuse(t *testing.T) {
	fds := serve(t, pmi.Config{Size: 1, Name: "job"})
	ctx := t.Context()
	j, err := Join(ctx, Config{Environ: pmiEnv(0, 1, fds[0])})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Fstat(fds[0], new(syscall.Stat_t)); !errors.Is(err, syscall.EBADF) {
		t.Error("what this process starts would have its PMI_FD:", err)
	}
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for _, key := range []string{"", "a.b", "a b", "é", strings.Repeat("k", KeyBytesMax+1)} {
		is(j.Put(ctx, key, nil), ErrKey)
		_, err := j.Get(ctx, 0, key)
		is(err, ErrKey)
	}
	is(j.Put(ctx, "long", make([]byte, ValueBytesMax+1)), ErrTooLarge)
	is(j.Put(ctx, "a", []byte("b")), nil)
	is(j.Put(ctx, "a", []byte("b")), ErrKey)
	for _, rank := range []int{-1, 1} {
		_, err := j.Get(ctx, rank, "a")
		is(err, ErrRank)
	}
	_, err = j.Get(ctx, 0, "b")
	is(err, ErrNoValue)
	is(j.Abort(ctx, 0), ErrConfig)
	is(j.Abort(ctx, 256), ErrConfig)
	is(j.Fence(ctx), nil)
	is(j.Finalize(ctx), nil)
	is(j.Finalize(ctx), ErrFinalized)
	is(j.Abort(ctx, 1), ErrFinalized)
	is(j.Put(ctx, "c", nil), ErrFinalized)
	is(j.Fence(ctx), ErrFinalized)
	_, err = j.Get(ctx, 0, "a")
	is(err, ErrFinalized)
	for _, cfg := range []Config{{Timeout: 1}, {FenceTimeout: -1}, {Timeout: 25 * time.Hour}} {
		cfg.Environ = []string{}
		_, err := Join(ctx, cfg)
		is(err, ErrConfig)
	}
}

// TestEnvironment shows whom a process takes for its launcher, or why it takes nobody.
func TestEnvironment(t *testing.T) {
	const ompi = "OMPI_COMM_WORLD_RANK=0"
	for _, c := range []struct {
		env  string
		want Launcher
		err  error
	}{
		{"", None, nil},
		{"PMI_FD=5", PMI1, nil},
		{"PMI_PORT=a:1", PMI1, nil},
		{"PMI_FD=5 " + ompi, PMI1, nil},
		{"PMI_FD=5 BTL_LAUNCHER=ompi " + ompi, OpenMPI, nil},
		{"PMI_FD=5 BTL_LAUNCHER=none", None, nil},
		{"BTL_LAUNCHER=pmi " + ompi, "", ErrEnvironment},
		{"BTL_LAUNCHER=ompi PMI_FD=5", "", ErrEnvironment},
		{"BTL_LAUNCHER=prun", "", ErrEnvironment},
		{"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2", None, ErrNoPMI},
		{"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1", None, nil},
		{"SLURM_NTASKS=2", None, nil}, // a batch script
		{"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 BTL_LAUNCHER=none", None, nil},
		{"PMIX_RANK=0", None, ErrNoPMI},
	} {
		got, err := readEnvironment(strings.Fields(c.env)).launcher()
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v; want %q, %v", c.env, got, err, c.want, c.err)
		}
	}
	file, err := os.CreateTemp(t.TempDir(), "no socket")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, env := range []string{
		"PMI_FD=x PMI_RANK=0 PMI_SIZE=1", "PMI_FD=2 PMI_RANK=0 PMI_SIZE=1",
		"PMI_FD=1000000 PMI_RANK=0 PMI_SIZE=1", "PMI_FD=4 PMI_RANK=1 PMI_SIZE=1",
		"PMI_FD=4 PMI_RANK=-1 PMI_SIZE=1", "PMI_FD=4 PMI_RANK=0", "PMI_FD=4 PMI_RANK=0 PMI_SIZE=9999999",
		fmt.Sprintf("PMI_FD=%d PMI_RANK=0 PMI_SIZE=1", file.Fd()), "PMI_PORT=127.0.0.1:1 PMI_ID=-1",
		"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=2",
		ompi + " OMPI_COMM_WORLD_SIZE=2", ompi + " OMPI_COMM_WORLD_SIZE=2 BTL_RENDEZVOUS=nowhere",
	} {
		if _, err := Join(t.Context(), Config{Environ: strings.Fields(env)}); !errors.Is(err,
			ErrEnvironment) {
			t.Errorf("%s: %v", env, err)
		}
	}
	if _, err := file.WriteString("still open"); err != nil {
		t.Error("a descriptor that is no socket was closed:", err)
	}
}

// A liar answers each line that it is asked with the next one of its script.
func liar(t *testing.T, script []string) (fd int, ended func()) {
	t.Helper()
	conn, fd := pair(t)
	var group sync.WaitGroup
	group.Go(func() {
		in := bufio.NewReader(conn)
		for _, answer := range script {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			if answer == "silence" {
				_, _ = in.ReadString('\n')
				return
			}
			_, _ = io.WriteString(conn, answer)
		}
		conn.Close()
	})
	return fd, func() { conn.Close(); group.Wait() }
}

// TestLiars meets launchers that say what no launcher may say, or nothing.
func TestLiars(t *testing.T) {
	const (
		hello  = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
		maxima = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"
		name   = "cmd=my_kvsname kvsname=job\n"
		noMap  = "cmd=get_result rc=-1 msg=key_not_found\n"
		place  = "cmd=get_result rc=0 value=(vector,(0,1,2))\n"
		put    = "cmd=put_result rc=0\n"
	)
	long := strings.Repeat("x", 300)
	farPlace := "(vector" + strings.Repeat(",(0,1,2)", 500) + ")"
	got := func(value string) string { return "cmd=get_result rc=0 msg=success value=" + value + "\n" }
	for _, c := range []struct {
		script []string
		want   error
	}{
		{nil, ErrGone},
		{[]string{"silence"}, ErrTimeout},
		{[]string{"nonsense\n"}, ErrProtocol},
		{[]string{strings.Repeat("x", 5000) + "\n"}, ErrProtocol},
		{[]string{maxima}, ErrProtocol},
		{[]string{"cmd=response_to_init rc=-1\n"}, ErrRefused},
		{[]string{"cmd=response_to_init rc=many\n"}, ErrProtocol},
		{[]string{hello, "cmd=maxes\n"}, ErrProtocol},
		{[]string{hello, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=-1\n"}, ErrProtocol},
		{[]string{hello, "cmd=maxes kvsname_max=256 keylen_max=4 vallen_max=1024\n"}, ErrProtocol},
		{[]string{hello, maxima, "cmd=my_kvsname\n"}, ErrProtocol},
		{[]string{hello, maxima, "cmd=my_kvsname kvsname=" + long + "\n"}, ErrProtocol},
		{[]string{hello, maxima, name, "cmd=get_result rc=0\n"}, ErrProtocol},
		{[]string{strings.Repeat("x", pmi.LineBytesMax) + "\n"}, ErrProtocol},
		// A place that cannot be read is as good as none.
		{[]string{hello, maxima, name, got("(vector,(0,0,0))")}, ErrGone},
		{[]string{hello, maxima, name, got("(vector,(0,1,"), put, "cmd=barrier_out rc=1\n"}, ErrProtocol},
		// A line may be longer than those of the protocol: hydra's are.
		{[]string{hello, maxima, name, got(farPlace), got("3.AA"), got("AA")}, nil},
		{[]string{hello, maxima, name, noMap, "cmd=put_result rc=-1 msg=no_room\n"}, ErrRefused},
		{[]string{hello, maxima, name, noMap, put, "cmd=barrier_out rc=1\n"}, ErrProtocol},
		{[]string{hello, maxima, name, place}, ErrGone},
		{[]string{hello, maxima, name, place, "silence"}, ErrTimeout},
		{[]string{hello, maxima, name, place, noMap}, ErrNoValue},
		{[]string{hello, maxima, name, place, got("x")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("-1.")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("01.AA")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("1.AAAA")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("1.!!")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("1.AB")}, ErrProtocol}, // not canonical
		{[]string{hello, maxima, name, place, got("99999999.AA")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("9.AAAA"), got("")}, ErrProtocol},
		{[]string{hello, maxima, name, place, got("9.AAAA"), noMap}, ErrRefused},
		{[]string{hello, maxima, name, place, got("3.AA"), got("AA")}, nil},
	} {
		fd, ended := liar(t, c.script)
		j, err := Join(t.Context(), Config{
			Environ: pmiEnv(0, 2, fd), Timeout: 500 * time.Millisecond,
		})
		if err == nil {
			_, err = j.Get(t.Context(), 1, "btl")
			j.close(ErrFinalized)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%.200q: %v, want %v", c.script, err, c.want)
		}
		ended()
	}
}

// A context that ends, and ranks that do not come, end a Fence, and the job with it.
func TestFenceEnds(t *testing.T) {
	for _, cancelled := range []bool{true, false} {
		fds := serve(t, pmi.Config{Size: 2, Name: "job", Nodes: []int{0, 0}})
		ctx, cancel := context.WithCancelCause(t.Context())
		want := ErrTimeout
		cfg := Config{Environ: pmiEnv(0, 2, fds[0]), FenceTimeout: 50 * time.Millisecond}
		if cancelled {
			want = errors.New("enough")
			cfg.FenceTimeout = 0
			time.AfterFunc(50*time.Millisecond, func() { cancel(want) })
		}
		j, err := Join(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // The second one finds the link broken.
			if err := j.Fence(ctx); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		cancel(nil)
		j.close(ErrFinalized)
		if err := syscall.Close(fds[1]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPort joins by a port, as a launcher with -pmi-port has one.
func TestPort(t *testing.T) {
	welcome := "cmd=initack rc=0\n"
	for text, want := range map[string]error{
		welcome + "cmd=set size=1\ncmd=set rank=0\ncmd=set debug=0\n":    nil,
		welcome + "cmd=set debug=0\ncmd=set rank=0\ncmd=set size=1\n":    nil,
		welcome + "cmd=set size=1\ncmd=set rank=1\ncmd=set debug=0\n":    ErrProtocol,
		welcome + "cmd=set size=1\ncmd=set size=1\ncmd=set debug=0\n":    ErrProtocol,
		welcome + "cmd=set size=1\ncmd=set rank=none\ncmd=set debug=0\n": ErrProtocol,
		"cmd=initack rc=-1\n":              ErrRefused,
		welcome:                            ErrGone,
		welcome + "cmd=response_to_init\n": ErrProtocol,
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var group errgroup.Group
		group.Go(func() error {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			if line, err := in.ReadString('\n'); line != "cmd=initack pmiid=3\n" {
				return fmt.Errorf("%q, %w", line, err)
			}
			_, err = io.WriteString(conn, text)
			if want != nil {
				return err
			}
			for _, answer := range []string{
				"cmd=response_to_init rc=0\n", "cmd=maxes keylen_max=64 vallen_max=1024\n",
				"cmd=my_kvsname kvsname=job\n", "cmd=get_result rc=0 value=(vector,(0,1,1))\n",
			} {
				if _, err := in.ReadString('\n'); err != nil {
					return err
				}
				if _, err := io.WriteString(conn, answer); err != nil {
					return err
				}
			}
			return nil
		})
		j, err := Join(t.Context(), Config{
			Environ: []string{"PMI_PORT=" + listener.Addr().String(), "PMI_ID=3"},
		})
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
		if err == nil {
			j.close(ErrFinalized)
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		listener.Close()
	}
}

// A rank aborts the job while another of its goroutines waits for ranks that do not come.
func TestAbortWhileWaiting(t *testing.T) {
	why := make(chan error, 2)
	fds := serveUntil(t, pmi.Config{Size: 2, Name: "job", Nodes: []int{0, 0}},
		func(err error) { why <- err })
	j, err := Join(t.Context(), Config{
		Environ: pmiEnv(0, 2, fds[0]), FenceTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	fenced := make(chan error, 1)
	go func() { fenced <- j.Fence(t.Context()) }()
	for j.lock.TryLock() {
		j.lock.Unlock()
		time.Sleep(time.Millisecond)
	}
	if err := j.Abort(t.Context(), 3); err != nil {
		t.Errorf("Abort: %v", err)
	}
	if err := <-fenced; !errors.Is(err, ErrGone) {
		t.Errorf("Fence: %v", err)
	}
	var abort *pmi.AbortError
	select {
	case err := <-why:
		if !errors.As(err, &abort) || abort.Code != 3 || abort.Rank != 0 {
			t.Errorf("the launcher hears %v", err)
		}
	default:
		t.Error("the launcher has heard nothing")
		j.close(ErrFinalized)
	}
	if err := syscall.Close(fds[1]); err != nil {
		t.Fatal(err)
	}
}

// lateConn is a connection whose owner's context ends while an answer is on its way.
type lateConn struct {
	net.Conn
	end   func()
	ended chan struct{} // SetDeadline was called
	once  sync.Once
}

func (c *lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.once.Do(func() {
		c.end()
		<-c.ended
	})
	return n, err
}

func (c *lateConn) SetDeadline(at time.Time) error {
	defer func() {
		select {
		case c.ended <- struct{}{}:
		default:
		}
	}()
	return c.Conn.SetDeadline(at)
}

// An answer that comes just when its context ends counts, and the next one may take its time.
func TestAnswerAtTheLastMoment(t *testing.T) {
	server, client := net.Pipe()
	defer server.Close()
	go func() {
		in := bufio.NewReader(server)
		for range 2 {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			if _, err := io.WriteString(server, "cmd=barrier_out\n"); err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := newLink(&lateConn{Conn: client, end: cancel, ended: make(chan struct{}, 1)})
	defer l.close(ErrGone)
	for i, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := l.ask(ctx, time.Minute, "cmd=barrier_in", "barrier_out"); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
}
