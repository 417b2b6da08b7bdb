package main

import (
	"context"
	"encoding/json"
	"log"
	"maps"
	"net"
	"time"

	"gobtl"
)

// feed sends all values to each member that opens a stream. A stream has no limit of its size, but
// the answer of a call has one.
func (s *store) feed(node *gobtl.Node) {
	for c, err := node.Accept(); err == nil; c, err = node.Accept() {
		go s.write(c)
	}
}

// write writes all values to a stream, as one JSON object.
func (s *store) write(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	values := maps.Clone(s.values)
	s.mu.Unlock()
	_ = json.NewEncoder(c).Encode(values) // After an error the other member begins again.
}

// copyFrom merges all values of another member, and begins again after an error.
func (s *store) copyFrom(node *gobtl.Node, address string) {
	for err := s.read(node, address); err != nil; err = s.read(node, address) {
		log.Printf("copy from %s, next try in a second: %v", address, err)
		time.Sleep(time.Second)
	}
}

// read merges all values of another member. An object without its end is an error.
func (s *store) read(node *gobtl.Node, address string) error {
	peer, err := node.Dial(context.Background(), address)
	if err != nil {
		return err
	}
	c, err := peer.OpenStream(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	var values json.RawMessage
	if err = json.NewDecoder(c).Decode(&values); err == nil {
		err = s.merge(values)
	}
	return err
}
