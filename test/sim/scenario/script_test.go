package scenario

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"gobtl/btl"
)

// TestSyntaxErrors: what means nothing is refused, with its line.
func TestSyntaxErrors(t *testing.T) {
	const head = "node a\nnode b\n"
	for _, c := range []struct{ line, want string }{
		{"jump", `unknown command "jump"`},
		{"node", "a name is missing"},
		{"node a", "node a is there already"},
		{"node A", "no name of a node"},
		{"node idle", "cannot be called idle"},
		{"node c window=0", "1 to 4096"},
		{"node c window=x", "must be a number"},
		{"node c profile=tcp", `profile "tcp" is none of`},
		{"node c colour=red", `unknown key "colour"`},
		{"node c window=4 window=4", "given twice"},
		{"node c resend=-1s", "must be a duration"},
		{"network", "must come before the nodes"},
		{"connect a", `"a" is no route`},
		{"connect a>x", `unknown node "x"`},
		{"connect a>b now", `unknown word "now"`},
		{"send a>b", "a size is missing"},
		{"send a>b 1 way=pigeon", `"pigeon" is none of`},
		{"send a>b -1", "must be a number"},
		{"put a>b 1 handle=right", "not handle=wrong"},
		{"drop a>b", "a kind of packets is missing"},
		{"drop a>b frog", `"frog" is none of`},
		{"drop a>b frag 0", "must be a number"},
		{"drop a>b frag 3..2", "must be a number, 3"},
		{"drop a>b frag probe=huge", `probe "huge" is none of`},
		{"delay a>b frag", "by= is missing"},
		{"keep a>b frag", "as NAME is missing"},
		{"inject x", `no packet is kept as "x"`},
		{"inject a>b frag", `"frag" is neither cmd nor data`},
		{"inject a>b cmd frag flags=red", `unknown flag "red"`},
		{"inject a>b cmd hex=0", "hex:"},
		{"inject a>b cmd any", `"any" is none of`},
		{"run", "a duration is missing"},
		{"run fast", "must be a duration"},
		{"run until", "a node is missing"},
		{"run until idle within", "a duration is missing"},
		{"expect m1", "what is with it is missing"},
		{"expect m1 failed", "an error is missing"},
		{"expect m1 failed ErrNone", `unknown error "ErrNone"`},
		{"expect m2..m1 done", "must be a number, 2"},
		{"expect a>b happy", `"happy" is none of`},
		{"expect a luck = 1", `unknown counter "luck"`},
		{"expect a gauge luck = 1", `"luck" is none of`},
		{"expect a retransmits/timeout 1", "a comparison"},
		{"expect a retransmits/timeout = ", "a number is missing"},
		{"faults a again=2", "must be 0 to 1"},
		{"faults a again=NaN", "must be 0 to 1"},
		{"cut a<>", `unknown node ""`},
		{"=", "unknown command"},
		{"window=4", "a command is missing"},
	} {
		_, err := Parse(head + c.line)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Line != 3 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want line 3: %s", c.line, err, c.want)
		}
	}
}

// TestExpectationsFail: each condition can be false, and says so with its line.
func TestExpectationsFail(t *testing.T) {
	const head = "node a\nnode b\nexpose b 10\nlink a>b\nsend a>b 10\nrun until m1 done\n"
	for _, c := range []struct{ line, want string }{
		{"expect a>b closed", "connected true"},
		{"expect a>b connecting", "connected true"},
		{"expect a>b failed", "connected true"},
		{"expect a>b none", "connected true"},
		{"expect not a>b connected", "connected true"},
		{"expect a>b outstanding 1", "0 packets outstanding"},
		{"expect a>a connected", "there is no endpoint"},
		{"expect m1 pending", "m1 done"},
		{"expect m1 failed ErrClosed", "m1 done"},
		{"expect not m1 arrived", "it is not so"},
		{"expect m2 done", "there is no m2"},
		{"expect b delivered 2", "1 were delivered"},
		{"expect a sent_packets/frag = 2", "it is not so: 1"},
		{"expect a sent_packets/frag >= 2", "it is not so: 1"},
		{"expect a sent_packets/frag <= 0", "it is not so: 1"},
		{"expect b gauge endpoints = 0", "it is not so: 1"},
		{"expect sent a>b chunk", "0 such packets were sent"},
		{"expect delivered a>b frag 2", "1 such packets were delivered"},
		{"expect not delivered a>b frag", "1 such packets were delivered"},
		{"expect not idle", "idle"},
		{"run until a>b closed within 1ms", "not within 1ms"},
		{"close b>b", "b has no endpoint to b"},
		{"unexpose b 2", "b has 1 regions"},
		{"put a>b 1 region=2", "b has 1 regions"},
		{"connect a>b life=2", "b has had 1 lives"},
		{"inject a>b cmd frag conn=b:7", "no connection b:7 was seen"},
		{"cut a>b\nsend a>b 1\npause a 1h", "at the end"},
	} {
		s, err := Parse(head + c.line)
		if err != nil {
			t.Errorf("%q: %v", c.line, err)
			continue
		}
		err = s.Run(io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "script:7:") && c.want != "at the end" {
			t.Errorf("%q: %v, want line 7: %s", c.line, err, c.want)
		}
	}
}

// TestOracleSees: what the runner itself watches over. The script is right, so the lie is told to
// it in its own books.
func TestOracleSees(t *testing.T) {
	const secondSend, put = 6, 8 // steps
	for _, c := range []struct {
		name, want string
		step       int
		lie        func(w *world)
	}{
		{"delivered again", "that nobody sent, or that it has already", secondSend, func(w *world) {
			w.msgs[1].arrived = true
		}},
		{"another message", "that nobody sent", secondSend, func(w *world) { w.msgs[1].number = 77 }},
		{"an earlier life", "was for life 0", secondSend, func(w *world) { w.msgs[1].life = 0 }},
		{"ended before", "ended twice", secondSend, func(w *world) { w.msgs[1].state = stateDone }},
		{"never ended", "m4 never ended", put, func(w *world) {
			w.msgs = append(w.msgs, &message{number: 4, side: w.msgs[1].side})
		}},
		{"never arrived", "m4 did not arrive", put, func(w *world) {
			w.msgs = append(w.msgs, &message{
				number: 4, side: w.msgs[1].side, silent: true,
				state: stateDone,
			})
		}},
		{"put elsewhere", "its bytes are not in place", put, func(w *world) {
			last := w.msgs[len(w.msgs)-1]
			last.memory = make([]byte, last.size)
		}},
		{"done before it came", "has not arrived", secondSend, func(w *world) {
			w.nodes["b"].Mod.Handle(1, nil)
			w.nodes["b"].Mod.Handle(1, nothing)
		}},
		{"connected twice", "connected twice", secondSend, func(w *world) {
			w.nodes["a"].onEndpoint(w.msgs[1].side.ep, 0, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse("node a\nnode b\nexpose b 100\nlink a>b\nsend a>b 100\n" +
				"run until m1 done\nsend a>b 100\nrun until m2 done\nput a>b 50\nrun until m3 done")
			if err != nil {
				t.Fatal(err)
			}
			send := s.steps[c.step].run
			s.steps[c.step].run = func(w *world) error {
				err := send(w)
				c.lie(w)
				return err
			}
			if err := s.Run(io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

func nothing(*btl.Endpoint, btl.Tag, []byte) {}

// FuzzScript: no script makes the runner or the modules panic, and what runs at all gives the same
// trace again.
func FuzzScript(f *testing.F) {
	for _, path := range files(f) {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		file, err := ParseFile(data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file.Script)
	}
	f.Add("node a\nconnect a>a\nsend a>a 1 way=now\nexpect idle")
	f.Fuzz(func(t *testing.T, script string) {
		s, err := Parse(script)
		var syntax *SyntaxError
		if err != nil {
			if !errors.As(err, &syntax) {
				t.Fatalf("error of another type: %v", err)
			}
			return
		}
		s.stepsMax, s.bytesMax = 2_000, 1<<18 // an input takes some milliseconds
		var first, second bytes.Buffer
		err = s.Run(&first)
		again := s.Run(&second)
		if errorText(err) != errorText(again) {
			t.Fatalf("first %v\nthen  %v", err, again)
		}
		if err := Compare(first.String(), second.String()); err != nil {
			t.Fatal(err)
		}
		for _, bug := range []string{"check:", "twice", "nobody sent", "in place", "has not arrived"} {
			if strings.Contains(errorText(err), bug) && !strings.Contains(script, "inject") {
				t.Fatal(err)
			}
		}
	})
}
