//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gobtl/cmd/btlvnic/agent"
	"gobtl/internal/bounded"
	"gobtl/vnic"
)

// serve answers HTTP requests on a unix socket, and serves metrics on a TCP address if the argument
// metrics is not empty. The returned function stop ends both servers.
func serve(
	env *environment, socket string, mux *http.ServeMux, metrics string, c prometheus.Collector,
) (stop func(), err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	mux.Handle("GET /metrics", bounded.InTurns(handler))
	local, err := listenUnix(socket)
	if err != nil {
		return nil, err
	}
	inside := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second} // a dump has no end
	start(env, local, inside)
	servers := []*http.Server{inside}
	if metrics != "" {
		l, err := net.Listen("tcp", metrics)
		if err != nil {
			_ = servers[0].Close()
			return nil, fmt.Errorf("cannot serve metrics: %w; choose another address with --metrics", err)
		}
		public := http.NewServeMux()
		public.Handle("GET /metrics", handler)
		outside := bounded.HTTPServer(public)
		start(env, bounded.HTTPListener(l), outside)
		servers = append(servers, outside)
		env.notef("metrics on http://%v/metrics", l.Addr())
	}
	return func() {
		for _, s := range servers {
			_ = s.Close() // a dump may never end, so do not wait
		}
	}, nil
}

// start serves a listener until the server's end.
func start(env *environment, l net.Listener, s *http.Server) {
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			env.notef("%v: %v", l.Addr(), err)
		}
	}()
}

// listenUnix creates the unix socket with access for its owner only. The socket of an ended process
// is replaced.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("%w; choose another place with --socket", err)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("%s is in use by another process; choose another with --socket", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path) // Listen reports a socket that is still there
	}
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; choose another place with --socket", err)
	}
	return l, nil
}

// The function reply answers a request with a JSON document, or with the text of err.
func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // an error means that the client is gone
}

// agentRoutes returns the HTTP routes of an agent.
func agentRoutes(a *agent.Agent) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /agent", func(w http.ResponseWriter, r *http.Request) {
		v, err := a.Report(r.Context())
		reply(w, v, err)
	})
	mux.HandleFunc("GET /ports", func(w http.ResponseWriter, r *http.Request) {
		v, err := a.Report(r.Context())
		reply(w, v.Ports, err)
	})
	mux.HandleFunc("GET /macs", func(w http.ResponseWriter, r *http.Request) {
		v, err := a.Entries(r.Context(), false)
		reply(w, v, err)
	})
	mux.HandleFunc("GET /fdb", func(w http.ResponseWriter, r *http.Request) {
		v, err := a.Entries(r.Context(), true)
		reply(w, v, err)
	})
	mux.HandleFunc("GET /counters", func(w http.ResponseWriter, r *http.Request) {
		v, err := a.Counters(r.Context())
		reply(w, v, err)
	})
	mux.HandleFunc("POST /ping", func(w http.ResponseWriter, r *http.Request) { ping(a, w, r) })
	mux.HandleFunc("GET /dump", func(w http.ResponseWriter, r *http.Request) {
		port, err := portOf(r)
		if err == nil {
			err = a.Dump(r.Context(), port, w, func() { _ = http.NewResponseController(w).Flush() })
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	return mux
}

func portOf(r *http.Request) (uint8, error) {
	n, err := strconv.ParseUint(r.FormValue("port"), 10, 8)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q: want 1 to 255", r.FormValue("port"))
	}
	return uint8(n), nil
}

// pong is the result of a probe.
type pong struct {
	MAC   string  `json:"mac"`
	LID   uint32  `json:"lid,omitempty"`
	RTTUs float64 `json:"rtt_us,omitempty"`
	Error string  `json:"error,omitempty"`
}

func ping(a *agent.Agent, w http.ResponseWriter, r *http.Request) {
	port, err := portOf(r)
	mac, macErr := vnic.ParseMAC(r.FormValue("mac"))
	timeout, timeErr := time.ParseDuration(r.FormValue("timeout"))
	if err := errors.Join(err, macErr, timeErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	rtt, lid, err := a.Ping(ctx, port, mac)
	p := pong{MAC: mac.String(), LID: lid, RTTUs: float64(rtt.Nanoseconds()) / 1e3}
	if err != nil {
		p = pong{MAC: mac.String(), Error: err.Error()}
	}
	reply(w, p, nil)
}

// switchReport describes a switch of the manager's file.
type switchReport struct {
	Name    string   `json:"name"`
	ID      uint16   `json:"id"`
	MTU     uint16   `json:"mtu"`
	Carrier string   `json:"carrier"`
	Hosts   []string `json:"hosts"`
}

// trapReport describes a trap (a notification by an agent) that has arrived.
type trapReport struct {
	SecondsAgo float64 `json:"seconds_ago"`
	Host       string  `json:"host"`
	Port       uint8   `json:"port"`
	Switch     uint16  `json:"switch"`
	Opcode     uint8   `json:"opcode"`
}

// routes returns the HTTP routes of a manager.
func (m *manager) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hosts", func(w http.ResponseWriter, r *http.Request) {
		var body []byte
		err := m.do(r.Context(), func() { body, _ = json.Marshal(m.core.Hosts()) })
		reply(w, json.RawMessage(body), err)
	})
	mux.HandleFunc("GET /switches", func(w http.ResponseWriter, r *http.Request) {
		list := []switchReport{}
		err := m.do(r.Context(), func() {
			for i := range m.core.Plan().Switches {
				s := &m.core.Plan().Switches[i]
				one := switchReport{
					Name: s.Name, ID: s.ID, MTU: s.MTU, Carrier: s.Options.Carrier.String(), Hosts: []string{},
				}
				for _, p := range s.Ports {
					one.Hosts = append(one.Hosts, p.Host)
				}
				list = append(list, one)
			}
		})
		reply(w, list, err)
	})
	mux.HandleFunc("GET /traps", func(w http.ResponseWriter, r *http.Request) {
		list := []trapReport{}
		err := m.do(r.Context(), func() {
			for _, t := range m.core.Traps() {
				list = append(list, trapReport{
					SecondsAgo: m.now().Sub(t.At).Seconds(), Host: t.Host, Port: t.Trap.Index,
					Switch: t.Trap.VESW, Opcode: t.Trap.Opcode,
				})
			}
		})
		reply(w, list, err)
	})
	return mux
}
