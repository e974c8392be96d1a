// Command upstream runs the tests of trpc-agent-go over trpcagent.
//
// It copies nothing: a build overlay puts package internal/upstream/local in the place of
// trpc-agent-go's codeexecutor/local, and "go test" takes the rest, tests included, from the
// module cache or, with -dir, from a checkout. Tests inside package local test functions that
// are not there, and are left out. A checkout has the module codeexecutor/container, too, of
// whose tests those run that use a real engine. The tests that may fail, with the reason, are
// in the document that -known names.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/croft-run/croft/contrib/trpcagent/internal/upstream/local"
	"github.com/croft-run/croft/internal/testenv"
)

const (
	module    = "trpc.group/trpc-go/trpc-agent-go"
	replaced  = "codeexecutor/local"
	container = "codeexecutor/container"
)

// packages are those whose tests use codeexecutor/local, but for whole agents.
var packages = []string{
	"codeexecutor", replaced, "codeexecutor/workspaceio", "tool/workspaceexec", "tool/skill", "internal/skillstage", "internal/workspaceprep",
}

// providers are those that the tests run with.
var providers = []string{"local", "in-place", "sandbox", "docker", "e2b", "jupyter"}

// minimums are the tests that must pass, by provider.
var minimums = map[string]int{"local": 564, "in-place": 564, "sandbox": 555, "docker": 550, "e2b": 505, "jupyter": 564}

func main() {
	known := flag.String("known", "", "the document with the table of tests that may fail")
	only := flag.String("provider", "", "run with one of "+strings.Join(providers, ", ")+"; empty is all")
	source := flag.String("dir", "", "a directory with a checkout of trpc-agent-go, instead of the version in go.mod")
	verbose := flag.Bool("v", false, "print the output of tests that fail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the root of the program
	defer stop()
	if err := run(ctx, *known, *only, *source, *verbose); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, known, only, source string, verbose bool) error {
	expected, err := readKnown(known)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "croft-trpc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // guests may still end in it
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := writeOverlay(ctx, dir, source); err != nil {
		return err
	}
	packages := packages
	if _, err := os.Stat(filepath.Join(dir, "module", container)); err == nil {
		packages = append(slices.Clone(packages), container)
	}
	if err := buildTests(ctx, dir, packages); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "provider\tpassed\tof\tminimum\tunexpected")
	var errs []error
	for _, provider := range providers {
		if only != "" && only != provider {
			continue
		}
		if why := missing(ctx, provider); why != "" {
			fmt.Fprintf(table, "%s\tskipped: the host lacks %s\t\t\t\n", provider, why)
			continue
		}
		env, stop, err := startServer(ctx, dir, provider)
		if err != nil {
			return fmt.Errorf("%s: %w", provider, err)
		}
		res, err := runTests(ctx, dir, provider, packages, env)
		err = errors.Join(err, stop())
		if err != nil {
			return err
		}
		wrong := res.compare(provider, expected, verbose)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", provider, len(res.passed), len(res.passed)+len(res.failed), minimums[provider], len(wrong))
		for _, line := range wrong {
			errs = append(errs, fmt.Errorf("%s: %s", provider, line))
		}
		if len(res.passed) < minimums[provider] {
			errs = append(errs, fmt.Errorf("%s: %d tests passed, at least %d must", provider, len(res.passed), minimums[provider]))
		}
	}
	return errors.Join(append(errs, table.Flush())...)
}

// row is a row of the table of tests that may fail: tests, and the providers that they fail
// with. Each quoted name is a test.
var (
	row  = regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([a-z0-9, -]+) \\|")
	test = regexp.MustCompile("`([^`]+)`")
)

// readKnown returns the tests that may fail, with their providers. The word all is all
// providers.
func readKnown(name string) (map[string]string, error) {
	out := map[string]string{}
	if name == "" {
		return out, nil
	}
	data, err := os.ReadFile(name)
	for _, m := range row.FindAllSubmatch(data, -1) {
		for _, n := range test.FindAllSubmatch(m[1], -1) {
			out[string(n[1])] = string(m[2])
		}
	}
	return out, err
}

// writeOverlay writes overlay.json and go.mod, in which the module is a symlink to the
// module cache: go refuses an overlay of the cache itself.
func writeOverlay(ctx context.Context, dir, source string) error {
	if source == "" {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return fmt.Errorf("find %s: %w", module, err)
		}
		source = strings.TrimSpace(string(out))
	}
	cache, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "module")
	if err := os.Symlink(cache, tree); err != nil {
		return err
	}
	ours, err := filepath.Abs("internal/upstream/local/local.go")
	if err != nil {
		return err
	}
	replace := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(cache, replaced))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(tree, replaced, e.Name())
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(data, []byte("\npackage local\n")) {
			replace[name] = "" // also tests of what is not there
		}
	}
	replace[filepath.Join(tree, replaced, "local.go")] = ours
	if _, err := os.Stat(filepath.Join(cache, container)); err == nil {
		if err := overlayContainer(dir, tree, replace); err != nil {
			return err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), data, 0o644)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		if err == nil {
			data, err = os.ReadFile(name)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
	}
	if err != nil {
		return err
	}
	croft, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	edit := exec.CommandContext(ctx, "go", "mod", "edit", "-replace="+module+"="+tree, "-replace=github.com/croft-run/croft="+croft, filepath.Join(dir, "go.mod"))
	if out, err := edit.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod edit: %w: %s", err, out)
	}
	return nil
}

// overlayContainer puts package internal/upstream/container in the place of
// codeexecutor/container, which has a module of its own, with those of its tests that use a
// real engine. The others test how it speaks to an engine, with one that is faked.
func overlayContainer(dir, tree string, replace map[string]string) error {
	entries, err := os.ReadDir(filepath.Join(tree, container))
	if err != nil {
		return err
	}
	for _, e := range entries {
		replace[filepath.Join(tree, container, e.Name())] = ""
	}
	ours, err := filepath.Abs("internal/upstream/container/container.go")
	if err != nil {
		return err
	}
	const tests = "container_test.go"
	theirs := filepath.Join(dir, tests)
	replace[filepath.Join(tree, container, "container.go")] = ours
	replace[filepath.Join(tree, container, tests)] = theirs
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(tree, container, tests), nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var kept []ast.Decl
	used := map[string]bool{}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "TestContainerCodeExecutor_") || f.Name.Name == "TestContainerCodeExecutor_WithOptions" {
			continue // WithOptions is of unexported fields
		}
		kept = append(kept, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok {
				used[name.Name] = true
			}
			return true
		})
	}
	var specs []ast.Spec
	for _, i := range file.Imports {
		name := path.Base(strings.Trim(i.Path.Value, `"`))
		if i.Name != nil {
			name = i.Name.Name
		}
		if used[name] {
			// Docker's types, in the module that this one already requires.
			i.Path.Value = strings.Replace(i.Path.Value, "docker/docker/api/", "moby/moby/api/", 1)
			specs = append(specs, i)
		}
	}
	file.Comments = nil
	file.Decls = append([]ast.Decl{&ast.GenDecl{Tok: token.IMPORT, Lparen: 1, Specs: specs}}, kept...)
	var out bytes.Buffer
	if err := printer.Fprint(&out, fset, file); err != nil {
		return err
	}
	return os.WriteFile(theirs, out.Bytes(), 0o644)
}

// missing returns what this host lacks to run a provider; "" is nothing.
func missing(ctx context.Context, provider string) string {
	switch provider {
	case "docker":
		return testenv.DockerMissing()
	case "jupyter":
		return testenv.JupyterMissing(ctx)
	}
	return ""
}

// startServer starts what a provider needs, and returns the environment of tests with it, and
// a function that ends it.
func startServer(ctx context.Context, dir, provider string) (env []string, stop func() error, err error) {
	switch provider {
	case "docker":
		d, err := testenv.StartDockerd(ctx)
		if err != nil {
			return nil, nil, err
		}
		return []string{"DOCKER_HOST=" + d.Host()}, d.Stop, nil
	case "e2b":
		return startUp(ctx, dir)
	}
	return nil, func() error { return nil }, nil
}

// startUp starts croft up, whose sandboxes are those of provider sandbox.
func startUp(ctx context.Context, dir string) (env []string, stop func() error, err error) {
	bin, key := filepath.Join(dir, "croft"), rand.Text()
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/croft")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build croft: %w: %s", err, out)
	}
	server := exec.CommandContext(ctx, bin, "up", "--json", "--data", filepath.Join(dir, "data"), "--addr", "127.0.0.1:0", "--token", key)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	var stderr bytes.Buffer
	server.Stderr = &stderr
	stdout, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return nil, nil, err
	}
	// Some tests make files below Workspace.Path, which is no directory of this host here.
	const paths = "/workspaces"
	_, missing := os.Stat(paths)
	stop = func() error {
		err := errors.Join(server.Cancel(), server.Wait())
		if errors.Is(missing, os.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(paths))
		}
		return err
	}
	var up struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(stdout).Decode(&up); err != nil {
		return nil, nil, fmt.Errorf("start croft up: %w: %w: %s", err, stop(), stderr.Bytes())
	}
	return []string{local.EnvServer + "=" + up.URL, local.EnvKey + "=" + key}, stop, nil
}

// results are the names of top-level tests, with the output of those that failed.
type results struct {
	passed map[string]bool
	failed map[string]string
}

// buildTests builds the tests of all packages, once for all providers. With -trimpath the
// build cache is used again, though the directory is another one each time.
func buildTests(ctx context.Context, dir string, packages []string) error {
	args := []string{
		"test", "-c", "-o", filepath.Join(dir, "bin") + "/", "-trimpath", "-mod=mod", "-vet=off",
		"-overlay=" + filepath.Join(dir, "overlay.json"), "-modfile=" + filepath.Join(dir, "go.mod"),
	}
	for _, p := range packages {
		args = append(args, module+"/"+p)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests: %w: %s", err, out)
	}
	return nil
}

func runTests(ctx context.Context, dir, provider string, packages, env []string) (*results, error) {
	root := filepath.Join(dir, provider)
	home := filepath.Join(root, "home") // the tests run login shells, and kill some of them
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	res := &results{map[string]bool{}, map[string]string{}}
	for _, p := range packages {
		for panicked := true; panicked; {
			var out, stderr bytes.Buffer
			test := filepath.Join(dir, "bin", filepath.Base(p)+".test")
			args := []string{"tool", "test2json", "-p", p, test, "-test.v=test2json", "-test.timeout=9m", "-test.skip=" + res.seen(p)}
			cmd := exec.CommandContext(ctx, "go", args...)
			cmd.Dir = filepath.Join(dir, "module", p)
			cmd.Env = append(append(os.Environ(), env...), local.EnvProvider+"="+provider, local.EnvRoot+"="+root, "HOME="+home)
			cmd.Stdout, cmd.Stderr = &out, &stderr
			var exit *exec.ExitError
			if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
				return nil, err
			}
			before := len(res.failed)
			var err error
			if panicked, err = res.read(&out); err != nil {
				return nil, err
			}
			if panicked && len(res.failed) == before {
				return nil, fmt.Errorf("%s: %s panics outside of a test: %s\n%s", provider, p, out.Bytes(), stderr.Bytes())
			}
		}
	}
	if len(res.passed) == 0 {
		return nil, errors.New("no test passed")
	}
	return res, nil
}

// seen is a pattern with the tests of a package that have run. The others run after a panic of
// one of them, which is a failure.
func (r *results) seen(pkg string) string {
	var names []string
	for _, name := range slices.Concat(slices.Collect(maps.Keys(r.passed)), slices.Collect(maps.Keys(r.failed))) {
		if test, ok := strings.CutPrefix(name, pkg+"."); ok {
			names = append(names, test)
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// read adds the results in the output of a package, and reports whether its tests panicked.
func (r *results) read(out io.Reader) (panicked bool, err error) {
	texts := map[string]string{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		top, _, sub := strings.Cut(e.Test, "/")
		name := e.Package + "." + top
		switch {
		case e.Action == "output":
			texts[name] += e.Output
			panicked = panicked || strings.HasPrefix(e.Output, "panic: ")
		case sub || e.Test == "":
		case e.Action == "pass":
			r.passed[name] = true
		case e.Action == "fail":
			r.failed[name] = texts[name]
		}
	}
	return panicked, lines.Err()
}

// compare returns what differs from the table of tests that may fail.
func (r *results) compare(provider string, expected map[string]string, verbose bool) []string {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(r.failed)) {
		if verbose {
			fmt.Fprintf(os.Stdout, "=== %s: %s\n%s\n", provider, name, r.failed[name])
		}
		if !fails(expected[name], provider) {
			wrong = append(wrong, name+" failed and is not in the table")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.passed)) {
		if fails(expected[name], provider) {
			wrong = append(wrong, name+" passed and is in the table")
		}
	}
	return wrong
}

// fails reports whether a list of providers has one.
func fails(list, provider string) bool {
	return list == "all" || slices.Contains(strings.Split(list, ", "), provider)
}
