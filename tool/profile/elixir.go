package profile

import (
	"path"
	"regexp"
	"strings"
)

var (
	elixirFiles = []string{"*.ex", "*.exs", "*.heex", "*.eex", "*.leex"}
	mixApp      = regexp.MustCompile(`\bapp:\s*:([a-z0-9_]+)`)
)

func detectElixir(s *scan, dir string) *Project {
	manifest := s.first(dir, "mix.exs")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Elixir, Language: "elixir", Proof: manifest, PackageManager: "mix", PackageManagerProof: manifest, DepsDir: path.Join(dir, "deps")}
	text := uncomment(s.text(p, manifest), "#")
	if m := mixApp.FindStringSubmatch(text); m != nil {
		p.Name = m[1]
	}
	p.Install = p.at(manifest, "mix", "deps.get")
	p.Build = p.at(manifest, "mix", "compile").on(elixirFiles)
	p.Typecheck = p.at(manifest, "mix", "compile", "--warnings-as-errors").on(elixirFiles)
	if strings.Contains(text, ":dialyxir") {
		p.Typecheck = p.at(manifest, "mix", "dialyzer").on(elixirFiles)
	}
	p.Format = p.at(orProof(s.first(dir, ".formatter.exs"), manifest), "mix", "format", Files).on(elixirFiles).whole("mix", "format")
	if f := s.first(dir, ".credo.exs", "config/.credo.exs"); f != "" || strings.Contains(text, ":credo") {
		p.Lint = p.at(orProof(f, manifest), "mix", "credo", Files).on([]string{"*.ex", "*.exs"}).whole("mix", "credo")
	}
	p.Test = p.at(manifest, "mix", "test").on(elixirFiles)
	p.ScopedTest = p.at(manifest, "mix", "test", Files).on([]string{"*_test.exs"}).whole("mix", "test")
	if strings.Contains(text, "apps_path:") {
		s.declare(p, "mix.exs", []string{"apps/*"})
	}
	return p
}
