package bootstrap

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/prepare/stage"
	"github.com/croft-run/croft/workspace/driver"
)

// templateDoer fills the workspace from a template and, later, puts back what is
// gone and brings in what changed there.
type templateDoer struct {
	r     *Reconciler
	dir   string
	prune bool // what the template no longer has goes
}

// A manifest is what a template brought, by path.
type manifest map[string]made

// made is one entry of a template in a workspace.
type made struct {
	look   [lookSize]byte // when it was last as it should be or, where it is theirs, when that was seen
	theirs bool           // somebody changed it since, and it stays so
}

const lookSize = 8

// seen is how an entry looks now.
type seen struct {
	look [lookSize]byte
	dir  bool
}

// encode makes a manifest short: a record is written often.
func (m manifest) encode() (string, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	var buf []byte
	for _, name := range slices.Sorted(maps.Keys(m)) {
		e := m[name]
		buf = append(binary.AppendUvarint(buf[:0], uint64(len(name))), name...)
		flag := byte(0)
		if e.theirs {
			flag = 1
		}
		buf = append(append(buf, flag), e.look[:]...)
		if _, err := z.Write(buf); err != nil {
			return "", err
		}
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.RawStdEncoding.EncodeToString(out.Bytes()), nil
}

// decodeManifest reads what encode made; "" is an empty one.
func decodeManifest(text string) (manifest, error) {
	m := manifest{}
	if text == "" {
		return m, nil
	}
	bad := func(err error) (manifest, error) {
		return nil, fmt.Errorf("bootstrap: the record of the template: %w: %w", fault.Failed, err)
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return bad(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return bad(err)
	}
	const most = 256 << 20
	data, err := io.ReadAll(io.LimitReader(z, most))
	if err != nil {
		return bad(err)
	}
	for len(data) > 0 {
		n, size := binary.Uvarint(data)
		if size <= 0 || n > uint64(len(data)) || len(data) < size+int(n)+1+lookSize {
			return bad(io.ErrUnexpectedEOF)
		}
		name := string(data[size : size+int(n)])
		data = data[size+int(n):]
		m[name] = made{[lookSize]byte(data[1:]), data[0] == 1}
		data = data[1+lookSize:]
	}
	return m, nil
}

// looks describes the entries of a manifest as they are; those that are gone, or
// below something that is no directory, are not in it.
func (r *Reconciler) looks(ctx context.Context, m manifest) (map[string]seen, error) {
	dirs := map[string]bool{}
	for name := range m {
		dirs[path.Dir(name)] = true
	}
	there := map[string]seen{".": {dir: true}}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if at, ok := there[dir]; !ok || !at.dir { // a symlink in its place leads elsewhere
			continue
		}
		list, err := stage.ListInside(ctx, r.ws, dir, 1)
		if astray(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, i := range list {
			if _, ours := m[i.Path]; !ours {
				continue
			}
			line, err := stage.FingerprintOf(ctx, r.ws, i)
			if err != nil {
				return nil, err
			}
			sum := sha256.Sum256([]byte(line))
			there[i.Path] = seen{[lookSize]byte(sum[:]), i.Type == driver.TypeDir}
		}
	}
	delete(there, ".")
	return there, nil
}

// A state is a template beside what is in the workspace.
type state struct {
	m       manifest // brought up to date
	fresh   bool     // m differs from the record
	gone    []string
	changed []string // as somebody left them
}

// compare looks at what the template brought.
func (d *templateDoer) compare(ctx context.Context, m manifest) (state, error) {
	st := state{m: m}
	there, err := d.r.looks(ctx, m)
	if err != nil {
		return st, err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		now, ok := there[name]
		if !ok {
			if !d.replaced(name, st.changed) {
				st.gone = append(st.gone, name)
			}
			continue
		}
		was := m[name]
		if now.look != was.look {
			same, err := d.same(ctx, name)
			if err != nil {
				return st, err
			}
			m[name], st.fresh = made{now.look, !same}, true
		}
		if m[name].theirs {
			st.changed = append(st.changed, name)
		}
	}
	return st, nil
}

// replaced reports whether a path is below one that somebody changed.
func (d *templateDoer) replaced(name string, changed []string) bool {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if slices.Contains(changed, at) {
			return true
		}
	}
	return false
}

// same reports whether an entry of the workspace is what the template has there.
func (d *templateDoer) same(ctx context.Context, name string) (bool, error) {
	at := filepath.Join(d.dir, filepath.FromSlash(name))
	fi, err := os.Lstat(at)
	if err != nil {
		return false, nil // it is gone there, so nothing tells
	}
	info, err := d.r.ws.Stat(ctx, name, &driver.StatOptions{NoFollow: true})
	if err != nil {
		return false, err
	}
	switch info.Type {
	case driver.TypeSymlink:
		to, err := os.Readlink(at)
		return err == nil && to == info.Target, nil
	case driver.TypeDir:
		return fi.IsDir() && fi.Mode().Perm() == info.Mode.Perm(), nil
	}
	if !fi.Mode().IsRegular() || info.Size != fi.Size() || info.Mode != fi.Mode().Perm() {
		return false, nil
	}
	f, err := os.Open(at)
	if err != nil {
		return false, fmt.Errorf("read the template: %w: %w", fault.Of(err), err)
	}
	defer f.Close()
	want, err := driver.DigestReader(f)
	if err != nil {
		return false, fmt.Errorf("read the template: %w: %w", fault.Of(err), err)
	}
	got, err := d.r.ws.Digest(ctx, name)
	return got == want, err
}

func (d *templateDoer) judge(ctx context.Context, rec stage.PreparedRecord) (verdict, error) {
	look, err := stage.Fingerprint(d.dir)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{fingerprint: fingerprint("template", d.dir, look)}
	if rec.Fingerprint != v.fingerprint || rec.Made == "" {
		return v, nil
	}
	m, err := decodeManifest(rec.Made)
	if err != nil {
		return v, err
	}
	st, err := d.compare(ctx, m)
	if err != nil {
		return v, err
	}
	if len(st.gone) > 0 {
		v.drift = some(st.gone) + " is gone"
		return v, nil // what is left to say, apply says
	}
	v.notes = theirs(st.changed)
	if st.fresh {
		next := rec
		if next.Made, err = m.encode(); err != nil {
			return v, err
		}
		v.refreshed = &next
	}
	return v, nil
}

// theirs tells of what stays as somebody left it.
func theirs(changed []string) []string {
	if len(changed) == 0 {
		return nil
	}
	return []string{some(changed) + " was changed since, and stays; the template's comes back where it is removed"}
}

func (d *templateDoer) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	m, err := decodeManifest(rec.Made)
	if err != nil {
		return nil, err
	}
	var notes []string
	names, skipped, err := d.survey()
	if err != nil {
		return nil, err
	}
	if len(m) == 0 {
		res, err := h.FillWorkspace(ctx, d.dir, nil)
		if err != nil {
			return nil, err
		}
		notes = leftOut(res)
	} else if notes, err = d.merge(ctx, h, m, names); err != nil {
		return notes, err
	} else {
		notes = append(notes, skipped...)
	}
	rec.Made, err = d.note(ctx, names, m)
	return notes, err
}

// survey lists what a template has, and tells of what can't be brought.
func (d *templateDoer) survey() (names, notes []string, err error) {
	var res driver.ImportResult
	_, err = stage.FingerprintEach(d.dir, func(name string, mode fs.FileMode) {
		switch mode.Type() {
		case 0, fs.ModeDir:
			names = append(names, name)
		case fs.ModeSymlink:
			to, err := os.Readlink(filepath.Join(d.dir, filepath.FromSlash(name)))
			if err != nil || path.IsAbs(to) || !filepath.IsLocal(path.Join(path.Dir(name), to)) {
				res.Skip(name, driver.ImportLeaves)
				return
			}
			names = append(names, name)
		default:
			res.Skip(name, driver.ImportSpecial)
		}
	})
	slices.Sort(names)
	return names, leftOut(res), err
}

// merge puts back what is gone and brings in what changed in the template. What
// somebody changed in the workspace stays.
func (d *templateDoer) merge(ctx context.Context, h *stage.Session, m manifest, names []string) ([]string, error) {
	was := maps.Clone(m)
	for _, name := range names { // also what is new in the template may be there
		if _, known := m[name]; !known {
			m[name] = made{}
		}
	}
	there, err := d.r.looks(ctx, m)
	if err != nil {
		return nil, err
	}
	var put, stays []string
	for _, name := range names {
		now, ok := there[name]
		if !ok {
			if !d.replaced(name, stays) {
				put = append(put, name)
			}
			continue
		}
		same, err := d.same(ctx, name)
		if err != nil {
			return nil, err
		}
		old, known := was[name]
		untouched := known && !old.theirs && old.look == now.look
		if !same && untouched && !now.dir {
			put = append(put, name)
		} else if !same && !untouched {
			stays = append(stays, name)
		}
		m[name] = made{now.look, !same && !untouched}
	}
	if err := d.drop(ctx, m, was, there, names); err != nil {
		return nil, err
	}
	if len(put) == 0 {
		return theirs(stays), nil
	}
	return theirs(stays), h.PutFrom(ctx, d.dir, put)
}

// drop forgets what the template no longer has and, where that is asked for, removes
// it unless somebody changed it.
func (d *templateDoer) drop(ctx context.Context, m, was manifest, there map[string]seen, names []string) error {
	var goes []string
	for name, old := range was {
		if _, still := slices.BinarySearch(names, name); still {
			continue
		}
		delete(m, name)
		if now, ok := there[name]; ok && !old.theirs && old.look == now.look {
			goes = append(goes, name)
		}
	}
	if !d.prune {
		return nil
	}
	slices.Sort(goes)
	return d.r.removeMade(ctx, goes, there)
}

// note records how all that the template has looks now. What m says is theirs stays
// so.
func (d *templateDoer) note(ctx context.Context, names []string, m manifest) (string, error) {
	next := manifest{}
	for _, name := range names {
		next[name] = made{theirs: m[name].theirs}
	}
	there, err := d.r.looks(ctx, next)
	if err != nil {
		return "", err
	}
	for name, e := range next {
		now, ok := there[name]
		if !ok { // it was left out, or is below what somebody has put there
			delete(next, name)
			continue
		}
		e.look = now.look
		next[name] = e
	}
	return next.encode()
}
