package conn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"strings"
	"sync"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
)

// Arith is the service of net/rpc's documentation.
type Arith struct{}

// Args are its arguments.
type Args struct{ A, B int }

// Multiply multiplies.
func (Arith) Multiply(args *Args, reply *int) error {
	*reply = args.A * args.B
	return nil
}

// Divide divides.
func (Arith) Divide(args *Args, reply *int) error {
	if args.B == 0 {
		return errors.New("divide by zero")
	}
	*reply = args.A / args.B
	return nil
}

func TestNetRPC(t *testing.T) {
	all(t, func(t *testing.T, with opener) {
		p := newPair(t, with, conn.Config{}, btl.Config{})
		server := rpc.NewServer()
		must(t, server.Register(Arith{}))
		var serving sync.WaitGroup
		defer serving.Wait()
		defer p.listener.Close()
		serving.Go(func() {
			for {
				c, err := p.listener.Accept()
				if err != nil {
					return
				}
				serving.Go(func() { server.ServeConn(c) })
			}
		})
		c, err := p.client.Dial(t.Context(), p.ep, "service")
		must(t, err)
		client := rpc.NewClient(c)
		defer client.Close()
		var callers sync.WaitGroup
		for i := range 8 {
			callers.Go(func() {
				for j := range 50 {
					var product int
					err := client.Call("Arith.Multiply", &Args{i, j}, &product)
					if err != nil || product != i*j {
						t.Errorf("%d x %d is %d, %v", i, j, product, err)
					}
				}
			})
		}
		callers.Wait()
		var quotient int
		err = client.Call("Arith.Divide", &Args{1, 0}, &quotient)
		if err == nil || err.Error() != "divide by zero" {
			t.Fatal(err)
		}
	})
}

func TestNetHTTP(t *testing.T) {
	all(t, func(t *testing.T, with opener) {
		p := newPair(t, with, conn.Config{}, btl.Config{})
		listener, err := p.server.Listen("")
		must(t, err)
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Path", r.URL.Path)
			body, _ := io.ReadAll(r.Body) // What is missing is missed by the client.
			_, _ = w.Write(body)
		})}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(listener) }()
		transport := &http.Transport{}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			if strings.HasPrefix(listener.Addr().String(), "127.0.0.1:") {
				return p.client.DialContext(ctx, "btl", listener.Addr().String())
			}
			return p.client.Dial(ctx, p.ep, "") // Of shared memory there are no addresses.
		}
		client := &http.Client{Transport: transport}
		var requests sync.WaitGroup
		for i := range 4 {
			requests.Go(func() {
				body := bytes.Repeat([]byte{byte(i)}, 1<<(8*i/2+8))
				url := fmt.Sprintf("http://name/%d", i)
				for range 3 {
					r, err := client.Post(url, "application/octet-stream", bytes.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(r.Body)
					r.Body.Close()
					if err != nil || !bytes.Equal(got, body) || r.Header.Get("Path") != url[11:] {
						t.Errorf("%d bytes of %d, path %q, %v", len(got), len(body), r.Header.Get("Path"), err)
					}
				}
			})
		}
		requests.Wait()
		transport.CloseIdleConnections()
		must(t, server.Shutdown(t.Context()))
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		gone(t, p.client, p.server)
	})
}
