// Package gobtl is the simple API of the transport. Programs that know each other's addresses
// exchange messages, calls and streams.
//
//	server                                 client
//	node, err := gobtl.Listen(":4000")     node, err := gobtl.Open()
//	node.Handle("greet", greet)            peer, err := node.Dial(ctx, "server:4000")
//	                                       answer, err := peer.Call(ctx, "greet", []byte("Ada"))
//
// Three things to know:
//
//   - Both sides of a connection can do the same, no matter which side has dialled. A Node can call
//     a peer that has dialled it, because handlers receive the Peer, which works in both
//     directions.
//   - A Peer is one connection. If the peer's program ends or stops answering, all pending calls of
//     the Peer return an error, and Peer.Done is closed. A new connection needs a new call of
//     Node.Dial.
//   - Messages might arrive in a different order than they were sent. Packets are neither encrypted
//     nor authenticated.
//
// What a Peer can do:
//
//	Call         a request and its answer, by the name of a method    -> Node.Handle
//	Send         a message, acknowledged when it was handled          -> Node.HandleMessage
//	Enqueue      a message that waits until the peer takes it         -> Node.Take
//	OpenStream   a net.Conn: bytes in order, in both directions       -> Node.Accept
//	Put, Get     memory of the peer                                   -> Peer.Expose
//
// Listen and Dial accept addresses in the form of package net, such as "server:4000",
// "192.0.2.1:4000" or "[::1]:4000". Listen accepts ":4000" for all addresses of this host. A Node
// uses two UDP ports: the given port and the port after it. A firewall must allow packets to both
// UDP ports of a Node.
//
// Two Nodes of the same user on one host can use shared memory instead of UDP
// (Config.SharedMemory).
//
// Package gobtl includes the providers udp, net (UDP on systems other than Linux), shm, and ofi
// (libfabric). The provider ofi needs cgo.
//
// Package gobtl is built on the packages btl (the transport), btl/runner (goroutines that use a
// transport), btl/call, btl/conn and btl/queue. The type Link gives access to these packages.
//
// Where to read:
//
//	node.go           Config, Listen, Open, Close
//	handle.go         what a Node does for its peers: Handle, HandleMessage, Accept, Take
//	peer.go           what a program asks of a peer
//	dial.go           from an address to a Peer
//	address.go        the addresses of this host
//	setup.go          Config.Setup, before any peer connects
//	limits.go         the ranges of times
//	network.go        one address of this host: a module, its Runner, and the layers on it
//	shared_memory.go  shared memory between Nodes of one host
package gobtl
