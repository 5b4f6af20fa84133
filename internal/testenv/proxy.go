package testenv

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server, and can keep them apart. Give
// each client its own, and one alone can be cut off. Before anything is done
// to it, it only passes on. What is done to it holds, for all connections, also
// those that are open already, until Restore; one thing more can be done
// on top of another.
//
// It is a TCP connection's end for both sides: where the server is gone, the
// client is let in and then closed.
type Proxy struct {
	t      testing.TB
	name   string
	addr   string
	target string
	toxics []string
}

// NewProxy makes a proxy for what listens at the target, a URL or HOST:PORT.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	s, err := toxiproxy()
	if err != nil {
		t.Fatal(err)
	}
	host := target
	if strings.Contains(target, "://") {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		host = u.Host
	}
	var p *Proxy
	for {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		p = &Proxy{t: t, name: "proxy" + strconv.Itoa(port), addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), target: target}
		err = s.ask("POST", "/proxies", map[string]any{"name": p.name, "listen": p.addr, "upstream": host, "enabled": true})
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "address already in use") {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		s.show(t)
		if err := s.ask("DELETE", "/proxies/"+p.name, nil); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Addr is where the proxy listens: HOST:PORT.
func (p *Proxy) Addr() string { return p.addr }

// URL is the target's URL through the proxy.
func (p *Proxy) URL() string {
	u, err := url.Parse(p.target)
	if err != nil || u.Host == "" {
		p.t.Fatalf("the proxy's target %s is no URL", p.target)
	}
	u.Host = p.addr
	return u.String()
}

// Delay has each reply come so much later.
func (p *Proxy) Delay(d time.Duration) {
	p.t.Helper()
	p.add("latency", "downstream", map[string]any{"latency": d.Milliseconds()})
}

// DropReplies lets requests reach the server, and nothing come back: the
// client waits for what has been done. Connections stay open; Restore closes
// those that were.
func (p *Proxy) DropReplies() {
	p.t.Helper()
	p.add("timeout", "downstream", map[string]any{"timeout": 0})
}

// CutReplies lets requests reach the server, and closes the connection in
// place of the reply; with a reset, where it was made after this.
func (p *Proxy) CutReplies() {
	p.t.Helper()
	p.add("reset_peer", "downstream", map[string]any{"timeout": 0})
}

// Blackhole lets nothing through in either direction, and closes and refuses
// nothing. Restore closes the connections that were open.
func (p *Proxy) Blackhole() {
	p.t.Helper()
	p.add("timeout", "upstream", map[string]any{"timeout": 0})
	p.add("timeout", "downstream", map[string]any{"timeout": 0})
}

// Cut closes all connections, on both sides, and refuses new ones.
func (p *Proxy) Cut() {
	p.t.Helper()
	p.ask("POST", "", map[string]any{"enabled": false})
}

// Restore undoes all that was done.
func (p *Proxy) Restore() {
	p.t.Helper()
	for _, name := range p.toxics {
		p.ask("DELETE", "/toxics/"+name, nil)
	}
	p.toxics = nil
	p.ask("POST", "", map[string]any{"enabled": true})
}

func (p *Proxy) add(kind, stream string, attributes map[string]any) {
	p.t.Helper()
	name := fmt.Sprintf("%d-%s-%s", len(p.toxics), kind, stream)
	p.ask("POST", "/toxics", map[string]any{"name": name, "type": kind, "stream": stream, "attributes": attributes})
	p.toxics = append(p.toxics, name)
}

func (p *Proxy) ask(method, path string, body any) {
	p.t.Helper()
	s, err := toxiproxy()
	if err == nil {
		err = s.ask(method, "/proxies/"+p.name+path, body)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// A toxiproxyServer is the program that all proxies of this process are in.
type toxiproxyServer struct{ *Server }

const toxiproxyTool = "github.com/Shopify/toxiproxy/v2/cmd/server"

// toxiproxy is built by the go command, which keeps it, and asked by HTTP: as
// a library it would stand in the go.mod of all who use cronce.
var toxiproxy = sync.OnceValues(func() (*toxiproxyServer, error) {
	cmd := exec.Command("go", "tool", "-modfile=.ci/tools.mod", "-n", toxiproxyTool)
	cmd.Dir = moduleRoot()
	path, err := output(cmd, "")
	if err != nil {
		return nil, err
	}
	server, err := newServer(nil, "toxiproxy", "")
	if err != nil {
		return nil, err
	}
	s := &toxiproxyServer{server}
	s.ready = func() error { return s.ask("GET", "/version", nil) }
	return s, s.begin(func() error {
		s.argv = []string{path, "-host", "127.0.0.1", "-port", strconv.Itoa(s.port)}
		return nil
	})
})

func (s *toxiproxyServer) ask(method, path string, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, "http://"+s.Addr()+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := toxiproxyClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("toxiproxy: %s %s: %s\n%s", method, path, resp.Status, answer)
	}
	return err
}

// toxiproxyClient keeps no connection open: tests count goroutines.
var toxiproxyClient = &http.Client{Timeout: startTime, Transport: &http.Transport{DisableKeepAlives: true}}
