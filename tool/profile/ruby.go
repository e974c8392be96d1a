package profile

import (
	"path"
	"regexp"
	"strings"
)

var rubyFiles = []string{"*.rb", "*.rake", "*.gemspec", "*.ru", "Gemfile", "Rakefile"}

func detectRuby(s *scan, dir string) *Project {
	gemfile := s.first(dir, "Gemfile", "gems.rb")
	specs := s.glob(dir, "*.gemspec")
	if gemfile == "" && len(specs) == 0 {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Ruby, Language: "ruby", Proof: gemfile, PackageManager: "bundler"}
	text := uncomment(s.text(p, gemfile), "#")
	for _, spec := range specs {
		text += uncomment(s.text(p, spec), "#")
		p.Name = strings.TrimSuffix(path.Base(spec), ".gemspec")
	}
	if gemfile == "" {
		p.Proof, p.PackageManager = specs[0], ""
	} else {
		p.PackageManagerProof = gemfile
		p.Install = p.at(gemfile, "bundle", "install")
	}
	r := &ruby{Project: p, s: s, gems: text + s.lockedGems(p, dir)}
	r.lint()
	r.tests()
	return p
}

type ruby struct {
	*Project
	s    *scan
	gems string
}

func (s *scan) lockedGems(p *Project, dir string) string {
	lock := s.first(dir, "Gemfile.lock", "gems.locked")
	if lock == "" {
		return ""
	}
	var b strings.Builder
	for _, name := range submatches(gemInLock, s.text(p, lock)) {
		b.WriteString("\ngem '" + name + "'")
	}
	return b.String()
}

var gemInLock = regexp.MustCompile(`(?m)^ {4}([A-Za-z0-9_.-]+) \(`)

func (r *ruby) gem(name string) bool {
	return strings.Contains(r.gems, "'"+name+"'") || strings.Contains(r.gems, `"`+name+`"`)
}

// tool returns argv for a program of a gem. Bundler runs only what the bundle has.
func (r *ruby) tool(gem, program string, args ...string) []string {
	argv := append([]string{program}, args...)
	if r.PackageManager == "bundler" && r.gem(gem) {
		return append([]string{"bundle", "exec"}, argv...)
	}
	return argv
}

func (r *ruby) lint() {
	if f := r.s.first(r.Dir, ".standard.yml"); f != "" || r.gem("standard") {
		r.linter(orProof(f, r.Proof), "standard", "standardrb", nil, "--fix")
	} else if f := r.s.first(r.Dir, ".rubocop.yml"); f != "" || r.gem("rubocop") {
		r.linter(orProof(f, r.Proof), "rubocop", "rubocop", []string{"--force-exclusion"}, "--autocorrect")
	}
	if f := r.s.first(r.Dir, "sorbet/config"); f != "" {
		r.Typecheck = r.at(f, r.tool("sorbet", "srb", "tc")...).on(rubyFiles)
	} else if f := r.s.first(r.Dir, "Steepfile"); f != "" {
		r.Typecheck = r.at(f, r.tool("steep", "steep", "check")...).on(rubyFiles)
	}
}

func (r *ruby) linter(proof, gem, program string, flags []string, fix string) {
	check := r.tool(gem, program, flags...)
	write := r.tool(gem, program, append([]string{fix}, flags...)...)
	r.Lint = r.at(proof, append(check[:len(check):len(check)], Files)...).on(rubyFiles).whole(check...)
	r.Format = r.at(proof, append(write[:len(write):len(write)], Files)...).on(rubyFiles).whole(write...)
}

func orProof(file, manifest string) string {
	if file != "" {
		return file
	}
	return manifest
}

// loadEach makes ruby run several test files: it takes one program, and the rest
// as that program's arguments.
const loadEach = "ARGV.each { |f| require File.expand_path(f) }"

func (r *ruby) tests() {
	rspec := r.s.first(r.Dir, ".rspec", "spec/spec_helper.rb")
	rails := r.s.first(r.Dir, "bin/rails")
	hasTests := r.s.hasDir(r.Dir, "test")
	switch {
	case rspec != "" || r.gem("rspec") || r.gem("rspec-rails"):
		proof := orProof(rspec, r.Proof)
		argv := r.tool("rspec", "rspec")
		if r.gem("rspec-rails") {
			argv = r.tool("rspec-rails", "rspec")
		}
		r.Test = r.at(proof, argv...).on(rubyFiles)
		r.ScopedTest = r.at(proof, append(argv[:len(argv):len(argv)], Files)...).on([]string{"*_spec.rb"}).whole(argv...)
	case rails != "" && hasTests:
		r.Test = r.at(rails, "bin/rails", "test").on(rubyFiles)
		r.ScopedTest = r.at(rails, "bin/rails", "test", Files).on([]string{"*_test.rb", "test_*.rb"}).whole("bin/rails", "test")
	case hasTests:
		r.minitest()
	}
}

func (r *ruby) minitest() {
	proof := path.Join(r.Dir, "test")
	ruby := []string{"ruby"}
	if r.PackageManager == "bundler" {
		ruby = []string{"bundle", "exec", "ruby"}
	}
	r.ScopedTest = r.at(proof, append(ruby, "-Ilib", "-Itest", "-e", loadEach, Files)...).on([]string{"*_test.rb", "test_*.rb"})
	if f := r.s.first(r.Dir, "Rakefile"); f != "" {
		argv := r.tool("rake", "rake", "test")
		r.Test = r.at(f, argv...).on(rubyFiles)
		r.ScopedTest = r.ScopedTest.whole(argv...)
	}
}
