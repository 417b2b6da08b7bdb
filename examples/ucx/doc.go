// Command ucx is the two samples that UCX has, with their flags, over this transport: hello_world
// is ucp_hello_world, client_server is ucp_client_server.
//
//	ucx hello_world &                            # waits for a client, and tells it a text
//	ucx hello_world -n 127.0.0.1
//	ucx client_server -c am -i 10 -s 100000 &    # waits for a client, and checks what it sends
//	ucx client_server -c am -i 10 -s 100000 -a 127.0.0.1
//
// Both sides are given the same -c, -e, -i, -s, -t and -v. Streams (-c stream) are net.Conns of
// package btl/conn; tags (-c tag) and active messages (-c am) are package pml, driven by one
// goroutine, which polls (-b) or sleeps (-w, or -f, which is the same here). -t is the transport,
// UCX's UCX_TLS: udp or shm. As with UCX, a TCP connection carries the addresses of both (-p is its
// port). A server ends after its client, and refuses a second one. -e has a side die at a bad
// moment, which the other one must notice: it says so, and ends well.
package main
