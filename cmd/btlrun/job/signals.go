//go:build unix

package job

import (
	"os"
	"syscall"
	"time"

	"gobtl/cmd/btlrun/agent"
)

// haltMost is the longest time for which a stopping btlrun waits for the agents to report that
// their ranks are stopped.
const haltMost = time.Second

// onSignal forwards a signal to the ranks. The second signal that asks for the end of the job kills
// the ranks.
func (j *job) onSignal(s os.Signal) {
	number, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	ends := number == syscall.SIGINT || number == syscall.SIGTERM || number == syscall.SIGHUP ||
		number == syscall.SIGQUIT
	if ends && j.asked {
		j.fail(128+int(number), "%v, again", number)
		j.kill()
		return
	}
	j.asked = j.asked || ends
	if number == syscall.SIGTSTP {
		j.stop()
		return
	}
	if number == syscall.SIGCONT {
		j.stopping = 0 // The ranks must continue, even if btlrun has not stopped yet.
		j.halt.Stop()
	}
	j.signal(number)
}

// stop handles a stop signal from the terminal. stop first stops the ranks, and then the
// operating-system process of btlrun.
func (j *job) stop() {
	if j.Suspend == nil {
		return
	}
	j.stopping = j.signal(syscall.SIGTSTP)
	j.halt.Reset(haltMost)
	if j.stopping == 0 {
		j.suspend()
	}
}

// onSignalled handles an agent's report that it has sent a signal to the ranks of its host.
func (j *job) onSignalled(body []byte) {
	if j.stopping == 0 || len(body) != 1 || syscall.Signal(body[0]) != syscall.SIGTSTP {
		return
	}
	if j.stopping--; j.stopping == 0 {
		j.suspend()
	}
}

// suspend stops the process of btlrun until a SIGCONT. The SIGCONT is forwarded to the ranks.
func (j *job) suspend() {
	j.stopping = 0
	j.halt.Stop()
	j.Suspend()
}

// kill sends SIGKILL to all ranks.
func (j *job) kill() {
	j.killing = true
	j.signal(syscall.SIGKILL)
	j.deadline.Reset(killed)
}

// signal sends a signal to all ranks, and returns the number of hosts with such ranks.
func (j *job) signal(s syscall.Signal) (hosts int) {
	for _, h := range j.hosts {
		if h.left > 0 && h.frames != nil {
			j.send(h, agent.Frame{Kind: agent.KindSignal, Body: []byte{byte(s)}})
			hosts++
		}
	}
	return hosts
}
