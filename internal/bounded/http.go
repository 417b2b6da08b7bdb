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

// HTTPServer returns a server for short responses, such as metrics. The server limits the duration
// of requests and responses and the size of headers. All clients together get at most one response
// in 10 ms, so that frequent requests cannot use much CPU time of the program. The server answers
// requests in the order of their arrival. The server calls the handler for one request at a time.
// The server stores each response in memory before writing it to the network, so that a slow client
// does not delay the responses to other clients. If the handler h is slow, the caller must increase
// the field WriteTimeout of the returned server.
func HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: newTurns(h), DisableGeneralOptionsHandler: true, // its answers would take no turn
		ReadTimeout: httpReadTime, WriteTimeout: httpWriteTime, IdleTimeout: httpIdleTime,
		MaxHeaderBytes: httpHeaderBytes, ConnContext: whileGuest,
	}
}

// InTurns returns a handler that calls h for one request at a time, and answers at most one request
// in 10 ms, as HTTPServer does. Use InTurns instead of HTTPServer to limit the requests to one URL
// path of a server whose responses on other paths may take long.
func InTurns(h http.Handler) http.Handler { return newTurns(h) }

// HTTPListener returns a Listener for use with HTTPServer. After the call of HTTPListener, only the
// new Listener may use the listener l. When 64 clients are connected, the connection of the next
// client replaces the oldest connection of the host with the most connections.
func HTTPListener(l net.Listener) *Listener { return NewListener(l, httpGuests, httpBusy) }
