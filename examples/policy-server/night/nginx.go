package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// nginxConf is a whole configuration: its folder, the upstream servers, the
// address. A server that refuses, or goes away before it has answered, is no
// reason for an error: the request goes to the next. max_fails=0 because by default one
// refusal takes a server out for ten seconds, in which the others are restarted.
const nginxConf = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/nginx-body;
	proxy_temp_path       %[1]s/nginx-proxy;
	fastcgi_temp_path     %[1]s/nginx-fastcgi;
	uwsgi_temp_path       %[1]s/nginx-uwsgi;
	scgi_temp_path        %[1]s/nginx-scgi;
	upstream policy {
%[2]s	}
	server {
		listen %[3]s;
		location / {
			proxy_pass http://policy;
			proxy_next_upstream error timeout;
		}
	}
}
`

// startNginx starts nginx before the servers, and visitors who ask it.
func (n *night) startNginx() (*visits, error) {
	address, err := freePort()
	if err != nil {
		return nil, err
	}
	var upstream strings.Builder
	for _, s := range n.servers {
		fmt.Fprintf(&upstream, "\t\tserver %s max_fails=0;\n", s.address)
	}
	conf := filepath.Join(n.dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, n.dir, upstream.String(), address), 0o600); err != nil {
		return nil, err
	}
	p, err := n.start("nginx", nil, n.nginx, "-e", "stderr", "-p", n.dir, "-c", conf)
	if err != nil {
		return nil, err
	}
	url := "http://" + address + "/policy"
	err = n.ready(p, func() error {
		_, err := ask(n.ctx, url)
		return err
	})
	if err != nil {
		return nil, err
	}
	v := &visits{versions: map[int64]bool{}, stop: make(chan struct{})}
	for range 2 {
		v.visitors.Go(func() { v.visit(n, url) })
	}
	return v, nil
}

// visits are what visitors see of the policy server, through nginx.
type visits struct {
	visitors sync.WaitGroup
	stop     chan struct{}
	stopping sync.Once

	mu       sync.Mutex
	answered int
	failed   []string       // what went wrong
	versions map[int64]bool // of the policy
	rolling  bool           // a server is being restarted
	meantime int            // answered meanwhile
}

// visit asks again and again.
func (v *visits) visit(n *night, url string) {
	for {
		body, err := ask(n.ctx, url)
		var policy struct{ Version int64 }
		if err == nil {
			err = json.Unmarshal(body, &policy)
		}
		v.mu.Lock()
		switch {
		case n.ctx.Err() != nil:
		case err != nil:
			v.failed = append(v.failed, err.Error())
		default:
			v.answered++
			v.versions[policy.Version] = true
			if v.rolling {
				v.meantime++
			}
		}
		v.mu.Unlock()
		select {
		case <-v.stop:
			return
		case <-n.ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// whileRestarting counts by itself what is answered until its result is called.
func (v *visits) whileRestarting() (over func()) {
	set := func(rolling bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.rolling = rolling
	}
	set(true)
	return func() { set(false) }
}

// end ends the visits.
func (v *visits) end() {
	v.stopping.Do(func() { close(v.stop) })
	v.visitors.Wait()
}
