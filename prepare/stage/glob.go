package stage

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/lazyregexp"
	"github.com/croft-run/croft/internal/search"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// NormalizeGlobs converts patterns that begin with a variable of the layout, such as
// $OUTPUT_DIR/** or ${WORK_DIR}/a, to patterns relative to the workspace. It trims
// blanks and drops empty and repeated patterns. Other patterns are unchanged, also
// those with other variables, which a collection refuses.
func NormalizeGlobs(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		p = expandPrefix(strings.TrimSpace(p), "")
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// expandPrefix replaces a variable at the start of a pattern. run is the value of
// RUN_DIR; "" leaves the variable.
func expandPrefix(p, run string) string {
	for _, v := range []struct{ name, dir string }{
		{EnvWorkspace, "."}, {EnvSkills, DirSkills}, {EnvWork, DirWork}, {EnvOutput, DirOut}, {EnvRun, run},
	} {
		rest, ok := cutVariable(p, v.name)
		if !ok || v.dir == "" {
			continue
		}
		rest = strings.TrimLeft(strings.TrimPrefix(rest, `\`), "/")
		switch {
		case v.dir == "." && rest == "":
			return "."
		case v.dir == ".":
			return rest
		case rest == "":
			return v.dir
		}
		return v.dir + "/" + rest
	}
	return p
}

// cutVariable removes the prefix $NAME or ${NAME}. A longer name is another variable.
func cutVariable(p, name string) (rest string, ok bool) {
	if rest, ok := strings.CutPrefix(p, "${"+name+"}"); ok {
		return rest, true
	}
	rest, ok = strings.CutPrefix(p, "$"+name)
	if !ok || rest != "" && (rest[0] == '_' || 'a' <= rest[0]|0x20 && rest[0]|0x20 <= 'z' || '0' <= rest[0] && rest[0] <= '9') {
		return p, false
	}
	return rest, true
}

// cleanGlobs makes patterns relative to the workspace. A pattern that can't be used is
// skipped, so that it does not cost the files of the others.
func (s *Stage) cleanGlobs(ctx context.Context, patterns []string) (out []string, skipped []Skipped, _ error) {
	for _, p := range patterns {
		p = strings.TrimSpace(p)
		clean, err := s.cleanGlob(ctx, p)
		switch {
		case err != nil && isWorkspaceError(ctx, err):
			return nil, nil, err
		case err != nil:
			skipped = append(skipped, Skipped{Name: p, Code: fault.Of(err), Reason: err.Error()})
		case clean != "" && !slices.Contains(out, clean):
			out = append(out, clean)
		}
	}
	return out, skipped, nil
}

func (s *Stage) cleanGlob(ctx context.Context, p string) (string, error) {
	run := ""
	if _, ok := cutVariable(p, EnvRun); ok {
		var err error
		if run, err = s.latestRun(ctx); err != nil {
			return "", err
		}
	}
	p = expandPrefix(p, run)
	if variable.MatchString(p) {
		return "", fmt.Errorf("stage: pattern %.200q: %w: the pattern begins with a variable other than $%s; write a literal $ as \\$",
			p, fault.InvalidArgument, strings.Join([]string{EnvOutput, EnvWork, EnvSkills, EnvRun, EnvWorkspace}, ", $"))
	}
	p, err := s.relativeGlob(p)
	if err != nil || p == "" {
		return "", err
	}
	if _, err := search.NewGlob(p); err != nil {
		return "", fmt.Errorf("stage: pattern %.200q: %w", p, err)
	}
	return p, nil
}

// variable matches a pattern that begins with a variable.
var variable = lazyregexp.New(`^\$[{A-Za-z_]`)

// relativeGlob makes a pattern relative to the workspace. A pattern that leaves it is a
// SandboxViolation.
func (s *Stage) relativeGlob(p string) (string, error) {
	if p == "" {
		return "", nil
	}
	bad := fmt.Errorf("stage: pattern %.200q: %w: the pattern leaves the workspace", p, fault.SandboxViolation)
	if strings.HasPrefix(p, "/") {
		rest, ok := s.belowRoot(p)
		if !ok {
			return "", bad
		}
		p = rest
	}
	if !strings.Contains(p, "..") {
		for strings.HasPrefix(p, "./") {
			p = p[len("./"):]
		}
		return p, nil
	}
	clean := path.Clean(p)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", bad
	}
	return clean, nil
}

// belowRoot converts a path of programs in the workspace to a relative path.
func (s *Stage) belowRoot(p string) (string, bool) {
	root := strings.TrimSuffix(s.ws.Traits().Root, "/")
	if root == "" {
		return "", false
	}
	if p == root {
		return ".", true
	}
	return strings.CutPrefix(p, root+"/")
}

// latestRun returns the directory of the latest run.
func (s *Stage) latestRun(ctx context.Context) (string, error) {
	entries, err := s.ws.ReadDir(ctx, DirRuns)
	if err != nil && fault.Of(err) != fault.NotFound {
		return "", fmt.Errorf("stage: $%s: %w", EnvRun, err)
	}
	for _, e := range slices.Backward(entries) {
		if e.Type == driver.TypeDir {
			return e.Path, nil
		}
	}
	return "", fmt.Errorf("stage: $%s: %w: there was no run yet", EnvRun, fault.NotFound)
}

// A matchedFile is a file or a symlink that matches a pattern.
type matchedFile struct {
	workspace.Info
	at string // resolved path to read: without symlinks
}

// matchResult is the result of matching patterns.
type matchResult struct {
	found   []matchedFile
	skipped []Skipped // patterns through paths that can't be followed, and directories that can't be listed
	cut     bool      // there are more matches
}

// matchPatterns lists the files and symlinks that match patterns, each once, in the order of
// the patterns and then of their paths. A pattern that is the path of a directory
// matches its whole tree. An error of one pattern, which a program can cause, never
// fails the others.
func (s *Stage) matchPatterns(ctx context.Context, patterns []string) (matchResult, error) {
	var m matchResult
	seen := map[string]bool{}
	aside := false
	for _, p := range patterns {
		list, cut, err := s.matchOne(ctx, p)
		switch {
		case err == nil:
		case fault.Of(err) == fault.NotFound:
			continue
		case isWorkspaceError(ctx, err):
			return m, fmt.Errorf("stage: pattern %.200q: %w", p, err)
		default:
			m.skipped = append(m.skipped, Skipped{Name: p, Code: fault.Of(err), Reason: err.Error()})
			continue
		}
		m.cut = m.cut || cut
		for i, f := range list {
			if seen[f.at] {
				continue
			}
			seen[f.at] = true
			if f.Type != driver.TypeDir {
				aside = aside || strings.Contains(f.at, asidePrefix)
				m.found = append(m.found, f)
				continue
			}
			if i+1 == len(list) || !strings.HasPrefix(list[i+1].Path, f.Path+"/") {
				if bad := s.checkListable(ctx, f); bad != nil {
					m.skipped = append(m.skipped, *bad)
				}
			}
		}
	}
	if !aside {
		return m, nil
	}
	err := s.hideAsides(ctx, &m)
	return m, err
}

// isWorkspaceError reports whether an error concerns the workspace or the caller, and not
// the path.
func isWorkspaceError(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	switch fault.Of(err) {
	case fault.SandboxViolation, fault.PermissionDenied, fault.InvalidArgument, fault.NotFound, fault.ResourceExhausted:
		return false
	}
	return true
}

// matchOne lists what matches one pattern, directories included.
func (s *Stage) matchOne(ctx context.Context, p string) (list []matchedFile, cut bool, err error) {
	if !strings.ContainsAny(p, `*?[{\`) {
		info, err := s.ws.Stat(ctx, p, &driver.StatOptions{NoFollow: true})
		if err == nil && info.Type == driver.TypeDir {
			p = path.Join(p, "**")
		}
	}
	g, err := search.NewGlob(p)
	if err != nil {
		return nil, false, err
	}
	opts := &driver.GlobOptions{Hidden: true, Stat: true, Dirs: true}
	res, err := s.ws.Glob(ctx, p, opts)
	real, base := g.Base(), g.Base()
	if fault.Of(err) == fault.SandboxViolation && base != "." {
		if at, ierr := s.resolveInside(ctx, base); ierr == nil {
			real = at
			res, err = s.ws.Glob(ctx, path.Join(real, strings.TrimPrefix(p, base)), opts)
		}
	}
	if err == nil && len(res.Entries) == 0 && base != "." {
		err = s.checkDir(ctx, real)
	}
	if err != nil {
		return nil, false, err
	}
	for _, info := range res.Entries {
		f := matchedFile{Info: info, at: info.Path}
		if real != base {
			rest := info.Path
			if real != "." {
				rest = strings.TrimPrefix(rest, real)
			}
			f.Path = path.Join(base, rest)
		}
		list = append(list, f)
	}
	return list, res.Truncated, nil
}

// checkDir returns why a directory has no content: it is not a directory, or is not
// reachable.
func (s *Stage) checkDir(ctx context.Context, dir string) error {
	info, err := s.ws.Stat(ctx, dir, nil)
	if err == nil && info.Type != driver.TypeDir {
		err = fmt.Errorf("stage: %.200q: %w: it is not a directory", dir, fault.InvalidArgument)
	}
	return err
}

// checkListable reports a directory without matches that can't be listed.
func (s *Stage) checkListable(ctx context.Context, dir matchedFile) *Skipped {
	_, err := s.ws.ReadDir(ctx, dir.at)
	if code := fault.Of(err); err != nil && code != fault.NotFound {
		return &Skipped{Name: dir.Path, Code: code, Reason: err.Error()}
	}
	return nil
}

// hideAsides drops temporary paths of running transactions, and no other path with a
// similar name: the journal has these paths before they exist.
func (s *Stage) hideAsides(ctx context.Context, m *matchResult) error {
	meta, err := s.loadMetadata(ctx)
	if err != nil {
		return err
	}
	m.found = slices.DeleteFunc(m.found, func(f matchedFile) bool {
		return slices.ContainsFunc(meta.Pending, func(a TempPath) bool {
			return f.at == a.Path || strings.HasPrefix(f.at, a.Path+"/")
		})
	})
	return nil
}

// resolveInside resolves the symlinks of a path, also absolute ones that point to files of
// the workspace, which from outside look like escapes. The result had no symlinks
// when it was checked; a change afterwards (TOCTOU) is caught, because opening the
// result is checked again.
func (s *Stage) resolveInside(ctx context.Context, name string) (string, error) {
	out := fmt.Errorf("stage: %.200q: %w: the path leaves the workspace", name, fault.SandboxViolation)
	const most = 40 // limit of the Linux kernel
	done, todo := ".", strings.Split(name, "/")
	for links := 0; len(todo) > 0; {
		elem := todo[0]
		todo = todo[1:]
		switch {
		case elem == "" || elem == ".":
			continue
		case elem == ".." && done == ".":
			return "", out
		case elem == "..":
			done = path.Dir(done)
			continue
		}
		at := path.Join(done, elem)
		info, err := s.ws.Stat(ctx, at, &driver.StatOptions{NoFollow: true})
		if err != nil {
			return "", err
		}
		if info.Type != driver.TypeSymlink {
			done = at
			continue
		}
		if links++; links > most {
			return "", fmt.Errorf("stage: %.200q: %w: the path has more than %d symlinks", name, fault.InvalidArgument, most)
		}
		target := info.Target
		if strings.HasPrefix(target, "/") {
			rest, ok := s.belowRoot(target)
			if !ok {
				return "", out
			}
			done, target = ".", rest
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return done, nil
}
