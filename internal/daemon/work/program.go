package work

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/paths"
)

// systemDirs are shown in every sandbox.
var systemDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store"}

func isBelow(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return paths.Inside(dir, path) })
}

// findProgram finds the program of an agent on PATH, and shows it inside: its package, and
// the interpreter that its first line names. It returns the path of the program inside.
func (s *Start) findProgram(a *Agent, u User) (string, error) {
	file, err := a.lookProgram(u)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", fmt.Errorf("work: %s: program %s: %w: %w", a.Name, file, fault.Of(err), err)
	}
	if err := s.show(packageDir(real), u); err != nil {
		return "", fmt.Errorf("work: %s: program %s: %w", a.Name, real, err)
	}
	if interp := interpreter(real); interp != "" {
		if err := s.showInterpreter(interp, u); err != nil {
			return "", fmt.Errorf("work: %s: program %s: %w", a.Name, real, err)
		}
	}
	return real, nil
}

// lookProgram finds the program of an agent on PATH.
func (a *Agent) lookProgram(u User) (string, error) {
	file := lookPath(a.Program, u.Env("PATH"))
	if file == "" {
		return "", fault.Advise(fmt.Errorf("work: %s: %w: no program %s in PATH (%s)", a.Name, fault.NotFound, a.Program, u.Env("PATH")),
			"install it with: %s", a.Install)
	}
	return file, nil
}

// lookPath finds a program by the given PATH.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return file
		}
	}
	return ""
}

// packageDir returns the directory that a program needs: the outermost node_modules, where
// the packages that it depends on are, or else its own directory.
func packageDir(file string) string {
	if before, _, ok := strings.Cut(file, "/node_modules/"); ok {
		return before + "/node_modules"
	}
	return filepath.Dir(file)
}

// interpreter returns the program that the first line of a script names, "" if file is no
// script.
func interpreter(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, err := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	text, ok := strings.CutPrefix(string(line), "#!")
	if err != nil || !ok {
		return ""
	}
	words := strings.Fields(text)
	if len(words) > 1 && filepath.Base(words[0]) == "env" {
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				return w
			}
		}
	}
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// showInterpreter shows an interpreter that is not in a directory of the system, such as
// the node of a version manager, with what is installed beside it.
func (s *Start) showInterpreter(name string, u User) error {
	file := name
	if !filepath.IsAbs(name) {
		if file = lookPath(name, u.Env("PATH")); file == "" {
			return fmt.Errorf("%w: it needs %s, which is not in PATH", fault.NotFound, name)
		}
	}
	real, err := filepath.EvalSymlinks(file)
	if err != nil || isBelow(real, systemDirs...) {
		return nil // if it does not exist, the program says so
	}
	dir := filepath.Dir(real)
	s.Path = Add(s.Path, dir)
	if filepath.Base(dir) == "bin" && !isBelow(u.Home, filepath.Dir(dir)) {
		dir = filepath.Dir(dir)
	}
	return s.show(dir, u)
}

// show adds a read-only bind of a directory, unless it is visible inside without one.
func (s *Start) show(dir string, u User) error {
	if isBelow(dir, systemDirs...) || isBelow(dir, s.Dir) {
		return nil
	}
	if isBelow(u.Home, dir) || isBelow(s.Dir, dir) {
		return fault.Advise(fmt.Errorf("%w: to show it, all of %s would be shown", fault.Unsupported, dir),
			"install it in a directory of its own")
	}
	s.ReadOnly = Add(s.ReadOnly, dir)
	return nil
}
