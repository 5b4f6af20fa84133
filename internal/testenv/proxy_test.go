package testenv

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// listen takes questions on a line each, tells of them, and answers with the
// same line.
func listen(t *testing.T) (addr string, asked chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked = make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewReader(c); ; {
					line, err := lines.ReadString('\n')
					if err != nil {
						return
					}
					asked <- line
					io.WriteString(c, line)
				}
			}()
		}
	}()
	return l.Addr().String(), asked
}

// A client has one connection through a proxy.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, addr string) client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{t, c}
}

// ask asks, and waits so long for the answer.
func (c client) ask(patience time.Duration) error {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "question\n"); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len("question\n")))
	return err
}

func (c client) answered() {
	c.t.Helper()
	if err := c.ask(time.Minute); err != nil {
		c.t.Errorf("no answer: %v", err)
	}
}

const moment = 200 * time.Millisecond

func TestProxy(t *testing.T) {
	t.Parallel()
	server, asked := listen(t)
	p, other := NewProxy(t, server), NewProxy(t, "scheme://user@"+server+"/path")
	if want := "scheme://user@" + other.Addr() + "/path"; other.URL() != want {
		t.Errorf("its URL is %s, not %s", other.URL(), want)
	}
	beside := dial(t, other.Addr())
	reached := func(want bool) {
		t.Helper()
		select {
		case <-asked:
			if !want {
				t.Error("the question has reached the server")
			}
		case <-time.After(map[bool]time.Duration{true: time.Minute, false: moment}[want]):
			if want {
				t.Error("the question has not reached the server")
			}
		}
	}
	heard := func() {
		t.Helper()
		beside.answered()
		reached(true)
		c := dial(t, p.Addr())
		c.answered()
		reached(true)
	}
	heard()

	c := dial(t, p.Addr())
	p.Delay(moment)
	began := time.Now()
	c.answered()
	if took := time.Since(began); took < moment {
		t.Errorf("an answer with a delay of %s came after %s", moment, took)
	}
	reached(true)
	p.Restore()
	c.answered()
	reached(true)

	for name, fault := range map[string]func(){"drop replies": p.DropReplies, "black hole": p.Blackhole} {
		open := dial(t, p.Addr())
		open.answered()
		reached(true)
		fault()
		for _, c := range []client{open, dial(t, p.Addr())} {
			if err := c.ask(moment); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: a client gets %v", name, err)
			}
			reached(name == "drop replies")
		}
		beside.answered()
		reached(true)
		p.Restore()
		heard()
	}

	open := dial(t, p.Addr())
	open.answered()
	reached(true)
	p.CutReplies()
	if err := open.ask(time.Minute); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("replies are cut: a client gets %v", err)
	}
	reached(true)
	if err := dial(t, p.Addr()).ask(time.Minute); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("replies are cut: a new client gets %v", err)
	}
	reached(true)
	p.Restore()
	heard()

	open = dial(t, p.Addr())
	open.answered()
	reached(true)
	p.Cut()
	open.SetDeadline(time.Now().Add(time.Minute))
	if _, err := open.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it is cut: a client gets %v", err)
	}
	refused(t, p.Addr())
	beside.answered()
	reached(true)
	p.Restore()
	heard()
}
