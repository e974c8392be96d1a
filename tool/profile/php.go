package profile

import (
	"cmp"
	"path"
	"slices"
)

var phpFiles = []string{"*.php"}

func detectPHP(s *scan, dir string) *Project {
	manifest := s.first(dir, "composer.json")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: PHP, Language: "php", Proof: manifest, PackageManager: "composer", PackageManagerProof: manifest}
	m, ok := s.load(p, manifest, parseJSON)
	if !ok {
		return p
	}
	p.Name = m.text("name")
	vendor := cmp.Or(m.text("config", "vendor-dir"), "vendor")
	h := &php{Project: p, s: s, manifest: m, bin: cmp.Or(m.text("config", "bin-dir"), path.Join(vendor, "bin"))}
	p.DepsDir = path.Join(dir, vendor)
	p.Install = p.at(manifest, "composer", "install")
	h.style()
	h.analysis()
	h.tests()
	return p
}

type php struct {
	*Project
	s        *scan
	manifest table
	bin      string
}

func (h *php) needs(name string) bool {
	return h.manifest.has("require", name) || h.manifest.has("require-dev", name)
}

// proof returns the configuration of a tool, or the manifest that requires it, or "".
func (h *php) proof(dep string, configs ...string) string {
	if f := h.s.first(h.Dir, configs...); f != "" {
		return f
	}
	if h.needs(dep) {
		return h.Proof
	}
	return ""
}

func (h *php) onFiles(proof string, argv ...string) Command {
	argv[0] = path.Join(h.bin, argv[0])
	return h.at(proof, append(slices.Clone(argv), Files)...).on(phpFiles).whole(argv...)
}

func (h *php) style() {
	fixer := h.s.first(h.Dir, ".php-cs-fixer.php", ".php-cs-fixer.dist.php", ".php_cs", ".php_cs.dist")
	if f := h.proof("laravel/pint", "pint.json"); f != "" {
		h.Format, h.Lint = h.onFiles(f, "pint"), h.onFiles(f, "pint", "--test")
	} else if fixer != "" {
		// With several paths it asks for the configuration by name; the intersection
		// keeps what the configuration leaves out.
		config := "--config=" + path.Base(fixer)
		h.Format = h.onFiles(fixer, "php-cs-fixer", "fix", config, "--path-mode=intersection")
		h.Lint = h.onFiles(fixer, "php-cs-fixer", "fix", "--dry-run", "--diff", config, "--path-mode=intersection")
		h.Format.Whole = []string{h.Format.Argv[0], "fix", config}
		h.Lint.Whole = []string{h.Lint.Argv[0], "fix", "--dry-run", "--diff", config}
	}
	if f := h.s.first(h.Dir, "phpcs.xml", ".phpcs.xml", "phpcs.xml.dist", ".phpcs.xml.dist"); f != "" {
		h.Lint = h.onFiles(f, "phpcs")
		if h.Format.IsZero() {
			h.Format = h.onFiles(f, "phpcbf")
		}
	}
}

func (h *php) analysis() {
	if f := h.proof("phpstan/phpstan", "phpstan.neon", "phpstan.neon.dist", "phpstan.dist.neon"); f != "" {
		h.Typecheck = h.onFiles(f, "phpstan", "analyse", "--no-progress")
	} else if f := h.proof("vimeo/psalm", "psalm.xml", "psalm.xml.dist"); f != "" {
		h.Typecheck = h.onFiles(f, "psalm", "--no-progress")
	}
	if h.Lint.IsZero() {
		h.Lint = h.Typecheck
	}
}

func (h *php) tests() {
	config := h.proof("phpunit/phpunit", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml")
	switch {
	case h.needs("pestphp/pest"):
		h.testWith("pest", h.Proof)
	case config != "":
		h.testWith("phpunit", config)
	case h.manifest.has("scripts", "test"):
		h.Test = h.at(h.Proof, "composer", "run-script", "test").on(phpFiles)
	}
}

// testWith selects by class, since older versions take one path at most.
func (h *php) testWith(program, proof string) {
	program = path.Join(h.bin, program)
	h.Test = h.at(proof, program).on(phpFiles)
	h.ScopedTest = h.at(proof, program, "--filter="+Tests).on([]string{"*Test.php"}).whole(program)
	h.ScopedTest.Join = "|"
}
