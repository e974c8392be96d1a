package profile

import (
	"cmp"
	"path"
	"slices"
)

var phpFiles = []string{"*.php"}

func detectPHP(s *scan, dir string) *Project {
	manifest := s.firstFile(dir, "composer.json")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: PHP, Language: "php", Proof: manifest, PackageManager: "composer", PackageManagerProof: manifest}
	m, ok := s.loadTable(p, manifest, parseJSON)
	if !ok {
		return p
	}
	p.Name = m.stringAt("name")
	vendor := cmp.Or(m.stringAt("config", "vendor-dir"), "vendor")
	h := &phpProject{Project: p, s: s, manifest: m, bin: cmp.Or(m.stringAt("config", "bin-dir"), path.Join(vendor, "bin"))}
	p.DepsDir = path.Join(dir, vendor)
	p.Install = p.command(manifest, "composer", "install")
	h.detectStyle()
	h.detectAnalysis()
	h.detectTests()
	return p
}

type phpProject struct {
	*Project
	s        *scan
	manifest table
	bin      string
}

func (h *phpProject) requires(name string) bool {
	return h.manifest.hasKey("require", name) || h.manifest.hasKey("require-dev", name)
}

// toolProof returns the configuration of a tool, the manifest that requires it, or "".
func (h *phpProject) toolProof(dep string, configs ...string) string {
	if f := h.s.firstFile(h.Dir, configs...); f != "" {
		return f
	}
	if h.requires(dep) {
		return h.Proof
	}
	return ""
}

func (h *phpProject) onFiles(proof string, argv ...string) Command {
	argv[0] = path.Join(h.bin, argv[0])
	return h.command(proof, append(slices.Clone(argv), Files)...).matching(phpFiles).withWhole(argv...)
}

func (h *phpProject) detectStyle() {
	fixer := h.s.firstFile(h.Dir, ".php-cs-fixer.php", ".php-cs-fixer.dist.php", ".php_cs", ".php_cs.dist")
	if f := h.toolProof("laravel/pint", "pint.json"); f != "" {
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
	if f := h.s.firstFile(h.Dir, "phpcs.xml", ".phpcs.xml", "phpcs.xml.dist", ".phpcs.xml.dist"); f != "" {
		h.Lint = h.onFiles(f, "phpcs")
		if h.Format.IsZero() {
			h.Format = h.onFiles(f, "phpcbf")
		}
	}
}

func (h *phpProject) detectAnalysis() {
	if f := h.toolProof("phpstan/phpstan", "phpstan.neon", "phpstan.neon.dist", "phpstan.dist.neon"); f != "" {
		h.Typecheck = h.onFiles(f, "phpstan", "analyse", "--no-progress")
	} else if f := h.toolProof("vimeo/psalm", "psalm.xml", "psalm.xml.dist"); f != "" {
		h.Typecheck = h.onFiles(f, "psalm", "--no-progress")
	}
	if h.Lint.IsZero() {
		h.Lint = h.Typecheck
	}
}

func (h *phpProject) detectTests() {
	config := h.toolProof("phpunit/phpunit", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml")
	switch {
	case h.requires("pestphp/pest"):
		h.testWith("pest", h.Proof)
	case config != "":
		h.testWith("phpunit", config)
	case h.manifest.hasKey("scripts", "test"):
		h.Test = h.command(h.Proof, "composer", "run-script", "test").matching(phpFiles)
	}
}

// testWith selects tests by class, since older versions take at most one path.
func (h *phpProject) testWith(program, proof string) {
	program = path.Join(h.bin, program)
	h.Test = h.command(proof, program).matching(phpFiles)
	h.ScopedTest = h.command(proof, program, "--filter="+Tests).matching([]string{"*Test.php"}).withWhole(program)
	h.ScopedTest.Join = "|"
}
