package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
)

// store is a client. It is for one goroutine.
type store struct {
	node    *call.Node
	runner  *runner.Runner
	dir     string
	members int
	peers   map[int]*btl.Endpoint
	names   map[int][]byte   // by which they were met
	gone    map[int][]byte   // of those that are not asked again until they have another one
	places  map[string]place // where values were found
	asked   int              // requests to members
}

// place is where a value is.
type place struct {
	member  int
	version uint64
	region  btl.Handle
	size    int
}

func newStore(node *call.Node, runner *runner.Runner, dir string, members int) *store {
	return &store{
		node: node, runner: runner, dir: dir, members: members, peers: map[int]*btl.Endpoint{},
		names: map[int][]byte{}, gone: map[int][]byte{}, places: map[string]place{},
	}
}

// openStore opens a client of its own.
func openStore(dir string, members int) (*store, error) {
	_, node, err := openNode()
	if err != nil {
		return nil, err
	}
	return newStore(node, node.Start(runner.Config{}, nil), dir, members), nil
}

func (s *store) close(ctx context.Context) error {
	return errors.Join(s.node.Close(ctx), s.runner.Close(ctx))
}

// peer connects to a member, if it is not connected. One that has just begun has no name yet.
func (s *store) peer(ctx context.Context, member int) (*btl.Endpoint, error) {
	if ep := s.peers[member]; ep != nil {
		return ep, nil
	}
	name, err := os.ReadFile(nameFile(s.dir, member))
	for begun := time.Now(); err != nil && time.Since(begun) < timeout; {
		time.Sleep(time.Millisecond)
		name, err = os.ReadFile(nameFile(s.dir, member))
	}
	if err != nil {
		return nil, err
	}
	if bytes.Equal(name, s.gone[member]) {
		return nil, errGone
	}
	s.names[member] = name
	ep, err := s.runner.Connect(ctx, name)
	if err != nil {
		return nil, err
	}
	s.peers[member] = ep
	return ep, nil
}

var errGone = errors.New("the member is gone")

// lost forgets a member after an error which says that it is gone. It is looked for anew when it
// has another name.
func (s *store) lost(member int, err error) {
	var remote call.RemoteError
	if err != nil && !errors.Is(err, btl.ErrRemoteAccess) && !errors.As(err, &remote) {
		delete(s.peers, member)
		s.gone[member] = s.names[member]
	}
}

// ask sends a member a request.
func (s *store) ask(ctx context.Context, member int, method uint16, request []byte,
) (answer []byte, err error) {
	ep, err := s.peer(ctx, member)
	if err == nil {
		s.asked++
		answer, err = s.node.Call(ctx, ep, method, request)
	}
	s.lost(member, err)
	return answer, err
}

var errNone = errors.New("there is no such value")

// find asks a member where a value is.
func (s *store) find(ctx context.Context, member int, key string) (place, error) {
	answer, err := s.ask(ctx, member, methodFind, []byte(key))
	if err != nil {
		return place{}, err
	}
	if len(answer) == 0 {
		return place{}, errNone
	}
	version, answer, err := takeNumber(answer)
	if err != nil {
		return place{}, err
	}
	region, answer, err := takeNumber(answer)
	if err != nil {
		return place{}, err
	}
	size, _, err := takeNumber(answer)
	if size > valueBytesMax {
		err = errRequest
	}
	return place{member, version, btl.Handle(region), int(size)}, err
}

// read reads a value where it is, without any work of the member.
func (s *store) read(ctx context.Context, member int, p place) ([]byte, error) {
	ep, err := s.peer(ctx, member)
	if err != nil {
		return nil, err
	}
	data := make([]byte, p.size)
	err = s.runner.Get(ctx, ep, data, p.region, 0)
	s.lost(member, err)
	return data, err
}

// get returns the value of a key: from where it was the last time, if it still is there.
func (s *store) get(ctx context.Context, key string) ([]byte, error) {
	if p, ok := s.places[key]; ok {
		if data, err := s.read(ctx, p.member, p); err == nil {
			return data, nil
		}
		delete(s.places, key)
	}
	var failed error
	for _, member := range ownersOf(key, s.members) {
		const tries = 3 // it may be replaced between question and get
		for range tries {
			p, err := s.find(ctx, member, key)
			var data []byte
			if err == nil {
				data, err = s.read(ctx, member, p)
			}
			if err == nil {
				s.places[key] = p
				return data, nil
			}
			if !errors.Is(err, btl.ErrRemoteAccess) {
				failed = errors.Join(failed, fmt.Errorf("member %d: %w", member, err))
				break
			}
		}
	}
	return nil, failed
}

// put gives a key a value at all members that should have it; one of them must be there.
func (s *store) put(ctx context.Context, key string, data []byte) error {
	version, done := uint64(time.Now().UnixNano()), 0
	var failed error
	for _, member := range ownersOf(key, s.members) {
		err := s.putAt(ctx, member, key, version, data)
		if err == nil {
			done++
		} else {
			failed = errors.Join(failed, fmt.Errorf("member %d: %w", member, err))
		}
	}
	if done > 0 {
		return nil
	}
	return failed
}

func (s *store) putAt(ctx context.Context, member int, key string, version uint64, data []byte,
) error {
	answer, err := s.ask(ctx, member, methodReserve, appendNumbers(nil, uint64(len(data))))
	if err != nil {
		return err
	}
	region, _, err := takeNumber(answer)
	if err != nil {
		return err
	}
	ep, err := s.peer(ctx, member)
	if err != nil {
		return err
	}
	if err := s.runner.Put(ctx, ep, data, btl.Handle(region), 0); err != nil {
		s.lost(member, err)
		return err
	}
	_, err = s.ask(ctx, member, methodCommit, append(appendNumbers(nil, region, version), key...))
	return err
}

// awaitSync waits until a member has its values.
func (s *store) awaitSync(ctx context.Context, member int) error {
	for {
		answer, err := s.ask(ctx, member, methodSynced, nil)
		if err == nil && len(answer) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
