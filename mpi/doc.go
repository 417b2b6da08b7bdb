// Package mpi is a message passing interface for parallel jobs. Package mpi implements ranks,
// communicators, requests, and messages matched by source and tag as MPI defines them. Package mpi
// is built on the packages pml and btl. Package launch provides each process with its rank and with
// the addresses of all ranks.
//
//	world, err := mpi.Init(ctx, mpi.Config{})       // with a provider imported: _ "gobtl/fabric/udp"
//	if world.Rank() == 0 {
//		err = mpi.Send(ctx, &world.Comm, []float64{1, 2, 3}, 1, 7)
//	} else {
//		status, err = mpi.Recv(ctx, &world.Comm, data, mpi.AnySource, 7)
//	}
//	err = world.Finalize(ctx)
//
// A message is a slice of values without pointers, such as numbers, or arrays and structs of
// numbers. The functions that send or receive take slices of a generic type instead of an MPI
// datatype argument. The functions of package mpi return errors as values. Each function that can
// wait has an argument of the type context.Context. If this argument is nil, the function returns
// ErrContext.
//
// All functions and methods of package mpi are safe for concurrent use by several goroutines,
// except that only one goroutine at a time may use a Request. A waiting call polls the transport
// and handles the arrived messages (it "drives the engine"). One poll of the transport with the
// handling of its messages is called a pass.
//
//	Send, Recv, Wait                   Isend, Irecv, Test            helper, a goroutine
//	  |  begin, not done?                |  begin                      |  nobody has made a pass for
//	  v                                  v                             v  some milliseconds?
//	drive, pass after pass until it    return                        sleep until something comes,
//	is done, poll, yield or sleep                                    then a pass
//	(internal/waiting)
//	  |  somebody drives already, sleep until it is done, or the driver leaves
//
// A goroutine that waits for a message polls the transport itself, so that the message need not be
// handed over from a polling goroutine. A rank that computes for minutes without a call of package
// mpi still answers its peers, provided that GOMAXPROCS exceeds the number of its computing
// threads.
//
// On the wire, the tag of a message contains the context of the communicator in the bits above the
// user's tag.
//
//	63       44 43        25   24    23        0
//	=========== ============ ======= ===========
//	 maker's    its count   inner    user's tag
//	 rank
//
// The bit named "inner" is 1 in messages that the library sends for its own purposes in the
// communicator. The context of a communicator is a number that rank 0 of the communicator makes
// from its own world rank and a counter.
package mpi
