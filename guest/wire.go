package guest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// A guest that starts reads one Config. Whatever a general decoder learns of types it
// would learn for this one time, so a Config has a form that takes no time to read. It
// is in a frame of JSON, which begins with the version: a guest and a host of different
// builds can say that they are.
const (
	configHead = `{"protocol":`
	configBody = `,"config":"`
	configTail = `"}`
)

// Encode writes the Config as a guest reads it.
func (cfg *Config) Encode() []byte {
	var w wire
	w.config(cfg)
	buf := strconv.AppendInt([]byte(configHead), Protocol, 10)
	buf = base64.StdEncoding.AppendEncode(append(buf, configBody...), w.out)
	return append(buf, configTail...)
}

// decodeConfig reads what Encode wrote.
func decodeConfig(data []byte) (*Config, error) {
	rest, is := bytes.CutPrefix(data, []byte(configHead))
	number, _, _ := bytes.Cut(rest, []byte(","))
	protocol, err := strconv.Atoi(string(number))
	if !is || err != nil {
		return nil, errNonsense
	}
	if protocol != Protocol {
		return nil, fmt.Errorf("guest: croft speaks version %d of the protocol and this croft-guest %d: %w: both must come from one build",
			protocol, Protocol, fault.Failed)
	}
	rest, begins := bytes.CutPrefix(rest[len(number):], []byte(configBody))
	rest, ends := bytes.CutSuffix(rest, []byte(configTail))
	body, err := base64.StdEncoding.AppendDecode(nil, rest)
	if !begins || !ends || err != nil {
		return nil, errNonsense
	}
	cfg, w := new(Config), wire{in: &reader{data: body}}
	w.config(cfg)
	return cfg, w.in.end()
}

// A wire writes values one after the other, or reads them: what there is, and in which
// order, is said once for both.
type wire struct {
	out []byte
	in  *reader // nil is to write
}

func (w *wire) config(c *Config) {
	for _, s := range []*string{&c.Version, &c.Workspace, (*string)(&c.Level), &c.Root, &c.NewRoot, &c.Hostname, &c.Token} {
		wireText(w, s)
	}
	for _, n := range []*int{&c.UID, &c.GID, &c.Relay, &c.Threads} {
		wireNumber(w, n)
	}
	wireNumber(w, &c.Lease)
	wireNumber(w, &c.Retain)
	w.flags(&c.Loopback, &c.Away, &c.Subreaper, &c.Files, &c.ReadOnly, &c.Sync, &c.WatchDisk)
	wireList(w, &c.Mounts, (*wire).mount)
	wireList(w, &c.Same, func(w *wire, s *Same) {
		wireText(w, &s.Path)
		wireText(w, &s.File)
	})
	wireMap(w, &c.Env, wireText)
	w.confine(&c.Confine)
	wireList(w, &c.Groups, wireText)
	wireMap(w, (*map[driver.Resource]driver.Limit)(&c.Limits), func(w *wire, l *driver.Limit) {
		wireNumber(w, &l.Max)
		w.flags(&l.BestEffort)
	})
	wireMap(w, &c.Descriptors, wireNumber)
	wireMap(w, &c.Paths, wireText)
	roots := string(c.Roots)
	if wireText(w, &roots); roots != "" {
		c.Roots = []byte(roots)
	}
	wirePointer(w, &c.Kernel, func(w *wire, k *Kernel) {
		wireList(w, &k.Args, wireText)
		wireText(w, &k.Bundle)
		wirePointer(w, &k.Inner, (*wire).config)
	})
}

func (w *wire) confine(c *Confine) {
	w.flags(&c.NoNewPrivs, &c.DropCaps, &c.Seccomp, &c.NoNetwork, &c.NoSetID)
	wireList(w, &c.ReadWrite, wireText)
	wireList(w, &c.ReadOnly, wireText)
}

func (w *wire) mount(m *Mount) {
	for _, s := range []*string{(*string)(&m.Kind), &m.Target, &m.Source, &m.Upper, &m.Work, &m.Data} {
		wireText(w, s)
	}
	wireList(w, &m.Lower, wireText)
	w.flags(&m.ReadOnly, &m.NoExec, &m.Dev, &m.Optional)
	wireNumber(w, &m.Mode)
}

// flags are one number, with a bit for each.
func (w *wire) flags(flags ...*bool) {
	var bits int64
	for i, f := range flags {
		if *f {
			bits |= 1 << i
		}
	}
	wireNumber(w, &bits)
	for i, f := range flags {
		*f = bits&(1<<i) != 0
	}
}

// count is how many things follow.
func (w *wire) count(n int) int {
	if w.in != nil {
		return w.in.count()
	}
	w.out = binary.AppendUvarint(w.out, uint64(n)) //nolint:gosec // it is a length
	return n
}

func wireText(w *wire, s *string) {
	if w.in != nil {
		*s = w.in.text()
		return
	}
	w.out = putText(w.out, *s)
}

func wireNumber[T ~int | ~int64 | ~uint32](w *wire, n *T) {
	if w.in != nil {
		*n = T(w.in.number())
		return
	}
	w.out = binary.AppendVarint(w.out, int64(*n))
}

func wireList[T any](w *wire, list *[]T, each func(*wire, *T)) {
	n := w.count(len(*list))
	if w.in != nil && n > 0 {
		const most = 1 << 10 // of those that have room before they are seen
		*list = make([]T, 0, min(n, most))
	}
	for i := range n {
		if w.in != nil && w.in.bad {
			return
		}
		if w.in != nil {
			*list = append(*list, *new(T))
		}
		each(w, &(*list)[i])
	}
}

func wireMap[K ~string, T any](w *wire, table *map[K]T, each func(*wire, *T)) {
	n := w.count(len(*table))
	if w.in == nil {
		for key, value := range *table {
			name := string(key)
			wireText(w, &name)
			each(w, &value)
		}
		return
	}
	if n > 0 {
		*table = map[K]T{}
	}
	for range n {
		if w.in.bad {
			return
		}
		var name string
		var value T
		wireText(w, &name)
		each(w, &value)
		(*table)[K(name)] = value
	}
}

func wirePointer[T any](w *wire, p **T, each func(*wire, *T)) {
	is := *p != nil
	if w.flags(&is); !is {
		return
	}
	if *p == nil {
		*p = new(T)
	}
	each(w, *p)
}
