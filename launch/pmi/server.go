package pmi

import (
	"errors"
	"fmt"
	"strings"
)

const (
	// storeBytesPerRank is the largest total size of the entries that one rank may put into the store.
	storeBytesPerRank = 1 << 20
	// storeEntryBytes is the size of the bookkeeping memory that the server counts for each entry, in
	// addition to the key and the value.
	storeEntryBytes = 96
)

// Callers can test for the following errors of a Server with errors.Is.
var (
	// ErrConfig means that the Config of a Server is invalid.
	ErrConfig = errors.New("pmi: invalid configuration")
	// ErrProtocol means that a client has violated the protocol, and that the job cannot continue.
	ErrProtocol = errors.New("pmi: protocol violated")
	// ErrGone means that a process or its connection has ended, before the process has sent the
	// command "finalize".
	ErrGone = errors.New("pmi: ended without finalize")
)

// AbortError means that a rank has aborted the job. An abort of a job does not violate the
// protocol, and therefore an AbortError does not wrap ErrProtocol.
type AbortError struct{ Rank, Code int }

func (e *AbortError) Error() string {
	return fmt.Sprintf("pmi: rank %d aborts the job with status %d", e.Rank, e.Code)
}

// Config describes the job that a Server serves.
type Config struct {
	Size int    // number of ranks, 1 to RanksMax
	Name string // name of the store, up to NameBytesMax; must be unique
	// Nodes has the node of each rank. If Nodes is nil, the server publishes no mapping from ranks
	// to nodes.
	Nodes []int
}

// Reply is a line to send to a rank. Line ends with a newline.
type Reply struct {
	Rank int
	Line string
}

// state is the state of a rank in the protocol.
type state uint8

const (
	fresh    state = iota // has sent no message
	joined                // init
	waiting               // in the barrier
	finished              // has finalized, or was lost before init
)

// Server is the PMI-1 server for all clients of a job. Each client goes through the states below.
//
//	fresh --init--> joined --barrier_in--> waiting --all are--> joined --finalize--> finished
//
// Only one goroutine at a time may use a Server. The caller of a Server passes the clients'
// lines to Handle, and sends the replies that Handle returns.
type Server struct {
	cfg     Config
	mapping string
	ranks   []state
	stored  []int // size of the entries that each rank has put into the store
	store   map[string]string
	inside  int // number of ranks in the barrier
	over    int // number of finished ranks
	// The field "spawning" has the ranks that have sent the first line, but not the last line, of a
	// spawn request.
	spawning map[int]bool
	replies  []Reply
}

// NewServer returns a server for a new job.
func NewServer(cfg Config) (*Server, error) {
	switch {
	case cfg.Size < 1 || cfg.Size > RanksMax:
		return nil, fmt.Errorf("%w: %d ranks, want 1 to %d", ErrConfig, cfg.Size, RanksMax)
	case !Good(cfg.Name, NameBytesMax):
		return nil, fmt.Errorf("%w: name %.40q", ErrConfig, cfg.Name)
	case cfg.Nodes != nil && len(cfg.Nodes) != cfg.Size:
		return nil, fmt.Errorf("%w: nodes of %d ranks of %d", ErrConfig, len(cfg.Nodes), cfg.Size)
	}
	s := &Server{
		cfg: cfg, ranks: make([]state, cfg.Size), stored: make([]int, cfg.Size),
		store: map[string]string{}, spawning: map[int]bool{},
	}
	if cfg.Nodes != nil {
		s.mapping = FormatMapping(cfg.Nodes)
	}
	return s, nil
}

// Finished returns the number of ranks that have finalized or ended, and therefore send no more
// messages.
func (s *Server) Finished() int { return s.over }

// Ended reports whether a rank has finalized or its process has ended, so that the rank sends no
// more messages. If Ended returns true for a rank, the server no longer needs the connection of
// this rank.
func (s *Server) Ended(rank int) bool { return s.ranks[rank] == finished }

// Welcome returns the lines that the server sends to a client that has connected to a TCP port and
// has sent its rank.
func (s *Server) Welcome(rank int) []string {
	return []string{
		"cmd=initack rc=0\n", fmt.Sprintf("cmd=set size=%d\n", s.cfg.Size),
		fmt.Sprintf("cmd=set rank=%d\n", rank), "cmd=set debug=0\n",
	}
}

// Handle processes a line from a rank, with or without the newline, and returns the replies to
// send. The replies that Handle returns are valid until the next call of Handle. After an error of
// Handle, the job cannot continue. The error of Handle is an *AbortError, or wraps ErrSyntax or
// ErrProtocol.
func (s *Server) Handle(rank int, line []byte) ([]Reply, error) {
	s.replies = s.replies[:0]
	err := s.handle(rank, line)
	if err != nil {
		var abort *AbortError
		if !errors.As(err, &abort) {
			err = fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	return s.replies, err
}

// Leave tells the server that the connection of a rank has ended. If the rank has sent messages,
// but not the command "finalize", Leave returns ErrGone. If the rank has sent no message, Leave
// records the rank as finished.
func (s *Server) Leave(rank int) error {
	switch s.ranks[rank] {
	case finished:
		return nil
	case fresh:
		return s.finish(rank) // not a parallel program, or ended before init
	case joined, waiting:
	}
	return fmt.Errorf("rank %d: %w", rank, ErrGone)
}

// Lose tells the server that the process of a rank has died, and that the remaining processes of
// the job continue. After Lose, no barrier of the job can complete any more. If ranks are waiting
// in a barrier at the time of the call, Lose returns an error, because the job cannot continue.
func (s *Server) Lose(rank int) error {
	switch s.ranks[rank] {
	case finished:
		return nil
	case waiting:
		s.inside--
	case fresh, joined:
	}
	if err := s.finish(rank); err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	return nil
}

func (s *Server) handle(rank int, line []byte) error {
	if rank < 0 || rank >= s.cfg.Size {
		return fmt.Errorf("%w: of %d ranks", ErrProtocol, s.cfg.Size)
	}
	if s.spawning[rank] {
		return s.spawn(rank, line)
	}
	m, err := Parse(line)
	if err != nil {
		return err
	}
	now := s.ranks[rank]
	// The command "abort" is allowed while the rank waits in the barrier, because a second thread of
	// the rank can send this command.
	if m.Cmd != "abort" && ((now == fresh) != (m.Cmd == "init") || now == waiting || now == finished) {
		return fmt.Errorf("%w: %s, which may not come now", ErrProtocol, m.Cmd)
	}
	switch m.Cmd {
	case "init":
		return s.init(rank, m)
	case "get_maxes":
		s.say(rank, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d", NameBytesMax, KeyBytesMax,
			ValueBytesMax)
	case "get_appnum":
		s.say(rank, "cmd=appnum appnum=0")
	case "get_universe_size":
		s.say(rank, "cmd=universe_size size=%d", s.cfg.Size)
	case "get_my_kvsname":
		s.say(rank, "cmd=my_kvsname kvsname=%s", s.cfg.Name)
	case "put":
		return s.put(rank, m)
	case "get":
		return s.get(rank, m)
	case "barrier_in":
		return s.barrier(rank)
	case "finalize":
		s.say(rank, "cmd=finalize_ack")
		return s.finish(rank)
	case "abort":
		code, err := m.Int("exitcode", -1<<31, 1<<31-1)
		if err != nil {
			return err
		}
		return &AbortError{Rank: rank, Code: code}
	default:
		return s.refuse(rank, m)
	}
	return nil
}

// The method "say" appends a line for a rank to the list of replies that Handle will return.
func (s *Server) say(rank int, format string, args ...any) {
	s.replies = append(s.replies, Reply{Rank: rank, Line: fmt.Sprintf(format, args...) + "\n"})
}

func (s *Server) init(rank int, m Message) error {
	version, err := m.Int("pmi_version", 0, 1<<30)
	if err != nil {
		return err
	}
	if version != 1 {
		s.say(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1")
		return fmt.Errorf("%w: version %d of PMI; here is 1", ErrProtocol, version)
	}
	s.ranks[rank] = joined
	s.say(rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	return nil
}

// The method "own" returns the key in a message. If the key-value store that the message names is
// not the store of this job, the method "own" returns an error. The method "own" does not check
// that the key has at most KeyBytesMax bytes.
func (s *Server) own(m Message) (key string, err error) {
	if name, _ := m.Get("kvsname"); name != s.cfg.Name {
		return "", fmt.Errorf("%w: %s of the store %.40q", ErrProtocol, m.Cmd, name)
	}
	key, _ = m.Get("key")
	if !Good(key, LineBytesMax) {
		return "", fmt.Errorf("%w: key %.80q", ErrSyntax, key)
	}
	return key, nil
}

func (s *Server) put(rank int, m Message) error {
	key, err := s.own(m)
	if err != nil {
		return err
	}
	value, ok := m.Get("value")
	_, there := s.store[key]
	switch size := s.stored[rank] + len(key) + len(value) + storeEntryBytes; {
	case !ok:
		return fmt.Errorf("%w: put without a value", ErrSyntax)
	case len(key) > KeyBytesMax:
		s.say(rank, "cmd=put_result rc=-1 msg=key_is_longer_than_%d_bytes", KeyBytesMax)
	case len(value) > ValueBytesMax:
		s.say(rank, "cmd=put_result rc=-1 msg=value_is_longer_than_%d_bytes", ValueBytesMax)
	case there || key == MappingKey:
		s.say(rank, "cmd=put_result rc=-1 msg=duplicate_key")
	case size > storeBytesPerRank:
		s.say(rank, "cmd=put_result rc=-1 msg=store_is_full")
	default:
		// The key and the value are substrings of the whole line, and are copied so that the store does
		// not keep the line in memory.
		s.store[strings.Clone(key)], s.stored[rank] = strings.Clone(value), size
		s.say(rank, "cmd=put_result rc=0 msg=success")
	}
	return nil
}

func (s *Server) get(rank int, m Message) error {
	key, err := s.own(m)
	if err != nil {
		return err
	}
	value, ok := s.store[key]
	if key == MappingKey {
		value, ok = s.mapping, s.mapping != "" && len(s.mapping) <= ValueBytesMax
	}
	if !ok {
		s.say(rank, "cmd=get_result rc=-1 msg=key_not_found value=unknown")
		return nil
	}
	s.say(rank, "cmd=get_result rc=0 msg=success value=%s", value)
	return nil
}

// barrier adds a rank to the barrier. When all ranks are in the barrier, the method "barrier" sends
// the replies that release the ranks. If some rank has already finished, the barrier cannot
// complete, and the method "barrier" returns ErrProtocol.
func (s *Server) barrier(rank int) error {
	if s.over > 0 {
		return fmt.Errorf("%w: a barrier in which %d ranks that have finished are missing", ErrProtocol,
			s.over)
	}
	s.ranks[rank] = waiting
	if s.inside++; s.inside < s.cfg.Size {
		return nil
	}
	s.inside = 0
	for r := range s.ranks {
		s.ranks[r] = joined
		s.say(r, "cmd=barrier_out")
	}
	return nil
}

// The method "finish" records that a rank sends no more messages. If ranks are waiting in the
// barrier, the method "finish" returns ErrProtocol.
func (s *Server) finish(rank int) error {
	s.ranks[rank] = finished
	s.over++
	if s.inside > 0 {
		return fmt.Errorf("%w: it has finished, and %d ranks wait for it in a barrier", ErrProtocol,
			s.inside)
	}
	return nil
}

// The method "refuse" replies to a request of PMI-1 that this server does not support.
func (s *Server) refuse(rank int, m Message) error {
	switch m.Cmd {
	case "publish_name", "lookup_name", "unpublish_name":
		what := map[string]string{
			"publish_name": "publish", "lookup_name": "lookup", "unpublish_name": "unpublish",
		}[m.Cmd]
		s.say(rank, "cmd=%s_result rc=-1 info=unsupported msg=unsupported", what)
	case "spawn":
		s.spawning[rank] = true
	default:
		return fmt.Errorf("%w: unknown command %.40q", ErrProtocol, m.Cmd)
	}
	return nil
}

// The method "spawn" ignores the lines of a spawn request, and refuses the request when its last
// line has arrived.
func (s *Server) spawn(rank int, line []byte) error {
	if EndsSpawn(line) {
		delete(s.spawning, rank)
		s.say(rank, "cmd=spawn_result rc=-1 msg=unsupported")
	}
	return nil
}
