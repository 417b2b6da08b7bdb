// Package stranger is an independent implementation of a peer. It was written from docs/protocol.md
// alone, without knowledge of the codec or the transport, and shares no code with them. The
// implementation therefore tests interoperability, like one in another language. Only its tests use
// the real module, as the peer.
//
//	host    two UDP sockets and one loop (host.go); it loses, repeats and delays datagrams itself,
//	        both ways, and judges what the other side sends before that (judge.go)
//	conn    handshake from both sides (shake.go, confirm.go), windows, Acks, Nacks (send.go,
//	        recv.go), cutting and Packs (cut.go), Pings and Parts (size.go), operations
//	        (remote.go), lone answers (lone.go); what is different where the carrier is
//	        reliable (rely.go)
//	codec   codec.go, hello.go, name.go
//
// A host's loop owns everything, and tests access it through do.
package stranger
