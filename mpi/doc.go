// Package mpi is a message passing interface for parallel jobs. The package offers MPI's model in
// Go, with ranks, communicators, requests, and messages that match by source and tag. Package mpi
// is built on the packages pml and btl. Package launch provides each process with its rank and with
// the addresses of the other ranks.
//
//	world, err := mpi.Init(ctx, mpi.Config{})       // with a provider imported: _ "gobtl/fabric/udp"
//	if world.Rank() == 0 {
//		err = mpi.Send(ctx, &world.Comm, []float64{1, 2, 3}, 1, 7)
//	} else {
//		status, err = mpi.Recv(ctx, &world.Comm, data, mpi.AnySource, 7)
//	}
//	err = world.Finalize(ctx)
//
// A message is a slice of values without pointers, which are numbers, and arrays and structs of
// numbers. Type parameters of functions take the place of MPI datatypes. The functions of package
// mpi return errors as values. A call that may wait takes a context, and returns ErrContext for a
// nil context.
//
// Any goroutine may call any function at any time, but only one goroutine at a time may use a
// Request. A call that waits polls the transport and handles arrived messages, which is called
// driving the engine. One poll of a call that drives the engine is called a pass.
//
//	Send, Recv, Wait                   Isend, Irecv, Test            helper, a goroutine
//	  |  begin, not done?                |  begin                      |  nobody has made a pass for
//	  v                                  v                             v  some milliseconds?
//	drive, pass after pass until it    return                        sleep until something comes,
//	is done, poll, yield or sleep                                    then a pass
//	(internal/waiting)
//	  |  somebody drives already, sleep until it is done, or the driver leaves
//
// The waiting goroutine receives its message itself, without help from another goroutine. A
// rank that computes for minutes still answers its peers, if GOMAXPROCS exceeds the number
// of computing threads.
//
// On the wire, the tag of a message contains the context of the communicator in the bits above the
// user's tag.
//
//	63       44 43        25   24    23        0
//	 maker's    its count   inner    user's tag
//	 rank
//
// The bit named inner is 1 in messages that the library itself sends in the communicator.
// The context of a communicator is made by its rank 0, and consists of the world rank of
// that process and a count.
package mpi
