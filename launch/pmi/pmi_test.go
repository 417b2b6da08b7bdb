package pmi

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "\n", " ", "=", "cmd", "cmd=", "=x", "a=b", "cmd=x y", "cmd=x =y", "cmd=x a=1 a=2",
		"cmd=x cmd=y", "cmd=x a=\x00", "cmd=x\ty=1", "cmd=x a=\xff", "cmd=x\na=1",
		"cmd=" + strings.Repeat("x", LineBytesMax), manyPairs(5000), manyPairs(pairsMax + 1),
	} {
		if m, err := Parse([]byte(bad)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.40q: %v, %v", bad, m, err)
		}
	}
	m, err := Parse([]byte("cmd=put  kvsname=a=b key= n=-3 big=99999999999999999999\n"))
	if err != nil || m.Cmd != "put" {
		t.Fatal(m, err)
	}
	for key, want := range map[string]string{"kvsname": "a=b", "key": "", "n": "-3"} {
		if got, ok := m.Get(key); !ok || got != want {
			t.Errorf("%s is %q, %v", key, got, ok)
		}
	}
	if n, err := m.Int("n", -3, 3); n != -3 || err != nil {
		t.Error(n, err)
	}
	for _, key := range []string{"kvsname", "key", "big", "none", "cmd"} {
		if n, err := m.Int(key, -1<<31, 1<<31-1); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s as a number: %d, %v", key, n, err)
		}
	}
	if _, err := m.Int("n", -2, 3); !errors.Is(err, ErrSyntax) {
		t.Error("a number out of range is let through")
	}
	if Good("", 9) || Good("a b", 9) || Good("abc", 2) || Good("é", 9) || !Good("a=b", 3) {
		t.Error("Good")
	}
}

// manyPairs is a line that is short enough, and takes long to compare all pairs of.
func manyPairs(count int) string {
	line := "cmd=x"
	for i := range count {
		line += fmt.Sprintf(" %x=", i)
	}
	return line
}

func TestMapping(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"(vector,(0,1,4))":          "[0 0 0 0 0 0 0]",
		"(vector,(0,3,2))":          "[0 0 1 1 2 2 0]",
		"(vector,(0,2,1))":          "[0 1 0 1 0 1 0]",
		"(vector,(4,1,2),(1,2,1))":  "[0 0 1 2 0 0 1]", // numbered in the order of the ranks
		"(vector,(0,1,3),(0,1,99))": "[0 0 0 0 0 0 0]",
	} {
		nodes, err := ParseMapping(text, 7)
		if got := fmt.Sprint(nodes); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "(vector)", "vector,(0,1,1)", "(vector,(0,1))", "(vector,(0,1,1)", "(vector,(0,1,1)))",
		"(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(-1,1,1))", "(vector,(0,1,1,1))",
		"(vector,(0,1,1)(0,1,1))", "(vector,(0,1,+1))", "(vector,(0,1, 1))", "(vector,(0,9999999,1))",
		"(vector,(0,1,1),)", "(list,(0,1,1))", "(vector,(0,1,1)) ",
	} {
		if nodes, err := ParseMapping(bad, 2); !errors.Is(err, ErrMapping) {
			t.Errorf("%q: %v, %v", bad, nodes, err)
		}
	}
	for _, size := range []int{0, -1, RanksMax + 1} {
		if _, err := ParseMapping("(vector,(0,1,1))", size); !errors.Is(err, ErrMapping) {
			t.Errorf("%d ranks: %v", size, err)
		}
	}
}

// What is written is read as it was, whatever the order of the nodes.
func TestMappingModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 40).Draw(t, "nodes")
		nodes := make([]int, len(given)) // numbered in order
		number := map[int]int{}
		for i, n := range given {
			if _, ok := number[n]; !ok {
				number[n] = len(number)
			}
			nodes[i] = number[n]
		}
		text := FormatMapping(nodes)
		got, err := ParseMapping(text, len(nodes))
		if err != nil || !slices.Equal(got, nodes) {
			t.Fatalf("%v is %s, read as %v, %v", nodes, text, got, err)
		}
	})
	if text := FormatMapping([]int{0, 0, 1, 1, 2, 2}); text != "(vector,(0,3,2))" {
		t.Error("blocks of one size are not one block:", text)
	}
}

const initLine = "cmd=init pmi_version=1 pmi_subversion=1"

func newServer(t *testing.T, size int) *Server {
	t.Helper()
	s, err := NewServer(Config{Size: size, Name: "job", Nodes: make([]int, size)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// talk gives a line to a server and returns its answers as text.
func talk(s *Server, rank int, line string) string {
	replies, err := s.Handle(rank, []byte(line+"\n"))
	var text strings.Builder
	for _, r := range replies {
		fmt.Fprintf(&text, "%d %s", r.Rank, r.Line)
	}
	if err != nil {
		fmt.Fprintf(&text, "%v\n", err)
	}
	return text.String()
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, 2)
	long, full := strings.Repeat("v", 900), strings.Repeat("v", ValueBytesMax)
	const (
		put = "cmd=put kvsname=job key="
		got = "0 cmd=get_result rc=0 msg=success value="
	)
	for _, step := range []struct {
		rank         int
		say, answers string
	}{
		{0, initLine, "0 cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"},
		{1, initLine, "1 cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"},
		{0, "cmd=get_maxes", "0 cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"},
		{0, "cmd=get_appnum", "0 cmd=appnum appnum=0"},
		{0, "cmd=get_universe_size", "0 cmd=universe_size size=2"},
		{0, "cmd=get_my_kvsname", "0 cmd=my_kvsname kvsname=job"},
		{0, "cmd=get kvsname=job key=" + MappingKey, got + "(vector,(0,1,2))"},
		{0, "cmd=get kvsname=job key=k", "0 cmd=get_result rc=-1 msg=key_not_found value=unknown"},
		{0, "cmd=put kvsname=job key=k value=" + long, "0 cmd=put_result rc=0 msg=success"},
		{1, "cmd=put kvsname=job key=k value=w", "1 cmd=put_result rc=-1 msg=duplicate_key"},
		{1, put + MappingKey + " value=w", "1 cmd=put_result rc=-1 msg=duplicate_key"},
		{1, "cmd=get kvsname=job key=k", "1 cmd=get_result rc=0 msg=success value=" + long},
		{0, put + "full value=" + full, "0 cmd=put_result rc=0 msg=success"},
		{1, "cmd=get kvsname=job key=full", "1 cmd=get_result rc=0 msg=success value=" + full},
		{0, put + "over value=v" + full, "0 cmd=put_result rc=-1 msg=value_is_longer_than_1024_bytes"},
		{0, put + full + " value=v", "0 cmd=put_result rc=-1 msg=key_is_longer_than_64_bytes"},
		{0, "cmd=get kvsname=job key=" + full, "0 cmd=get_result rc=-1 msg=key_not_found value=unknown"},
		{1, "cmd=lookup_name service=x", "1 cmd=lookup_result rc=-1 info=unsupported msg=unsupported"},
		{1, "mcmd=spawn", ""},
		{1, "nprocs=1", ""},
		{1, "execname=with spaces", ""},
		{1, "endcmd", "1 cmd=spawn_result rc=-1 msg=unsupported"},
		{1, "cmd=barrier_in", ""},
		{0, "cmd=barrier_in", "0 cmd=barrier_out\n1 cmd=barrier_out"},
		{1, "cmd=finalize", "1 cmd=finalize_ack"},
		{0, "cmd=barrier_in", "rank 0: " + ErrProtocol.Error() +
			": a barrier in which 1 ranks that have finished are missing"},
	} {
		want := step.answers
		if want != "" {
			want += "\n"
		}
		if got := talk(s, step.rank, step.say); got != want {
			t.Fatalf("rank %d says %.80q, and hears\n%swant\n%s", step.rank, step.say, got, want)
		}
	}
	if s.Leave(1) != nil || s.Finished() != 1 {
		t.Error("a rank that has finished may not leave")
	}
	if err := s.Leave(0); !errors.Is(err, ErrGone) {
		t.Error("a rank leaves without finalize:", err)
	}
}

// What a client may not say ends the job.
func TestServerRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		say  []string
		want error
	}{
		{[]string{"cmd=get_maxes"}, ErrProtocol},
		{[]string{"hello"}, ErrSyntax},
		{[]string{"cmd=init"}, ErrSyntax},
		{[]string{"cmd=init pmi_version=2 pmi_subversion=0"}, ErrProtocol},
		{[]string{initLine, initLine}, ErrProtocol},
		{[]string{initLine, "cmd=dance"}, ErrProtocol},
		{[]string{initLine, "cmd=put kvsname=other key=k value=v"}, ErrProtocol},
		{[]string{initLine, "cmd=put kvsname=job value=v"}, ErrSyntax},
		{[]string{initLine, "cmd=put kvsname=job key=k"}, ErrSyntax},
		{[]string{initLine, "cmd=barrier_in", "cmd=barrier_in"}, ErrProtocol},
		{[]string{initLine, "cmd=barrier_in", "cmd=finalize"}, ErrProtocol},
		{[]string{initLine, "cmd=finalize", "cmd=get_maxes"}, ErrProtocol},
		{[]string{initLine, "cmd=abort"}, ErrSyntax},
	} {
		s := newServer(t, 2)
		var err error
		for i, line := range c.say {
			if err != nil {
				t.Fatalf("%q: line %d: %v", c.say, i, err)
			}
			_, err = s.Handle(0, []byte(line))
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.say, err, c.want)
		}
	}
	s := newServer(t, 2)
	var abort *AbortError
	if _, err := s.Handle(1, []byte("cmd=abort exitcode=9")); !errors.As(err, &abort) ||
		*abort != (AbortError{Rank: 1, Code: 9}) {
		t.Error("abort:", err)
	}
	for _, rank := range []int{-1, 2} {
		if _, err := s.Handle(rank, []byte(initLine)); !errors.Is(err, ErrProtocol) {
			t.Errorf("rank %d of 2: %v", rank, err)
		}
	}
	for _, cfg := range []Config{
		{Name: "job"},
		{Size: RanksMax + 1, Name: "job"},
		{Size: 1},
		{Size: 1, Name: "a b"},
		{Size: 2, Name: "job", Nodes: []int{0}},
	} {
		if _, err := NewServer(cfg); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Somebody waits in a barrier for a rank that does not come any more.
func TestServerBarrierOfTheGone(t *testing.T) {
	t.Parallel()
	s := newServer(t, 3)
	for rank := range 3 {
		talk(s, rank, "cmd=init pmi_version=1 pmi_subversion=1")
	}
	talk(s, 0, "cmd=barrier_in")
	if _, err := s.Handle(1, []byte("cmd=finalize")); !errors.Is(err, ErrProtocol) {
		t.Error("it may finish while another waits for it:", err)
	}
	s = newServer(t, 2)
	talk(s, 0, "cmd=init pmi_version=1 pmi_subversion=1")
	talk(s, 0, "cmd=barrier_in")
	if err := s.Leave(1); !errors.Is(err, ErrProtocol) {
		t.Error("it may leave while another waits for it:", err)
	}
}

// A rank that is lost leaves the others to go on, whatever it was at, but for a barrier.
func TestServerLose(t *testing.T) {
	t.Parallel()
	s := newServer(t, 3)
	for rank := range 2 {
		talk(s, rank, initLine)
	}
	talk(s, 1, "cmd=barrier_in")
	for range 2 { // A second time it is nothing new.
		if err := s.Lose(1); err != nil || s.Finished() != 1 {
			t.Fatal("it waited in a barrier by itself:", err, s.Finished())
		}
	}
	if err := s.Lose(2); err != nil || s.Finished() != 2 {
		t.Error("it had not begun:", err, s.Finished())
	}
	if got := talk(s, 0, "cmd=finalize"); got != "0 cmd=finalize_ack\n" || s.Finished() != 3 {
		t.Errorf("the last one ends: %q, %d are done", got, s.Finished())
	}
	s = newServer(t, 3)
	for rank := range 3 {
		talk(s, rank, initLine)
	}
	talk(s, 0, "cmd=barrier_in")
	if err := s.Lose(1); !errors.Is(err, ErrProtocol) {
		t.Error("another waits for it in a barrier, for ever:", err)
	}
}

// The store of a rank has an end, and nobody else's suffers.
func TestServerStoreIsBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t, 2)
	talk(s, 0, "cmd=init pmi_version=1 pmi_subversion=1")
	talk(s, 1, "cmd=init pmi_version=1 pmi_subversion=1")
	value := strings.Repeat("v", 950)
	bytesPut := 0
	for i := 0; ; i++ {
		key := fmt.Sprintf("k%d", i)
		answer := talk(s, 0, "cmd=put kvsname=job key="+key+" value="+value)
		if strings.Contains(answer, "store_is_full") {
			break
		}
		if bytesPut += len(key) + len(value); bytesPut > storeBytesPerRank {
			t.Fatal("no end after", bytesPut)
		}
	}
	answer := talk(s, 1, "cmd=put kvsname=job key=mine value=v")
	if !strings.Contains(answer, "rc=0") {
		t.Error("the other rank:", answer)
	}
}

// TestServerStoreCountsMemory: the store of a rank takes at most twice the memory of its bound,
// however long the lines of its entries are, and however small the entries are. The test measures
// the heap, and therefore does not run beside others.
func TestServerStoreCountsMemory(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for name, c := range map[string]struct {
		puts  int
		value string
	}{
		"long lines":   {200, "v" + strings.Repeat(" ", 30<<10)},
		"small values": {storeBytesPerRank, ""},
	} {
		s := newServer(t, 1)
		talk(s, 0, initLine)
		before := heap()
		for i := range c.puts {
			answer := talk(s, 0, fmt.Sprintf("cmd=put kvsname=job key=%x value=%s", i, c.value))
			if strings.Contains(answer, "store_is_full") {
				break
			}
		}
		if grown := heap() - before; grown > 2*storeBytesPerRank {
			t.Errorf("%s: %d bytes are kept, the rank may store %d", name, grown, storeBytesPerRank)
		}
		runtime.KeepAlive(s)
	}
}

// FuzzServer gives bytes to a server as lines of three ranks: it must not fall over, and what it
// says must be lines that clients can read.
func FuzzServer(f *testing.F) {
	f.Add("cmd=init pmi_version=1 pmi_subversion=1\ncmd=init pmi_version=1 pmi_subversion=1\n" +
		"cmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\ncmd=barrier_in\ncmd=barrier_in\n")
	f.Add("cmd=init pmi_version=1\n\n\ncmd=put kvsname=job key=k value=v\n\n\n" +
		"cmd=get kvsname=job key=k")
	f.Add("mcmd=spawn\nendcmd\n(vector,(0,1,2))")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := NewServer(Config{Size: 3, Name: "job", Nodes: []int{0, 1, 0}})
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for line := range strings.Lines(text) {
			if nodes, err := ParseMapping(line, 5); err == nil && len(nodes) != 5 {
				t.Fatal(nodes)
			}
			replies, err := s.Handle(i%3, []byte(line))
			for _, r := range replies {
				if _, bad := Parse([]byte(r.Line)); bad != nil || !strings.HasSuffix(r.Line, "\n") {
					t.Fatalf("%q is answered with %q: %v", line, r.Line, bad)
				}
			}
			if err != nil {
				return
			}
			i++
		}
	})
}
