package waiting

// State says what other work uses the CPU of a waiting thread, as far as the thread's Policy knows.
type State uint8

// The states.
const (
	Alone  State = iota // no other thread: the thread spins before it sleeps
	Shared              // threads that wait, too: the thread yields to them
	Beside              // a thread that computes: the thread never yields to it
	Stolen              // the host of this virtual machine: the thread spins briefly
)

// States lists all states.
var States = []State{Alone, Shared, Beside, Stolen}

var stateTexts = [...][2]string{
	Alone:  {"alone", "nothing else wants the CPU"},
	Shared: {"shared", "other threads that wait share the CPU"},
	Beside: {"beside", "a program that computes shares the CPU"},
	Stolen: {"stolen", "the host of this virtual machine takes the CPU away"},
}

// String returns the name of the state, which is alone, shared, beside or stolen.
func (s State) String() string { return stateTexts[s][0] }

// Describe returns a description of the state, to be shown to users.
func (s State) Describe() string { return stateTexts[s][1] }

func (p *Policy) state() State {
	switch {
	case p.apart > p.lookAt && p.taken:
		return Stolen
	case p.apart > p.lookAt:
		return Beside
	case p.shared:
		return Shared
	}
	return Alone
}
