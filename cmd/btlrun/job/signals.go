//go:build unix

package job

import (
	"os"
	"syscall"
	"time"

	"gobtl/cmd/btlrun/agent"
)

// haltMost bounds the wait for the agents to confirm that their ranks are stopped, before this
// process stops.
const haltMost = time.Second

// onSignal forwards a signal. A second request to end forces the end.
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
		j.stopping = 0 // The ranks are to go on, also if this process was not stopped yet.
		j.halt.Stop()
	}
	j.signal(number)
}

// stop stops the ranks, and then this process, after a stop signal from the terminal.
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

// onSignalled takes note that the ranks of a host have been sent a signal.
func (j *job) onSignalled(body []byte) {
	if j.stopping == 0 || len(body) != 1 || syscall.Signal(body[0]) != syscall.SIGTSTP {
		return
	}
	if j.stopping--; j.stopping == 0 {
		j.suspend()
	}
}

// suspend stops this process. The signal that continues it is forwarded to the ranks.
func (j *job) suspend() {
	j.stopping = 0
	j.halt.Stop()
	j.Suspend()
}

// kill ends the ranks whether they want or not.
func (j *job) kill() {
	j.killing = true
	j.signal(syscall.SIGKILL)
	j.deadline.Reset(killed)
}

// signal sends a signal to all ranks, and returns how many hosts have it.
func (j *job) signal(s syscall.Signal) (hosts int) {
	for _, h := range j.hosts {
		if h.left > 0 && h.frames != nil {
			j.send(h, agent.Frame{Kind: agent.KindSignal, Body: []byte{byte(s)}})
			hosts++
		}
	}
	return hosts
}
