package stage

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace"
	"github.com/croft-run/croft/workspace/driver"
)

// NormalizeGlobs turns patterns that begin with a variable of the layout, such as
// $OUTPUT_DIR/** or ${WORK_DIR}/a, into patterns relative to the workspace. Blanks
// around are dropped, and so are empty patterns and repeated ones. Others stay as
// they are, also those of other variables.
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

// expandPrefix replaces a variable at the start of a pattern. run is what RUN_DIR
// stands for; "" leaves it.
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

// cutVariable cuts $NAME or ${NAME} off. A longer name is another variable.
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

// globs judges patterns and makes them relative to the workspace.
func (s *Stage) globs(ctx context.Context, patterns []string) ([]string, error) {
	var out []string
	for _, p := range patterns {
		p = strings.TrimSpace(p)
		run := ""
		if _, ok := cutVariable(p, EnvRun); ok {
			var err error
			if run, err = s.latestRun(ctx); err != nil {
				return nil, err
			}
		}
		p, err := s.relative(expandPrefix(p, run))
		if err != nil {
			return nil, err
		}
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// relative makes a pattern relative. One that would lead out is a violation.
func (s *Stage) relative(p string) (string, error) {
	if p == "" {
		return "", nil
	}
	bad := fmt.Errorf("stage: pattern %.200q: %w: it leads out of the workspace", p, fault.SandboxViolation)
	if strings.HasPrefix(p, "/") {
		root := strings.TrimSuffix(s.ws.Traits().Root, "/")
		rest, ok := strings.CutPrefix(p, root+"/")
		if root == "" || !ok {
			return "", bad
		}
		p = rest
	}
	if !strings.Contains(p, "..") {
		return strings.TrimPrefix(p, "./"), nil
	}
	clean := path.Clean(p)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", bad
	}
	return clean, nil
}

// latestRun is the directory of the run that began last.
func (s *Stage) latestRun(ctx context.Context) (string, error) {
	entries, err := s.ws.ReadDir(ctx, DirRuns)
	if err != nil {
		return "", fmt.Errorf("stage: $%s: %w", EnvRun, err)
	}
	for _, e := range slices.Backward(entries) {
		if e.Type == driver.TypeDir {
			return e.Path, nil
		}
	}
	return "", fmt.Errorf("stage: $%s: %w: nothing ran here yet", EnvRun, fault.NotFound)
}

// match lists the files and symlinks that patterns match, each once, in the order
// of the patterns and then of their paths. A pattern that is the path of a
// directory means all that is in it.
func (s *Stage) match(ctx context.Context, patterns []string) ([]workspace.Info, error) {
	var list []workspace.Info
	seen := map[string]bool{}
	for _, p := range patterns {
		if !strings.ContainsAny(p, `*?[{\`) {
			info, err := s.ws.Stat(ctx, p, &driver.StatOptions{NoFollow: true})
			if err == nil && info.Type == driver.TypeDir {
				p = path.Join(p, "**")
			}
		}
		res, err := s.ws.Glob(ctx, p, &driver.GlobOptions{Hidden: true, Stat: true})
		if fault.Of(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("stage: pattern %.200q: %w", p, err)
		}
		for _, info := range res.Entries {
			if !seen[info.Path] && info.Type != driver.TypeDir && !strings.HasPrefix(path.Base(info.Path), asidePrefix) {
				seen[info.Path] = true
				list = append(list, info)
			}
		}
	}
	return list, nil
}
