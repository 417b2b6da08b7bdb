package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"gobtl"
	"gobtl/btl/btlprom"
)

// store has the values. Each begins with the time of its put, so the greater of two is newer.
type store struct {
	mu     sync.Mutex
	values map[string]string
}

// merge takes values, in JSON, that are newer than those of the store.
func (s *store) merge(data []byte) error {
	var more map[string]string
	err := json.Unmarshal(data, &more)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, value := range more {
		s.values[key] = max(s.values[key], value)
	}
	return err
}

// get answers with the value of a key.
func (s *store) get(_ context.Context, req *gobtl.Request) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(map[string]string{string(req.Body): s.values[string(req.Body)]})
}

// ask sends a request to all members at once, and merges the answers until enough have come.
func (s *store) ask(node *gobtl.Node, to []string, enough int, method string, body []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	results := make(chan error, len(to))
	for _, address := range to {
		go func() {
			peer, err := node.Dial(ctx, address)
			if err == nil {
				var answer []byte
				if answer, err = peer.Call(ctx, method, body); err == nil {
					err = s.merge(answer)
				}
			}
			results <- err
		}()
	}
	var failed error
	for range to {
		if err := <-results; err != nil {
			failed = errors.Join(failed, err)
		} else if enough--; enough == 0 {
			return nil
		}
	}
	return failed
}

func serve(s *store, own string, others []string, metrics string) {
	put := func(_ context.Context, req *gobtl.Request) ([]byte, error) {
		return []byte("{}"), s.merge(req.Body)
	}
	node, err := gobtl.Config{Setup: func(n *gobtl.Node) error { // before the copy: no put is missed
		return n.Handle("put", put)
	}}.Listen(own)
	check(err)
	go s.feed(node)
	for _, other := range others {
		s.copyFrom(node, other)
	}
	check(node.Handle("get", s.get)) // after the copy: until then a get finds no such method
	fmt.Println("copied from all others")
	prometheus.MustRegister(btlprom.NewNodeCollector(node.Stats, nil))
	check(http.ListenAndServe(metrics, promhttp.Handler()))
}

func main() {
	s := &store{values: map[string]string{}}
	node, err := gobtl.Open() // of a client
	check(err)
	switch a := os.Args[1:]; {
	case len(a) == 5 && a[0] == "serve":
		serve(s, a[2], a[3:], a[1])
	case len(a) == 6 && a[0] == "put":
		value := fmt.Sprint(time.Now().UnixNano(), " ", a[5])
		body, _ := json.Marshal(map[string]string{a[4]: value}) // It never fails for strings.
		check(s.ask(node, a[1:4], 2, "put", body))
	case len(a) == 5 && a[0] == "get":
		check(s.ask(node, a[1:4], 2, "get", []byte(a[4])))
		s.mu.Lock() // The third answer may come now.
		_, value, _ := strings.Cut(s.values[a[4]], " ")
		s.mu.Unlock()
		fmt.Println(value)
	default:
		log.Fatal("want: store serve METRICS OWN OTHER OTHER, put A B C KEY VALUE, get A B C KEY")
	}
	check(node.Close(context.Background())) // tells the members that this client ends
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
