package serve

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tclk-audit/tclk-audit/internal/api"
)

// guard lets pass to h what may be asked, by whom, and with what is said to
// browsers on every answer.
func (s *Server) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.busy.Add(1)
		defer s.busy.Done()
		s.requests.Add(1)
		w := &writer{ResponseWriter: rw}
		defer s.recovered(w, r)
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		refuse := func(status int, text, hint string) {
			head.Set("Connection", "close")
			api.Refuse(w, r, status, text, hint)
		}
		if c, ok := r.Context().Value(connKey{}).(*conn); ok && c.over {
			refuse(http.StatusServiceUnavailable, "too many connections are open", "ask again in a moment")
			return
		}
		// The port is not looked at: behind a tunnel it is another one, and a web
		// page that leads a name of its own to this machine has no name that is
		// allowed, whatever the port.
		if host := hostname(r.Host); !s.hosts[host] && !s.own(r, host) {
			s.misdirected.Add(1)
			refuse(http.StatusMisdirectedRequest, "this server does not go by the name of the request's Host", "ask for it by its address, or have --allow-host name it")
			return
		}
		if strings.HasPrefix(r.URL.Path, prefix+"/") && !s.origin(w, r) {
			s.misdirected.Add(1)
			refuse(http.StatusForbidden, "web pages of other origins may not ask here", "have --cors-origin name the origin")
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			head.Set("Allow", "GET, HEAD")
			refuse(http.StatusMethodNotAllowed, "the method is neither GET nor HEAD", "nothing can be changed here")
			return
		}
		if r.ContentLength != 0 {
			refuse(http.StatusRequestEntityTooLarge, "the request has a body", "ask without one")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// own reports whether the host is the address that the request came in at. An
// address is no name that somebody could have lead here.
func (s *Server) own(r *http.Request, host string) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	ip, at := net.ParseIP(host), net.ParseIP(hostname(local.String()))
	return ip != nil && at != nil && ip.Equal(at)
}

// origin reports whether the web page that asks, if one does, may: it is of this
// server, or of an origin that is allowed, which is then told so.
func (s *Server) origin(w http.ResponseWriter, r *http.Request) bool {
	head := w.Header()
	if len(s.origins) > 0 {
		head.Add("Vary", "Origin")
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	origin := strings.ToLower(origins[0])
	if len(origins) == 1 && s.origins[origin] {
		head.Set("Access-Control-Allow-Origin", origins[0])
		head.Set("Access-Control-Expose-Headers", "ETag, Link, Retry-After")
		head.Set("Cross-Origin-Resource-Policy", "cross-origin")
		return true
	}
	host, ok := originHost(origin)
	return ok && len(origins) == 1 && host == strings.ToLower(r.Host)
}

// originHost reads an origin: http or https, and a host with its port.
func originHost(origin string) (host string, ok bool) {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	return strings.ToLower(u.Host), true
}

// hostname is the host of host:port, or of a host alone, in lower case, without
// brackets and the dot of the root; "" where there is none.
func hostname(s string) string {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	} else if inner, ok := strings.CutPrefix(s, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return ""
		}
		s = inner
	}
	return strings.TrimSuffix(strings.ToLower(s), ".")
}

type connKey struct{}

// conn is a connection of the server: it bounds how long one write may take.
type conn struct {
	net.Conn
	over    bool // beyond the bound: whatever it asks, it is told so
	release func()
}

func (c *conn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeSeconds * time.Second)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}

// listener accepts what it may. A few connections beyond the bound are told so,
// and the rest is closed.
type listener struct {
	net.Listener
	s    *Server
	open atomic.Int64
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := int(l.open.Add(1))
		most := l.s.o.MaxConnections
		wrapped := &conn{Conn: c, over: n > most, release: sync.OnceFunc(func() { l.open.Add(-1) })}
		if n > most {
			l.s.refused.Add(1)
		}
		if n <= most+overConnections {
			return wrapped, nil
		}
		_ = wrapped.Close() // nobody is told
	}
}

// Paths lists the paths that are answered, those of the API with their prefix,
// and the names of variable parts in braces.
func (s *Server) Paths() (list []string) {
	for _, p := range s.paths() {
		list = append(list, strings.TrimSuffix(p.path, "{$}"))
	}
	for _, p := range api.Paths() {
		list = append(list, prefix+p)
	}
	slices.Sort(list)
	return list
}
