package eval

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-run/croft/eval/suite"
	"github.com/croft-run/croft/internal/eval/agent"
	"github.com/croft-run/croft/internal/locktmp"
	"github.com/croft-run/croft/internal/paths"
)

// dryRun returns how an agent would be started.
func dryRun(ctx context.Context, r *plannedRunner) (agent.Invocation, error) {
	dir, err := locktmp.Make(suite.ScratchPrefix)
	if err != nil {
		return agent.Invocation{}, err
	}
	defer locktmp.Remove(dir) //nolint:errcheck // the next evaluation removes it
	return r.agent.Prepare(ctx, agent.Input{Runner: r.info, Prompt: "-", Dir: dir, Artifacts: dir, Sandboxed: true})
}

// namedDirs are the directories of the arguments that are absolute paths.
func namedDirs(args []string) (dirs []string) {
	for _, a := range args {
		if filepath.IsAbs(a) && !strings.Contains(a, "\n") {
			dirs = append(dirs, realDirs([]string{a})...)
		}
	}
	return dirs
}

// realDirs returns the directories of paths, without symlinks. Paths that do not exist,
// and directories that every sandbox mounts, are left out.
func realDirs(paths []string) []string {
	var dirs []string
	for _, p := range paths {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			continue
		}
		info, err := os.Stat(real)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			real = filepath.Dir(real)
		}
		if !isSystemDir(real) && !slices.Contains(dirs, real) {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// isSystemDir reports whether every sandbox mounts a directory, or no sandbox may.
func isSystemDir(dir string) bool {
	for _, sys := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc", "/proc", "/dev", "/sys", "/run", "/nix/store", "/gnu/store"} {
		if paths.Inside(sys, dir) {
			return true
		}
	}
	home, _ := os.UserHomeDir() // without a home there is none to exclude
	return slices.Contains([]string{"/", "/tmp", "/var", "/var/tmp", "/home", "/root", home}, dir)
}

// programDirs returns the host directories that a program needs: its own, those of its
// symlinks, its package, and those of its interpreter.
func programDirs(program, path string) []string {
	at := program
	if !strings.Contains(program, "/") {
		at = lookPathIn(program, path)
	}
	if at == "" || !filepath.IsAbs(at) {
		return nil
	}
	dirs := realDirs(installDirs(filepath.Dir(at)))
	real, err := filepath.EvalSymlinks(at)
	if err != nil {
		return dirs
	}
	pkg := filepath.Dir(real)
	if before, _, ok := strings.Cut(real, "/node_modules/"); ok {
		pkg = before + "/node_modules"
	}
	dirs = append(dirs, realDirs(installDirs(pkg))...)
	if name := shebangProgram(real); name != "" && name != program {
		dirs = append(dirs, programDirs(name, path)...)
	}
	return dirs
}

// installDirs is a directory of programs, with its parent if they need it: shims of pyenv
// and asdf start programs beside them, and the library of Python or of a virtual
// environment is beside its bin.
func installDirs(bin string) []string {
	beside := filepath.Dir(bin)
	if filepath.Base(bin) == "shims" {
		return []string{bin, beside}
	}
	if hasPython(beside) {
		return []string{bin, beside}
	}
	return []string{bin}
}

// hasPython reports whether a directory is an installation of Python, or a virtual
// environment.
func hasPython(dir string) bool {
	for _, sign := range []string{"pyvenv.cfg", "lib/python3*/os.py"} {
		if found, err := filepath.Glob(filepath.Join(dir, sign)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

// installations returns the directories of programDirs that an installer has written, and
// not the user: settings in them are those of the installer.
func installations(dirs []string) []string {
	return slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "shims"))
		return err != nil && filepath.Base(dir) != "node_modules" && !hasPython(dir)
	})
}

// lookPathIn finds a program on a PATH.
func lookPathIn(program, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if p, err := exec.LookPath(filepath.Join(dir, program)); err == nil && filepath.IsAbs(p) {
			return p
		}
	}
	return ""
}

// shebangProgram is the interpreter that the first line of a script names.
func shebangProgram(script string) string {
	f, err := os.Open(script)
	if err != nil {
		return ""
	}
	defer f.Close() // only read
	var head [256]byte
	n, _ := f.Read(head[:]) // a file that can't be read is not a script
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) == "env" {
		for _, w := range words[1:] {
			if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				return w
			}
		}
		return ""
	}
	return words[0]
}
