package hostgit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/croft-run/croft/fault"
)

// A Quarantine is a directory of objects that are not in the repository yet, as of
// git receive-pack.
type Quarantine struct {
	*Repository // with the objects of the quarantine

	temp    string
	objects string // directory of the repository's objects
}

// Quarantine makes a directory of objects, which Remove removes.
func (r *Repository) Quarantine(ctx context.Context) (*Quarantine, error) {
	out, err := r.Run(ctx, nil, nil, "rev-parse", "--git-path", "objects")
	if err != nil {
		return nil, err
	}
	q := &Quarantine{objects: absolutePath(r.dir, strings.TrimSuffix(string(out), "\n"))}
	if q.temp, err = os.MkdirTemp(q.objects, "tmp_objdir-croft-"); err != nil {
		return nil, hostError("make", q.objects, err)
	}
	q.Repository = &Repository{dir: r.dir, env: []string{"GIT_OBJECT_DIRECTORY=" + q.temp, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + q.objects}}
	return q, nil
}

// Receive verifies the objects of a bundle, and returns its references.
func (q *Quarantine) Receive(ctx context.Context, bundle io.Reader, most int64) ([]Ref, error) {
	in := bufio.NewReaderSize(bundle, 64<<10)
	needs, refs, err := readBundleHeader(in)
	if err != nil {
		return nil, err
	}
	for _, id := range needs {
		if _, err := q.Commit(ctx, id); err != nil {
			return nil, fmt.Errorf("snapshot: import commits: %w: they are based on commit %s, which the repository lacks", fault.Conflict, id)
		}
	}
	if _, err := q.Run(ctx, in, nil, "index-pack", "--stdin", "--fix-thin", "--strict", "--max-input-size="+strconv.FormatInt(most, 10)); err != nil {
		return nil, fmt.Errorf("snapshot: import commits: %w: %w", fault.InvalidArgument, err)
	}
	return refs, nil
}

// Publish moves the objects into the repository: each pack, then its index, without which
// git does not read the pack.
func (q *Quarantine) Publish() error {
	for _, kind := range []string{"pack", "rev", "idx"} {
		files, err := filepath.Glob(filepath.Join(q.temp, "pack", "pack-*."+kind))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Rename(file, filepath.Join(q.objects, "pack", filepath.Base(file))); err != nil {
				return hostError("move", filepath.Base(file), err)
			}
		}
	}
	return nil
}

// RemoveRefs removes the references with a prefix that are not in names.
func (r *Repository) RemoveRefs(ctx context.Context, prefix string, names map[string]bool) ([]string, error) {
	out, err := r.Run(ctx, nil, nil, "for-each-ref", "--format=%(refname) %(objectname)", "--", strings.TrimSuffix(prefix, "/"))
	if err != nil {
		return nil, err
	}
	var in bytes.Buffer
	var removed []string
	for line := range strings.Lines(string(out)) {
		name, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !names[name] {
			removed = append(removed, name)
			fmt.Fprintf(&in, "delete %s\x00%s\x00", name, id)
		}
	}
	if len(removed) == 0 {
		return nil, nil
	}
	if _, err := r.Run(ctx, &in, nil, "update-ref", "-z", "--stdin"); err != nil {
		return nil, fmt.Errorf("snapshot: import commits: %w: %w", fault.Conflict, err)
	}
	return removed, nil
}

// A Ref is a reference with its commit.
type Ref struct{ Name, Commit string }

// maxBundleLines is the maximum of lines of a header.
const maxBundleLines = 20_000

// readBundleHeader reads what stands before the pack of a bundle: the commits that the reader must have,
// and the references.
func readBundleHeader(in *bufio.Reader) (needs []string, refs []Ref, err error) {
	bad := func(format string, args ...any) ([]string, []Ref, error) {
		return nil, nil, fmt.Errorf("snapshot: import commits: %w: the bundle is malformed: %s", fault.InvalidArgument, fmt.Sprintf(format, args...))
	}
	for i := range maxBundleLines {
		raw, err := in.ReadSlice('\n')
		if err != nil {
			return bad("its header: %v", err)
		}
		line := strings.TrimSuffix(string(raw), "\n")
		need, isNeed := strings.CutPrefix(line, "-")
		id, name, _ := strings.Cut(line, " ")
		switch {
		case i == 0 && (line == "# v2 git bundle" || line == "# v3 git bundle"):
		case i == 0:
			return bad("it begins with %.40q", line)
		case line == "":
			return needs, refs, nil
		case strings.HasPrefix(line, "@object-format="): // git checks it
		case isNeed:
			if id, _, _ = strings.Cut(need, " "); !IsObjectName(id) {
				return bad("%.100q", line)
			}
			needs = append(needs, id)
		case !IsObjectName(id) || name == "":
			return bad("%.100q", line)
		default:
			refs = append(refs, Ref{Name: name, Commit: id})
		}
	}
	return bad("its header has more than %d lines", maxBundleLines)
}

// IsObjectName reports whether a text has the form of the name of an object.
func IsObjectName(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && (len(s) == 40 || len(s) == 64)
}

// Remove removes the objects that were not published.
func (q *Quarantine) Remove() { os.RemoveAll(q.temp) }

func hostError(verb, name string, err error) error {
	return fmt.Errorf("snapshot: %s %s: %w: %w", verb, name, fault.Of(err), err)
}
