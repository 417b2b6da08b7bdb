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

// HTTPServer returns a server for short answers such as metrics: requests and answers have a time,
// headers a size. A server whose answers take longer changes WriteTimeout.
func HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: httpReadTime, WriteTimeout: httpWriteTime, IdleTimeout: httpIdleTime,
		MaxHeaderBytes: httpHeaderBytes,
	}
}

// HTTPListener takes over a listener for such a server. When 64 clients are there, the next one
// gets the place of the first one of those addresses that have most.
func HTTPListener(l net.Listener) *Listener { return NewListener(l, httpGuests, httpBusy) }
