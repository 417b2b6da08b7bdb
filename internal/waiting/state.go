package waiting

// State tells which work, in addition to the waiting thread, uses the CPU of this thread, according
// to the observations of the thread's Policy.
type State uint8

// The states.
const (
	Alone  State = iota // no other thread: the thread spins before it sleeps
	Shared              // threads that wait, too: the thread yields to them
	Beside              // a thread that computes: the thread never yields to it
	Stolen              // the host of this virtual machine: the thread spins briefly
	States              // the number of states
)

var stateTexts = [...][2]string{
	Alone:  {"alone", "nothing else wants the CPU"},
	Shared: {"shared", "other threads that wait share the CPU"},
	Beside: {"beside", "a program that computes shares the CPU"},
	Stolen: {"stolen", "the host of this virtual machine takes the CPU away"},
}

// String returns the name of the state, which is alone, shared, beside or stolen.
func (s State) String() string { return stateTexts[s][0] }

// Describe returns a description of the state for users of a program.
func (s State) Describe() string { return stateTexts[s][1] }
