// Command upstream runs the tests of trpc-agent-go over trpcagent.
//
// It copies nothing: a build overlay puts package internal/upstream/local in the place of
// trpc-agent-go's codeexecutor/local, and "go test" takes the rest, tests included, from the
// module cache. Tests inside package local test functions that are not there, and are left
// out. The tests that may fail, with the reason, are in the document that -known names.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/croft-run/croft/contrib/trpcagent/internal/upstream/local"
)

const (
	module   = "trpc.group/trpc-go/trpc-agent-go"
	replaced = "codeexecutor/local"
)

// packages are those whose tests use codeexecutor/local, but for whole agents.
var packages = []string{
	"codeexecutor", replaced, "codeexecutor/workspaceio", "tool/workspaceexec", "tool/skill", "internal/skillstage", "internal/workspaceprep",
}

// minimums are the tests that must pass, by provider.
var minimums = map[string]int{"local": 564, "in-place": 564, "sandbox": 555}

func main() {
	known := flag.String("known", "", "the document with the table of tests that may fail")
	only := flag.String("provider", "", "run with one of local, in-place and sandbox; empty is all")
	verbose := flag.Bool("v", false, "print the output of tests that fail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the root of the program
	defer stop()
	if err := run(ctx, *known, *only, *verbose); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, known, only string, verbose bool) error {
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
	if err := writeOverlay(ctx, dir); err != nil {
		return err
	}
	if err := buildTests(ctx, dir); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "provider\tpassed\tof\tminimum\tunexpected")
	var errs []error
	for _, provider := range []string{"local", "in-place", "sandbox"} {
		if only != "" && only != provider {
			continue
		}
		res, err := runTests(ctx, dir, provider)
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

// row is a row of the table of tests that may fail: a test, and the providers that it fails
// with.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z, -]+) \\|")

// readKnown returns the tests that may fail, with their providers. The word all is all
// providers.
func readKnown(name string) (map[string]string, error) {
	out := map[string]string{}
	if name == "" {
		return out, nil
	}
	data, err := os.ReadFile(name)
	for _, m := range row.FindAllSubmatch(data, -1) {
		out[string(m[1])] = string(m[2])
	}
	return out, err
}

// writeOverlay writes overlay.json and go.mod, in which the module is a symlink to the
// module cache: go refuses an overlay of the cache itself.
func writeOverlay(ctx context.Context, dir string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find %s: %w", module, err)
	}
	cache := strings.TrimSpace(string(out))
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

// results are the names of top-level tests, with the output of those that failed.
type results struct {
	passed map[string]bool
	failed map[string]string
}

// buildTests builds the tests of all packages, once for all providers. With -trimpath the
// build cache is used again, though the directory is another one each time.
func buildTests(ctx context.Context, dir string) error {
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

func runTests(ctx context.Context, dir, provider string) (*results, error) {
	root := filepath.Join(dir, provider)
	home := filepath.Join(root, "home") // the tests run login shells, and kill some of them
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	var out, stderr bytes.Buffer
	for _, p := range packages {
		test := filepath.Join(dir, "bin", filepath.Base(p)+".test")
		cmd := exec.CommandContext(ctx, "go", "tool", "test2json", "-p", module+"/"+p, test, "-test.v=test2json", "-test.timeout=9m")
		cmd.Dir = filepath.Join(dir, "module", p)
		cmd.Env = append(os.Environ(), local.EnvProvider+"="+provider, local.EnvRoot+"="+root, "HOME="+home)
		cmd.Stdout, cmd.Stderr = &out, &stderr
		var exit *exec.ExitError
		if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
			return nil, err
		}
	}
	res := &results{map[string]bool{}, map[string]string{}}
	texts := map[string]string{}
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		top, _, sub := strings.Cut(e.Test, "/")
		name := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/") + "." + top
		switch {
		case e.Action == "output":
			texts[name] += e.Output
		case e.Test == "" && e.Action == "fail":
			if strings.Contains(texts[name], "panic:") {
				return nil, fmt.Errorf("%s: %s\n%s", provider, texts[name], stderr.Bytes())
			}
		case sub || e.Test == "":
		case e.Action == "pass":
			res.passed[name] = true
		case e.Action == "fail":
			res.failed[name] = texts[name]
		}
	}
	if len(res.passed) == 0 {
		return nil, fmt.Errorf("no test passed: %s", stderr.Bytes())
	}
	return res, lines.Err()
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
