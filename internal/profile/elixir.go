package profile

import (
	"path"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	elixirFiles = []string{"*.ex", "*.exs", "*.heex", "*.eex", "*.leex"}
	mixApp      = lazyregexp.New(`\bapp:\s*:([a-z0-9_]+)`)
)

func detectElixir(s *scan, dir string) *Project {
	manifest := s.firstFile(dir, "mix.exs")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Elixir, Language: "elixir", Proof: manifest, PackageManager: "mix", PackageManagerProof: manifest, DepsDir: path.Join(dir, "deps")}
	text := stripComments(s.readText(p, manifest), "#")
	if m := mixApp.FindStringSubmatch(text); m != nil {
		p.Name = m[1]
	}
	p.Install = p.command(manifest, "mix", "deps.get")
	p.Build = p.command(manifest, "mix", "compile").matching(elixirFiles)
	p.Typecheck = p.command(manifest, "mix", "compile", "--warnings-as-errors").matching(elixirFiles)
	if strings.Contains(text, ":dialyxir") {
		p.Typecheck = p.command(manifest, "mix", "dialyzer").matching(elixirFiles)
	}
	p.Format = p.command(orProof(s.firstFile(dir, ".formatter.exs"), manifest), "mix", "format", Files).matching(elixirFiles).withWhole("mix", "format")
	if f := s.firstFile(dir, ".credo.exs", "config/.credo.exs"); f != "" || strings.Contains(text, ":credo") {
		p.Lint = p.command(orProof(f, manifest), "mix", "credo", Files).matching([]string{"*.ex", "*.exs"}).withWhole("mix", "credo")
	}
	p.Test = p.command(manifest, "mix", "test").matching(elixirFiles)
	p.ScopedTest = p.command(manifest, "mix", "test", Files).matching([]string{"*_test.exs"}).withWhole("mix", "test")
	if strings.Contains(text, "apps_path:") {
		s.declareMembers(p, "mix.exs", []string{"apps/*"})
	}
	return p
}
