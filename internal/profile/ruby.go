package profile

import (
	"path"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var rubyFiles = []string{"*.rb", "*.rake", "*.gemspec", "*.ru", "Gemfile", "Rakefile"}

func detectRuby(s *scan, dir string) *Project {
	gemfile := s.firstFile(dir, "Gemfile", "gems.rb")
	specs := s.glob(dir, "*.gemspec")
	if gemfile == "" && len(specs) == 0 {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Ruby, Language: "ruby", Proof: gemfile, PackageManager: "bundler"}
	text := stripComments(s.readText(p, gemfile), "#")
	for _, spec := range specs {
		text += stripComments(s.readText(p, spec), "#")
		p.Name = strings.TrimSuffix(path.Base(spec), ".gemspec")
	}
	if gemfile == "" {
		p.Proof, p.PackageManager = specs[0], ""
	} else {
		p.PackageManagerProof = gemfile
		p.Install = p.command(gemfile, "bundle", "install")
	}
	r := &rubyProject{Project: p, s: s, gems: text + s.lockedGems(p, dir)}
	r.detectLint()
	r.detectTests()
	return p
}

type rubyProject struct {
	*Project
	s    *scan
	gems string
}

func (s *scan) lockedGems(p *Project, dir string) string {
	lock := s.firstFile(dir, "Gemfile.lock", "gems.locked")
	if lock == "" {
		return ""
	}
	var b strings.Builder
	for _, name := range submatches(gemInLock, s.readText(p, lock)) {
		b.WriteString("\ngem '" + name + "'")
	}
	return b.String()
}

var gemInLock = lazyregexp.New(`(?m)^ {4}([A-Za-z0-9_.-]+) \(`)

func (r *rubyProject) hasGem(name string) bool {
	return strings.Contains(r.gems, "'"+name+"'") || strings.Contains(r.gems, `"`+name+`"`)
}

// toolArgv returns the argv of a gem's program. Bundler runs only programs of the bundle.
func (r *rubyProject) toolArgv(gem, program string, args ...string) []string {
	argv := append([]string{program}, args...)
	if r.PackageManager == "bundler" && r.hasGem(gem) {
		return append([]string{"bundle", "exec"}, argv...)
	}
	return argv
}

func (r *rubyProject) detectLint() {
	if f := r.s.firstFile(r.Dir, ".standard.yml"); f != "" || r.hasGem("standard") {
		r.useLinter(orProof(f, r.Proof), "standard", "standardrb", nil, "--fix")
	} else if f := r.s.firstFile(r.Dir, ".rubocop.yml"); f != "" || r.hasGem("rubocop") {
		r.useLinter(orProof(f, r.Proof), "rubocop", "rubocop", []string{"--force-exclusion"}, "--autocorrect")
	}
	if f := r.s.firstFile(r.Dir, "sorbet/config"); f != "" {
		r.Typecheck = r.command(f, r.toolArgv("sorbet", "srb", "tc")...).matching(rubyFiles)
	} else if f := r.s.firstFile(r.Dir, "Steepfile"); f != "" {
		r.Typecheck = r.command(f, r.toolArgv("steep", "steep", "check")...).matching(rubyFiles)
	}
}

func (r *rubyProject) useLinter(proof, gem, program string, flags []string, fix string) {
	check := r.toolArgv(gem, program, flags...)
	write := r.toolArgv(gem, program, append([]string{fix}, flags...)...)
	r.Lint = r.command(proof, append(check[:len(check):len(check)], Files)...).matching(rubyFiles).withWhole(check...)
	r.Format = r.command(proof, append(write[:len(write):len(write)], Files)...).matching(rubyFiles).withWhole(write...)
}

func orProof(file, manifest string) string {
	if file != "" {
		return file
	}
	return manifest
}

// loadEach makes ruby run several test files: it takes one program, and passes the rest as
// arguments.
const loadEach = "ARGV.each { |f| require File.expand_path(f) }"

func (r *rubyProject) detectTests() {
	rspec := r.s.firstFile(r.Dir, ".rspec", "spec/spec_helper.rb")
	rails := r.s.firstFile(r.Dir, "bin/rails")
	hasTests := r.s.hasDir(r.Dir, "test")
	switch {
	case rspec != "" || r.hasGem("rspec") || r.hasGem("rspec-rails"):
		proof := orProof(rspec, r.Proof)
		argv := r.toolArgv("rspec", "rspec")
		if r.hasGem("rspec-rails") {
			argv = r.toolArgv("rspec-rails", "rspec")
		}
		r.Test = r.command(proof, argv...).matching(rubyFiles)
		r.ScopedTest = r.command(proof, append(argv[:len(argv):len(argv)], Files)...).matching([]string{"*_spec.rb"}).withWhole(argv...)
	case rails != "" && hasTests:
		r.Test = r.command(rails, "bin/rails", "test").matching(rubyFiles)
		r.ScopedTest = r.command(rails, "bin/rails", "test", Files).matching([]string{"*_test.rb", "test_*.rb"}).withWhole("bin/rails", "test")
	case hasTests:
		r.useMinitest()
	}
}

func (r *rubyProject) useMinitest() {
	proof := path.Join(r.Dir, "test")
	ruby := []string{"ruby"}
	if r.PackageManager == "bundler" {
		ruby = []string{"bundle", "exec", "ruby"}
	}
	r.ScopedTest = r.command(proof, append(ruby, "-Ilib", "-Itest", "-e", loadEach, Files)...).matching([]string{"*_test.rb", "test_*.rb"})
	if f := r.s.firstFile(r.Dir, "Rakefile"); f != "" {
		argv := r.toolArgv("rake", "rake", "test")
		r.Test = r.command(f, argv...).matching(rubyFiles)
		r.ScopedTest = r.ScopedTest.withWhole(argv...)
	}
}
