package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gobtl/btl"
	"gobtl/btl/call"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp" // the provider that this program uses
)

// The methods of a member. Numbers in requests and answers have 8 bytes, little-endian.
const (
	methodFind    uint16 = 1 // key: version, region and size; nothing if there is none
	methodReserve uint16 = 2 // size: a region to write the value to
	methodCommit  uint16 = 3 // region, version, key
	methodKeys    uint16 = 4 // all keys, each with a newline
	methodSynced  uint16 = 5 // whether it has all its values: one byte or none
)

// timeout is after how long a member that does not answer is given up.
const timeout = 2 * time.Second

// copies is how many members have a value.
const copies = 2

// ownersOf returns the members that have a key. The first one is asked first.
func ownersOf(key string, members int) (owners []int) {
	h := fnv.New32a()
	_, _ = io.WriteString(h, key) // it never fails
	first := int(h.Sum32() % uint32(members))
	for i := range min(copies, members) {
		owners = append(owners, (first+i)%members)
	}
	return owners
}

// nameFile is where a member tells its name.
func nameFile(dir string, member int) string { return filepath.Join(dir, strconv.Itoa(member)) }

// openNode opens a module with methods.
func openNode() (*btl.Module, *call.Node, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, nil, err
	}
	cfg := btl.Config{PeerTimeout: timeout, HandshakeTimeout: timeout}
	buffers, err := cfg.DomainConfig(infos[0])
	if err != nil {
		return nil, nil, err
	}
	domain, err := fabric.Open(infos[0], buffers)
	if err != nil {
		return nil, nil, err
	}
	module, err := btl.Open(domain, cfg)
	if err != nil {
		return nil, nil, err
	}
	node, err := call.New(module, call.Config{})
	return module, node, err
}

// value is the entry of a key in a member.
type value struct {
	version uint64
	region  *btl.Region // that all may read; in memory that nobody may write
}

// member keeps values. All of it belongs to the goroutine that drives its module.
type member struct {
	m        *btl.Module
	values   map[string]value
	reserved map[btl.Handle]*btl.Region
	synced   bool
}

// runMember is a member's process.
func runMember(index, members int, dir string) error {
	m, node, err := openNode()
	if err != nil {
		return err
	}
	s := &member{m: m, values: map[string]value{}, reserved: map[btl.Handle]*btl.Region{}}
	for method, h := range map[uint16]call.Inline{
		methodFind: s.find, methodReserve: s.reserve, methodCommit: s.commit, methodKeys: s.keys,
		methodSynced: s.isSynced,
	} {
		node.HandleInline(method, h)
	}
	name := m.Name()
	others := newStore(node, node.Start(runner.Config{}, nil), dir, members)
	// The member publishes its name before it copies the values, so that it also gets the values
	// that are written meanwhile.
	partial := nameFile(dir, index) + ".new"
	if err := os.WriteFile(partial, name, 0o600); err != nil {
		return err
	}
	if err := os.Rename(partial, nameFile(dir, index)); err != nil {
		return err
	}
	if err := s.sync(index, others); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// sync takes values from the members that have copies.
func (s *member) sync(index int, others *store) error {
	ctx := context.Background()
	for i := range others.members {
		if i == index {
			continue
		}
		list, err := others.ask(ctx, i, methodKeys, nil)
		if err != nil {
			continue // it is not there, or not yet
		}
		for key := range bytes.Lines(list) {
			key := string(bytes.TrimSuffix(key, []byte("\n")))
			if owners := ownersOf(key, others.members); owners[0] != index && owners[1] != index {
				continue
			}
			p, err := others.find(ctx, i, key)
			if err != nil {
				continue // it has been removed from there, or i is gone
			}
			data, err := others.read(ctx, i, p)
			if err != nil {
				continue // there is a newer one, which was written here, too
			}
			if err := others.runner.Do(ctx, func(*btl.Module) error {
				return s.keep(key, p.version, data)
			}); err != nil {
				return err
			}
		}
	}
	return others.runner.Do(ctx, func(*btl.Module) error {
		s.synced = true
		return nil
	})
}

// keep has a key have a value, if it is newer than that it has.
func (s *member) keep(key string, version uint64, data []byte) error {
	old, has := s.values[key]
	if has && old.version >= version {
		return nil
	}
	region, err := s.m.Expose(data, btl.RemoteRead)
	if err != nil {
		return err
	}
	s.values[key] = value{version, region}
	if has {
		old.region.Close() // whoever reads it is told
	}
	return nil
}

func (s *member) find(_ *btl.Endpoint, key, answer []byte) ([]byte, error) {
	v, ok := s.values[string(key)]
	if !ok {
		return answer, nil
	}
	return appendNumbers(answer, v.version, uint64(v.region.Handle()),
		uint64(len(v.region.Bytes()))), nil
}

// reserve exposes memory for a value to the requesting peer alone.
func (s *member) reserve(peer *btl.Endpoint, request, answer []byte) ([]byte, error) {
	size, _, err := takeNumber(request)
	if err != nil || size > valueBytesMax {
		return nil, fmt.Errorf("a value of %d bytes: %w", size, errors.Join(err, errRequest))
	}
	region := new(btl.Region)
	if err := s.m.ExposeAs(region, make([]byte, size), btl.RemoteWrite, peer); err != nil {
		return nil, err
	}
	s.reserved[region.Handle()] = region
	return appendNumbers(answer, uint64(region.Handle())), nil
}

// commit makes the content of a reserved region the value of a key.
func (s *member) commit(_ *btl.Endpoint, request, answer []byte) ([]byte, error) {
	handle, request, err := takeNumber(request)
	if err != nil {
		return nil, err
	}
	version, key, err := takeNumber(request)
	region := s.reserved[btl.Handle(handle)]
	if err != nil || region == nil {
		return nil, errors.Join(err, errRequest)
	}
	delete(s.reserved, btl.Handle(handle))
	data := region.Bytes()
	region.Close() // nothing is written there any more
	return answer, s.keep(string(key), version, data)
}

func (s *member) keys(_ *btl.Endpoint, _, answer []byte) ([]byte, error) {
	for key := range s.values {
		answer = append(append(answer, key...), '\n')
	}
	return answer, nil
}

func (s *member) isSynced(_ *btl.Endpoint, _, answer []byte) ([]byte, error) {
	if s.synced {
		answer = append(answer, 1)
	}
	return answer, nil
}

var errRequest = errors.New("malformed, or of nothing that is known")

func appendNumbers(b []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func takeNumber(b []byte) (n uint64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, errRequest
	}
	return binary.LittleEndian.Uint64(b), b[8:], nil
}
