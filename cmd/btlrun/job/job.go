//go:build unix

package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"gobtl/cmd/btlrun/agent"
	"gobtl/launch/pmi"
)

// killed is the time after a SIGKILL within which an agent must report that its ranks have ended.
const killed = 5 * time.Second

// Options are the parameters of a job.
type Options struct {
	Size  int
	Hosts []Host
	Args  []string // the program and its arguments
	Env   []string // without the variables of another launcher
	Dir   string   // working directory of the ranks, on each host

	Rsh   []string // the remote shell and its arguments
	Agent string   // path of btlrun on the other hosts

	Stdin          io.Reader // input for rank 0; nil: no input
	Stdout, Stderr io.Writer
	Label          bool // begin each line with the number of its rank
	Signals        <-chan os.Signal
	Suspend        func() // stops this process until SIGCONT; nil: unused

	Grace        time.Duration // time between SIGTERM and SIGKILL
	StartTimeout time.Duration // time for the agent of a host to answer
	KeepGoing    bool          // continue when a rank has died, or a host is lost
}

// job is the state of a running job.
type job struct {
	Options
	env            []string
	server         *pmi.Server
	hosts          []*host
	at             []*host // the host of each rank
	ended          []bool  // whether each rank has ended
	expelled       []bool  // whether each rank was killed for a violation of the protocol
	left           int     // ranks that have not ended
	stdout, stderr *outlet
	events         chan event
	done           chan struct{} // closed when the loop has ended
	input          *input
	unwritable     chan error // why Stdout or Stderr cannot be written

	failed   bool // the job is ending
	status   int
	asked    bool // a signal has asked the ranks to end
	deadline *time.Timer
	killing  bool

	stopping int         // hosts that have not yet acknowledged SIGTSTP
	halt     *time.Timer // ends the wait for the hosts
}

// Run runs a job to its end and returns the exit status of the job. The job's status is the status
// of the first rank that ended with a status other than 0, or 0 if there is none. A rank that was
// ended by a signal has the status 128 plus the number of the signal. Run returns an error only for
// failures of btlrun itself.
func Run(o Options) (status int, err error) {
	j := &job{
		Options: o, env: cleanEnv(o.Env), ended: make([]bool, o.Size), left: o.Size,
		expelled: make([]bool, o.Size),
		events:   make(chan event), done: make(chan struct{}), deadline: time.NewTimer(time.Hour),
		unwritable: make(chan error, 2), halt: time.NewTimer(time.Hour),
	}
	j.input = newInput(o.Stdin, j.done)
	defer close(j.done)
	j.deadline.Stop()
	j.halt.Stop()
	var label func(int) string
	if o.Label {
		label = rankLabel(len(strconv.Itoa(o.Size - 1)))
	}
	alone := o.Size == 1
	nodes := place(o.Hosts, o.Size)
	name := fmt.Sprintf("btlrun-%d-%d", os.Getpid(), time.Now().UnixNano())
	if j.server, err = pmi.NewServer(pmi.Config{Size: o.Size, Name: name, Nodes: nodes}); err != nil {
		return 1, err
	}
	j.stdout = newOutlet(newOutput(o.Stdout, label, alone), agent.KindStdout)
	j.stderr = newOutlet(newOutput(o.Stderr, label, alone), agent.KindStderr)
	j.stdout.out.failed = j.cannotWrite("standard output")
	j.stderr.out.failed = j.cannotWrite("standard error")
	for _, where := range o.Hosts {
		j.hosts = append(j.hosts, &host{
			name: where.Name, stopped: make(chan struct{}), credit: newCredits(),
		})
	}
	for rank, node := range nodes {
		h := j.hosts[node]
		h.ranks = append(h.ranks, rank)
		h.left++
		j.at = append(j.at, h)
	}
	j.startHosts()
	if o.Stdin != nil {
		go j.input.read()
	}
	j.loop()
	j.end()
	j.drain()
	return j.status, nil
}

// startHosts starts the agents of all hosts that have ranks. If an agent cannot be started, the job
// fails.
func (j *job) startHosts() {
	for i, h := range j.hosts {
		switch {
		case len(h.ranks) == 0:
			continue
		case j.failed:
			j.lose(h)
			continue
		}
		h.frames = make(chan agent.Frame, 64+4*len(h.ranks))
		err := j.connect(h, j.Hosts[i].Local)
		if err == nil {
			err = j.begin(h)
		}
		if err != nil {
			h.frames = nil
			j.fail(1, "%s: %v", h.name, err)
			j.lose(h)
		}
	}
}

// lose counts all ranks of a host as ended, because the connection to the host is lost.
func (j *job) lose(h *host) {
	for _, rank := range h.ranks {
		j.over(rank)
	}
}

// stdinRank returns the rank that receives standard input, or -1 if no rank receives input.
func (j *job) stdinRank() int {
	if j.Stdin == nil {
		return -1
	}
	return 0
}

// loop handles events until all ranks have ended.
func (j *job) loop() {
	for j.left > 0 {
		select {
		case e := <-j.events:
			j.happen(e)
		case piece := <-j.input.chunks:
			j.send(j.at[0], j.input.frame(piece))
		case s := <-j.Signals:
			j.onSignal(s)
		case err := <-j.unwritable:
			j.fail(1, "%v", err)
		case <-j.halt.C:
			j.suspend()
		case <-j.deadline.C:
			if j.killing {
				j.remark("%d ranks do not end", j.left)
				return
			}
			j.kill()
		}
	}
}

// happen handles an event of a host.
func (j *job) happen(e event) {
	h := e.host
	switch {
	case e.frame.Kind == agent.KindPMI:
		j.onLine(e.frame.Rank, e.frame.Body)
	case e.frame.Kind == agent.KindSignalled:
		j.onSignalled(e.frame.Body)
	case e.frame.Kind == agent.KindExit:
		j.onExit(e.frame)
	case h.left > 0: // The agent has ended before its ranks.
		why := e.err
		switch {
		case h.stuck:
			why = errStuck
		case why == nil:
			why = errors.New("the agent has ended")
		}
		if !errors.Is(why, ErrUnreached) {
			why = fmt.Errorf("is lost: %w", why)
		}
		j.died(h.ranks, 1, "%s %v", h.name, why)
		j.lose(h)
	}
}

// onLine passes a PMI line of a rank to the PMI server.
func (j *job) onLine(rank int, line []byte) {
	if j.failed || j.ended[rank] || j.expelled[rank] {
		return
	}
	replies, err := j.server.Handle(rank, line)
	for _, r := range replies {
		j.send(j.at[r.Rank], agent.Frame{Kind: agent.KindPMI, Rank: r.Rank, Body: []byte(r.Line)})
	}
	var abort *pmi.AbortError
	switch {
	case errors.As(err, &abort):
		status := abort.Code & 255
		if status == 0 {
			status = 1
		}
		j.fail(status, "rank %d aborts the job with %d", rank, abort.Code)
	case err != nil:
		j.expel(rank, err)
	}
}

// expel ends a rank that has violated the PMI protocol. With KeepGoing, the rank is killed, and the
// other ranks go on as after its death.
func (j *job) expel(rank int, why error) {
	j.died([]int{rank}, 1, "%v", why)
	if !j.failed {
		j.expelled[rank] = true
		j.send(j.at[rank], agent.Frame{Kind: agent.KindKill, Rank: rank})
	}
}

// onExit handles the end of a rank.
func (j *job) onExit(f agent.Frame) {
	var e agent.Exit
	if err := json.Unmarshal(f.Body, &e); err != nil || j.ended[f.Rank] {
		j.fail(1, "%s: rank %d has ended twice, or in an unknown way", j.at[f.Rank].name, f.Rank)
		return
	}
	j.over(f.Rank)
	one, where := []int{f.Rank}, fmt.Sprintf("rank %d on %s", f.Rank, j.at[f.Rank].name)
	switch {
	case j.expelled[f.Rank]: // The reason was told before.
	case len(e.Error) > 0 && e.Signal == 0:
		j.fail(max(e.Status, 1), "%s: %s", where, firstLine(e.Error))
	case len(e.Error) > 0:
		j.died(one, 128+e.Signal, "%s was killed: %s", where, firstLine(e.Error))
	case e.Signal != 0:
		j.died(one, 128+e.Signal, "%s was ended by signal %d (%v)", where, e.Signal,
			syscall.Signal(e.Signal))
	case e.Status != 0:
		j.died(one, e.Status, "%s ended with status %d", where, e.Status)
	case j.failed:
	default:
		if err := j.server.Leave(f.Rank); err != nil {
			j.died(one, 1, "%s: %v", where, err)
		}
	}
}

// died handles the death of ranks. The death of a rank ends the job, unless KeepGoing lets the
// other ranks continue. Even with KeepGoing the job ends if other ranks wait for a dead rank in a
// PMI barrier. The status of the job is the status of the first dead rank.
func (j *job) died(ranks []int, status int, format string, args ...any) {
	if !j.KeepGoing || j.failed {
		j.fail(status, format, args...)
		return
	}
	if j.status == 0 {
		j.status = status
	}
	j.remark(format, args...)
	for _, rank := range ranks {
		if err := j.server.Lose(rank); err != nil {
			j.fail(status, "%v", err)
			return
		}
	}
}

// The method over counts a rank as ended, because no further frames about the rank can arrive.
func (j *job) over(rank int) {
	if j.ended[rank] {
		return
	}
	j.ended[rank] = true
	j.left--
	j.at[rank].left--
	j.stdout.end(rank)
	j.stderr.end(rank)
}

// fail asks all ranks to end, and only the first reason counts.
func (j *job) fail(status int, format string, args ...any) {
	if j.failed {
		return
	}
	j.failed = true
	if j.status == 0 { // else another rank has died before
		j.status = status
	}
	j.remark(format, args...)
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT) // A stopped rank must run to receive SIGTERM.
	j.deadline.Reset(j.Grace)
}

// remark writes a message of btlrun to standard error, as one line.
func (j *job) remark(format string, args ...any) {
	j.stderr.say("btlrun: " + fmt.Sprintf(format, args...) + "\n")
}

// outlet returns the queue for output of the given kind.
func (j *job) outlet(kind agent.Kind) *outlet {
	if kind == agent.KindStdout {
		return j.stdout
	}
	return j.stderr
}

// send queues a frame for a host's agent. If the agent takes no more frames, its host is lost.
func (j *job) send(h *host, f agent.Frame) {
	if !h.send(f) && h.out != nil {
		h.stuck = true
		_ = h.out.Close() // The reader reports the end of the host.
	}
}

// end asks the agents to end, and waits for their last frames.
func (j *job) end() {
	limit := time.NewTimer(killed)
	defer limit.Stop()
	for _, h := range j.hosts {
		if h.frames == nil {
			continue // The agent was never started.
		}
		close(h.frames)
		for waiting := true; waiting; {
			select {
			case <-h.stopped:
				waiting = false
			case <-j.events: // frames of ranks that have ended
			case <-limit.C:
				if h.rsh != nil {
					_ = h.rsh.Process.Kill() // The shell may have ended by itself.
				}
				return
			}
		}
	}
}

// cannotWrite returns a function that reports a failed write to one of btlrun's outputs, for
// example because of a full disk.
func (j *job) cannotWrite(which string) func(error) {
	return func(err error) { j.unwritable <- fmt.Errorf("%s: %w", which, err) } // one of each
}

// cut records that a signal has ended btlrun before all output was written.
func (j *job) cut(s os.Signal) {
	if number, ok := s.(syscall.Signal); ok && j.status == 0 {
		j.status = 128 + int(number)
	}
}

// drain waits until all queued output is written, or until a signal asks btlrun to end. A write
// that fails during drain makes btlrun fail.
func (j *job) drain() {
	defer func() {
		select {
		case err := <-j.unwritable:
			if j.status == 0 {
				j.status = 1
			}
			_, _ = fmt.Fprintf(j.Stderr, "btlrun: %v\n", err) // standard error may be closed
		default:
		}
	}()
	j.stdout.close()
	j.stderr.close()
	ends := []<-chan struct{}{j.stdout.done, j.stderr.done}
	for _, h := range j.hosts {
		if h.remarks != nil {
			h.remarks.lines.end(0) // the last line possibly lacks its newline
			h.remarks.queue.close()
			ends = append(ends, h.remarks.queue.done)
		}
	}
	for _, end := range ends {
		for waiting := true; waiting; {
			select {
			case <-end:
				waiting = false
			case s := <-j.Signals:
				switch s {
				case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
					j.cut(s)
					return
				case syscall.SIGTSTP:
					if j.Suspend != nil {
						j.Suspend()
					}
				}
			}
		}
	}
}
