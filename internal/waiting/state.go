package waiting

// State says which other threads use the CPU of a waiting thread, as far as the thread's Policy
// knows.
type State uint8

// The states.
const (
	Alone  State = iota // no other thread: the thread spins before it sleeps
	Shared              // threads that wait, too: the thread yields to them
	Beside              // a thread that computes: the thread never yields to it
)

var stateNames = [...]string{Alone: "alone", Shared: "shared", Beside: "beside"}

// String returns the name of the state, which is alone, shared or beside.
func (s State) String() string { return stateNames[s] }

// Describe returns a description of the state for people.
func (s State) Describe() string {
	switch s {
	case Shared:
		return "other threads that wait share the CPU"
	case Beside:
		return "a program that computes shares the CPU"
	case Alone:
	}
	return "nothing else wants the CPU"
}

func (p *Policy) state() State {
	switch {
	case p.apart > p.lookAt:
		return Beside
	case p.shared:
		return Shared
	default:
		return Alone
	}
}
