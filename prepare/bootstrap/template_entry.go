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

// templateHandler fills the workspace from a template. Later it restores entries that
// are gone and copies entries that changed in the template.
type templateHandler struct {
	r     *Reconciler
	dir   string
	prune bool // remove entries that the template no longer has
}

// A manifest lists the entries that a template brought, by path.
type manifest map[string]manifestEntry

// manifestEntry is one entry of a template in a workspace.
type manifestEntry struct {
	look   [lookSize]byte // fingerprint of the entry when it was last correct or, if theirs is set, when the change was seen
	theirs bool           // the entry was changed in the workspace since, and is kept
}

const lookSize = 8

// presentEntry is the present state of an entry.
type presentEntry struct {
	look [lookSize]byte
	dir  bool
}

// encode returns a compact form of a manifest, because a record is written often.
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

// decodeManifest is the inverse of encode; "" is an empty manifest.
func decodeManifest(text string) (manifest, error) {
	m := manifest{}
	if text == "" {
		return m, nil
	}
	bad := func(err error) (manifest, error) {
		return nil, fmt.Errorf("bootstrap: decode the record of the template: %w: %w", fault.Failed, err)
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
		m[name] = manifestEntry{[lookSize]byte(data[1:]), data[0] == 1}
		data = data[1+lookSize:]
	}
	return m, nil
}

// fingerprints returns the fingerprints of existing entries of a manifest. Entries that are
// gone, or whose parent is no longer a directory, are left out.
func (r *Reconciler) fingerprints(ctx context.Context, m manifest) (map[string]presentEntry, error) {
	dirs := map[string]bool{}
	for name := range m {
		dirs[path.Dir(name)] = true
	}
	there := map[string]presentEntry{".": {dir: true}}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if at, ok := there[dir]; !ok || !at.dir { // a symlink in place of the directory leads elsewhere
			continue
		}
		list, err := stage.ListInside(ctx, r.ws, dir, 1)
		if isMissingOrReplaced(err) {
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
			there[i.Path] = presentEntry{[lookSize]byte(sum[:]), i.Type == driver.TypeDir}
		}
	}
	delete(there, ".")
	return there, nil
}

// A templateDiff is the comparison of a template with the workspace.
type templateDiff struct {
	m       manifest // updated manifest
	fresh   bool     // m differs from the record
	gone    []string
	changed []string // entries that were changed in the workspace
}

// compareManifest compares the workspace with the manifest.
func (d *templateHandler) compareManifest(ctx context.Context, m manifest) (templateDiff, error) {
	st := templateDiff{m: m}
	there, err := d.r.fingerprints(ctx, m)
	if err != nil {
		return st, err
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		now, ok := there[name]
		if !ok {
			if !d.isBelowChanged(name, st.changed) {
				st.gone = append(st.gone, name)
			}
			continue
		}
		was := m[name]
		if now.look != was.look {
			same, err := d.isUnchanged(ctx, name)
			if err != nil {
				return st, err
			}
			m[name], st.fresh = manifestEntry{now.look, !same}, true
		}
		if m[name].theirs {
			st.changed = append(st.changed, name)
		}
	}
	return st, nil
}

// isBelowChanged reports whether a path is below a path that was changed in the workspace.
func (d *templateHandler) isBelowChanged(name string, changed []string) bool {
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if slices.Contains(changed, at) {
			return true
		}
	}
	return false
}

// isUnchanged reports whether an entry of the workspace equals that of the template.
func (d *templateHandler) isUnchanged(ctx context.Context, name string) (bool, error) {
	at := filepath.Join(d.dir, filepath.FromSlash(name))
	fi, err := os.Lstat(at)
	if err != nil {
		return false, nil // the template no longer has it
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

func (d *templateHandler) compare(ctx context.Context, rec stage.PreparedRecord) (comparison, error) {
	look, err := stage.Fingerprint(d.dir)
	if err != nil {
		return comparison{}, err
	}
	v := comparison{fingerprint: digestParts("template", d.dir, look)}
	if rec.Fingerprint != v.fingerprint || rec.Made == "" {
		return v, nil
	}
	m, err := decodeManifest(rec.Made)
	if err != nil {
		return v, err
	}
	st, err := d.compareManifest(ctx, m)
	if err != nil {
		return v, err
	}
	if len(st.gone) > 0 {
		v.drift = firstNames(st.gone) + " is gone"
		return v, nil // apply reports the rest
	}
	v.notes = keptNote(st.changed)
	if st.fresh {
		next := rec
		if next.Made, err = m.encode(); err != nil {
			return v, err
		}
		v.refreshed = &next
	}
	return v, nil
}

// keptNote returns a note about entries that stay as the workspace has them.
func keptNote(changed []string) []string {
	if len(changed) == 0 {
		return nil
	}
	return []string{firstNames(changed) + " was changed since, and stays; the template's comes back where it is removed"}
}

func (d *templateHandler) apply(ctx context.Context, h *stage.Session, rec *stage.PreparedRecord) ([]string, error) {
	m, err := decodeManifest(rec.Made)
	if err != nil {
		return nil, err
	}
	var notes []string
	names, skipped, err := d.listTemplate()
	if err != nil {
		return nil, err
	}
	if len(m) == 0 {
		res, err := h.FillWorkspace(ctx, d.dir, nil)
		if err != nil {
			return nil, err
		}
		notes = leftOut(res)
	} else if notes, err = d.mergeTemplate(ctx, h, m, names); err != nil {
		return notes, err
	} else {
		notes = append(notes, skipped...)
	}
	rec.Made, err = d.encodePresent(ctx, names, m)
	return notes, err
}

// listTemplate lists the entries of a template, and notes entries that can't be copied.
func (d *templateHandler) listTemplate() (names, notes []string, err error) {
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

// mergeTemplate restores entries that are gone and copies entries that changed in the
// template. Entries that were changed in the workspace stay.
func (d *templateHandler) mergeTemplate(ctx context.Context, h *stage.Session, m manifest, names []string) ([]string, error) {
	was := maps.Clone(m)
	for _, name := range names { // a new entry of the template may exist in the workspace
		if _, known := m[name]; !known {
			m[name] = manifestEntry{}
		}
	}
	there, err := d.r.fingerprints(ctx, m)
	if err != nil {
		return nil, err
	}
	var put, stays []string
	for _, name := range names {
		now, ok := there[name]
		if !ok {
			if !d.isBelowChanged(name, stays) {
				put = append(put, name)
			}
			continue
		}
		same, err := d.isUnchanged(ctx, name)
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
		m[name] = manifestEntry{now.look, !same && !untouched}
	}
	if err := d.dropRemoved(ctx, m, was, there, names); err != nil {
		return nil, err
	}
	if len(put) == 0 {
		return keptNote(stays), nil
	}
	return keptNote(stays), h.PutFrom(ctx, d.dir, put)
}

// dropRemoved removes entries from the manifest that the template no longer has and, with
// prune, removes their files unless they were changed in the workspace.
func (d *templateHandler) dropRemoved(ctx context.Context, m, was manifest, there map[string]presentEntry, names []string) error {
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

// encodePresent returns the encoded manifest with present fingerprints. Entries that m marks
// as theirs keep the mark.
func (d *templateHandler) encodePresent(ctx context.Context, names []string, m manifest) (string, error) {
	next := manifest{}
	for _, name := range names {
		next[name] = manifestEntry{theirs: m[name].theirs}
	}
	there, err := d.r.fingerprints(ctx, next)
	if err != nil {
		return "", err
	}
	for name, e := range next {
		now, ok := there[name]
		if !ok { // left out, or below a path that was changed in the workspace
			delete(next, name)
			continue
		}
		e.look = now.look
		next[name] = e
	}
	return next.encode()
}
