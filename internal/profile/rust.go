package profile

import (
	"cmp"
	"path"
)

var (
	rustFiles = []string{"*.rs"}
	crateFile = []string{"*.rs", "Cargo.toml", "Cargo.lock"}
)

func detectRust(s *scan, dir string) *Project {
	manifest := s.firstFile(dir, "Cargo.toml")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Rust, Language: "rust", Proof: manifest, PackageManager: "cargo", PackageManagerProof: manifest}
	m, ok := s.loadTable(p, manifest, parseTOML)
	if !ok {
		return p
	}
	p.Name = m.stringAt("package", "name")
	root, rootManifest := s.workspaceOf(Rust, dir), table(nil)
	if root != nil {
		rootManifest, _ = s.loadTable(&Project{}, root.Proof, parseTOML)
	}
	p.Install = p.command(manifest, "cargo", "fetch")
	edition := cmp.Or(m.stringAt("package", "edition"), m.stringAt("workspace", "package", "edition"),
		rootManifest.stringAt("workspace", "package", "edition"), "2015") // cargo's default
	whole := []string{"cargo", "fmt"}
	if m.hasKey("workspace") {
		whole = append(whole, "--all")
	}
	p.Format = p.command(manifest, "rustfmt", "--edition", edition, Files).matching(rustFiles).withWhole(whole...)
	packages := s.findCrates(p, m)
	p.Build = p.cargoCommand("build", packages, m.hasKey("workspace"), false)
	p.Lint = p.cargoCommand("clippy", packages, m.hasKey("workspace"), true, "--all-targets", "--", "-D", "warnings")
	p.Typecheck = p.cargoCommand("check", packages, m.hasKey("workspace"), true, "--all-targets")
	p.Test = p.cargoCommand("test", packages, m.hasKey("workspace"), false)
	p.ScopedTest = p.cargoCommand("test", packages, m.hasKey("workspace"), true)
	return p
}

// findCrates returns the packages of a manifest and of its members.
func (s *scan) findCrates(p *Project, m table) []Package {
	var out []Package
	if p.Name != "" {
		out = append(out, Package{Dir: p.Dir, Name: p.Name})
	}
	if !m.hasKey("workspace") {
		return out
	}
	patterns := m.stringsAt("workspace", "members")
	for _, x := range m.stringsAt("workspace", "exclude") {
		patterns = append(patterns, "!"+x)
	}
	s.declareMembers(p, "Cargo.toml", patterns)
	for _, d := range p.Members {
		if t, ok := s.loadTable(p, path.Join(d, "Cargo.toml"), parseTOML); ok && t.stringAt("package", "name") != "" {
			out = append(out, Package{Dir: d, Name: t.stringAt("package", "name")})
		}
	}
	return out
}

// cargoCommand returns a command over crates. Cargo takes no files: in a scoped command,
// files become their crates.
func (p *Project) cargoCommand(verb string, packages []Package, workspace, scoped bool, rest ...string) Command {
	argv := []string{"cargo", verb}
	if workspace {
		argv = append(argv, "--workspace")
	}
	argv = append(argv, rest...)
	if !scoped || len(packages) == 0 {
		return p.command(p.Proof, argv...).matching(crateFile)
	}
	c := p.command(p.Proof, append([]string{"cargo", verb, "--package=" + Packages}, rest...)...).matching(crateFile).withWhole(argv...)
	c.Packages = packages
	return c
}
