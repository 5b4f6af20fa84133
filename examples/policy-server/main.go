// Policy-server is an example of a server with a cron job inside that runs in
// several processes: it serves a policy by HTTP and sends each new one to its
// receivers. README.md beside it tells the story; update.go is what cronce has
// to do with it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A server is one process of the policy server.
type server struct {
	name      string
	receivers []string // their addresses
}

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	name := flag.String("name", "policy-server", "name of this process")
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve at")
	receivers := flag.String("receivers", "", "addresses to send each new policy to, with commas between")
	plain := flag.Bool("plain", false, "send as a cron inside a process does, without cronce")
	flag.Parse()

	s := &server{name: *name, receivers: strings.Split(*receivers, ",")}
	jobs := s.updateOnce
	if *plain {
		jobs = s.updatePlain
	}
	return s.serve(ctx, *listen, jobs)
}

// serve serves the policy while the jobs run. When ctx ends, as by SIGTERM, it
// is drained: the jobs come to their end, then the requests.
func (s *server) serve(ctx context.Context, address string, jobs func(context.Context) error) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	web := &http.Server{Handler: s}
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(listener)
		cancel()
	}()
	err = errors.Join(jobs(ctx), web.Shutdown(context.Background()))
	if why := <-served; why != http.ErrServerClosed {
		err = errors.Join(err, why)
	}
	return err
}

// ServeHTTP answers each request with the policy in force.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Policy-Server", s.name)
	json.NewEncoder(w).Encode(policyAt(time.Now()))
}

// A policy is what is served and sent. A real one comes from the database that
// all processes share; this one changes each second.
type policy struct {
	Version int64  `json:"version"`
	Rules   string `json:"rules"`
}

func policyAt(t time.Time) policy {
	version := t.Unix()
	return policy{Version: version, Rules: fmt.Sprintf("who asks at :%02d is let in", version%60)}
}
