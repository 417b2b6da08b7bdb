package bounded

import (
	"net"
	"net/http"
	"time"
)

const (
	httpGuests      = 64
	httpHeaderBytes = 16 << 10
	httpReadTime    = 5 * time.Second
	httpWriteTime   = 30 * time.Second
	httpIdleTime    = time.Minute
	httpBusy        = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n" +
		"Content-Length: 0\r\n\r\n"
)

// HTTPServer returns a server for short responses such as metrics, with time limits for requests
// and responses and a limit for the size of headers. All clients together get one response in
// 10 ms, in the order of their requests, so that clients that ask without a pause cannot take the
// CPU of the program. The server calls the handler for one request at a time. A response is
// written to the network from memory, and delays no other response. If responses of the server
// take long, the caller must increase the field WriteTimeout.
func HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: newTurns(h), DisableGeneralOptionsHandler: true, // its answers would take no turn
		ReadTimeout: httpReadTime, WriteTimeout: httpWriteTime, IdleTimeout: httpIdleTime,
		MaxHeaderBytes: httpHeaderBytes, ConnContext: whileGuest,
	}
}

// HTTPListener returns a Listener for the server that HTTPServer returns, and takes over the
// listener l. When 64 clients are connected, the next client replaces the oldest connection of the
// address with the most connections.
func HTTPListener(l net.Listener) *Listener { return NewListener(l, httpGuests, httpBusy) }
