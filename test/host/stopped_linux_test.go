package host

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/internal/mono"
	"gobtl/internal/testenv"
)

var stopRounds = flag.Int("host.stops", 1, "how often TestStoppedPeers stops eight processes")

const (
	talkerRole = "talker"
	talkTag    = 2
	// inFlight is how many messages a talker has on the way to a peer: more than rings hold of large
	// ones, so that some wait in queues.
	inFlight = 24
	// deadAfter is the PeerTimeout, and the HandshakeTimeout, of talkers.
	deadAfter = 2 * time.Second
	// lateMost ends the wait for an error that never comes.
	lateMost = time.Minute
)

// talker is a rank that sends to each of its peers as much as is taken, and looks at what comes.
type talker struct {
	*rank
	id      int
	from    map[int]int // messages, by the sender's id
	endings map[*btl.Endpoint]error
}

// conversation is a talker's way to one peer.
type conversation struct {
	ep       *btl.Endpoint
	sent     int
	inFlight int
	ended    int   // messages that have ended well
	err      error // how the first one ended that has not
}

func newTalker(id int) (*talker, error) {
	r, err := openRankWith(btl.Config{
		SendBuffers: 128, RecvDepth: 256, PeerTimeout: deadAfter, HandshakeTimeout: deadAfter,
	})
	if err != nil {
		return nil, err
	}
	t := &talker{rank: r, id: id, from: map[int]int{}, endings: map[*btl.Endpoint]error{}}
	r.m.OnEndpoint(func(ep *btl.Endpoint, ev btl.Event, err error) {
		if ev == btl.EventFailed {
			t.endings[ep] = err
		}
	})
	return t, r.m.Handle(talkTag, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
		from, err := whole(data)
		if err != nil {
			r.err = errors.Join(r.err, err)
		}
		t.from[from]++
		r.got++
	})
}

// whole says whose message it is, or that it is not what a talker has sent.
func whole(data []byte) (from int, err error) {
	if len(data) >= sizes[0] {
		from = int(binary.LittleEndian.Uint32(data))
		n := int(binary.LittleEndian.Uint32(data[4:]))
		want := make([]byte, sizes[n%len(sizes)])
		if fill(want, from, n); bytes.Equal(want, data) {
			return from, nil
		}
	}
	return 0, fmt.Errorf("a message of %d bytes is torn", len(data))
}

// say sends to a peer until enough is on the way.
func (t *talker) say(c *conversation) error {
	for c.inFlight < inFlight && c.err == nil && t.endings[c.ep] == nil {
		mem := make([]byte, sizes[c.sent%len(sizes)])
		fill(mem, t.id, c.sent)
		f, err := c.ep.Prepare(talkTag, mem)
		if errors.Is(err, btl.ErrAgain) {
			return nil
		}
		if err != nil {
			return err
		}
		f.Signal = true
		f.OnDone = func(_ *btl.Fragment, err error) {
			c.inFlight--
			if err == nil {
				c.ended++
			} else if c.err == nil {
				c.err = err
			}
		}
		if _, err := c.ep.Send(t.now(), f); err != nil {
			return errors.Join(err, c.ep.Free(f))
		}
		c.sent++
		c.inFlight++
	}
	return nil
}

// dead says whether an error is one of those by which a module tells that a peer is not there.
func dead(err error) bool {
	return errors.Is(err, btl.ErrPeerDead) || errors.Is(err, btl.ErrUnreachable)
}

// talkerChild talks to the module that it is told, until the connection ends: with an error that
// says why, which it prints.
func talkerChild() error {
	t, err := newTalker(os.Getpid() & 0xffff)
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(t.m.Name()))
	name, err := hex.DecodeString(os.Getenv(peerName))
	if err != nil {
		return err
	}
	c := conversation{}
	if c.ep, err = t.m.Connect(t.now(), name); err != nil {
		return err
	}
	for t.endings[c.ep] == nil {
		if err := errors.Join(t.say(&c), t.pass()); err != nil {
			return err
		}
	}
	fmt.Println("failed:", t.endings[c.ep])
	return t.m.Close()
}

const peerName = "GOBTL_TEST_PEER"

// startTalker starts a process that talks to t, and returns the way to it.
func startTalker(tb testing.TB, t *talker) (*exec.Cmd, *bufio.Reader, *conversation) {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+talkerRole,
		peerName+"="+hex.EncodeToString(t.m.Name()))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }) // it may have ended
	out := bufio.NewReader(pipe)
	line, err := out.ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	name, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		tb.Fatal(err)
	}
	c := &conversation{}
	if c.ep, err = t.m.Connect(t.now(), name); err != nil {
		tb.Fatal(err)
	}
	return cmd, out, c
}

// TestStoppedPeers stops processes (SIGSTOP) at any moment, from before they are connected on: what
// is under way to them ends with a typed error in time, nothing comes torn, and who talks
// meanwhile is not disturbed. One that goes on later is told that it was given up.
func TestStoppedPeers(t *testing.T) {
	needShm(t)
	rng := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
	me, err := newTalker(0)
	if err != nil {
		t.Fatal(err)
	}
	defer me.m.Close()
	_, _, honest := startTalker(t, me)
	var latest time.Duration
	for range *stopRounds {
		latest = max(latest, stopAll(t, me, honest, rng))
	}
	t.Logf("the latest of %d errors came after %v; %d messages to and %d from peers",
		8*(*stopRounds), latest, honest.ended, me.got)
}

// stopAll starts and stops eight, and returns how long the latest error took to come.
func stopAll(
	t *testing.T, me *talker, honest *conversation, rng *rand.Rand,
) (latest time.Duration) {
	type victim struct {
		*conversation
		cmd    *exec.Cmd
		out    *bufio.Reader
		stopAt mono.Time
		failed bool
		waited int
	}
	var all [8]victim
	pass := func(also *conversation) {
		if err := errors.Join(me.say(honest), me.say(also), me.pass()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all {
		v := &all[i]
		v.cmd, v.out, v.conversation = startTalker(t, me)
		v.stopAt = me.now().Add(time.Duration(rng.IntN(20_000)) * time.Microsecond)
		for end := v.stopAt; me.now() < end; {
			pass(v.conversation)
		}
		if err := v.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		v.stopAt = me.now()
	}
	before := honest.ended
	for left := len(all); left > 0; {
		for i := range all {
			v := &all[i]
			pass(v.conversation)
			err, ended := me.endings[v.ep]
			if ended && v.inFlight > 0 && v.waited < 100 {
				v.waited++ // passes, in which the fabric lets go of the memory of messages
				continue
			}
			if v.failed || !ended {
				if since := me.now().Sub(v.stopAt); !v.failed && since > lateMost {
					t.Fatalf("no error of a peer that stands still for %v", since)
				}
				continue
			}
			v.failed = true
			left--
			latest = max(latest, me.now().Sub(v.stopAt))
			if !dead(err) || v.err != nil && !dead(v.err) || v.inFlight != 0 {
				t.Errorf("ended with %v, a message with %v, %d with nothing", err, v.err, v.inFlight)
			}
		}
	}
	if honest.ended == before || me.endings[honest.ep] != nil {
		t.Errorf("the peer that lives: %d messages, %v", honest.ended-before, me.endings[honest.ep])
	}
	for i := range all {
		me.goesOn(t, all[i].cmd, all[i].out, honest)
	}
	return latest
}

// goesOn lets a process go on that was given up. It is told so, or, if it was not connected yet,
// it connects now.
func (t *talker) goesOn(tb testing.TB, cmd *exec.Cmd, out *bufio.Reader, honest *conversation) {
	id := cmd.Process.Pid & 0xffff
	before := t.from[id]
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		tb.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		line, err := out.ReadString('\n')
		if err != nil {
			line = "without a word: " + err.Error()
		}
		said <- line
	}()
	for end := t.now().Add(patience); t.from[id] == before; {
		if err := errors.Join(t.say(honest), t.pass()); err != nil {
			tb.Fatal(err)
		}
		select {
		case line := <-said:
			if !strings.HasPrefix(line, "failed: ") {
				tb.Errorf("a peer that goes on has ended: %s", line)
			}
			return
		default:
		}
		if t.now() > end {
			tb.Fatal("a peer that goes on is neither told that it was given up nor connected anew")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		tb.Error(err)
	}
}
