package waiting

// State says which other threads a Policy believes to want the thread's processor.
type State uint8

// The states.
const (
	Alone  State = iota // no other thread: the thread spins before it sleeps
	Shared              // threads that wait, too: the thread yields to them
	Beside              // a thread that computes: the thread never yields to it
)

var stateNames = [...]string{Alone: "alone", Shared: "shared", Beside: "beside"}

// String returns the state's name: alone, shared or beside.
func (s State) String() string { return stateNames[s] }

// Describe returns what the state says of the processor, for people.
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

// state returns the state as of the latest find or question to the kernel.
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
