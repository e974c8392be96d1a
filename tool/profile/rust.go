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
	manifest := s.first(dir, "Cargo.toml")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Rust, Language: "rust", Proof: manifest, PackageManager: "cargo", PackageManagerProof: manifest}
	m, ok := s.load(p, manifest, parseTOML)
	if !ok {
		return p
	}
	p.Name = m.text("package", "name")
	root, rootManifest := s.workspaceOf(Rust, dir), table(nil)
	if root != nil {
		rootManifest, _ = s.load(&Project{}, root.Proof, parseTOML)
	}
	p.Install = p.at(manifest, "cargo", "fetch")
	edition := cmp.Or(m.text("package", "edition"), m.text("workspace", "package", "edition"),
		rootManifest.text("workspace", "package", "edition"), "2015") // what cargo takes where none is named
	whole := []string{"cargo", "fmt"}
	if m.has("workspace") {
		whole = append(whole, "--all")
	}
	p.Format = p.at(manifest, "rustfmt", "--edition", edition, Files).on(rustFiles).whole(whole...)
	packages := s.crates(p, m)
	p.Build = p.cargo("build", packages, m.has("workspace"), false)
	p.Lint = p.cargo("clippy", packages, m.has("workspace"), true, "--all-targets", "--", "-D", "warnings")
	p.Typecheck = p.cargo("check", packages, m.has("workspace"), true, "--all-targets")
	p.Test = p.cargo("test", packages, m.has("workspace"), false)
	p.ScopedTest = p.cargo("test", packages, m.has("workspace"), true)
	return p
}

// crates returns the packages of a manifest: its own and its members'.
func (s *scan) crates(p *Project, m table) []Package {
	var out []Package
	if p.Name != "" {
		out = append(out, Package{Dir: p.Dir, Name: p.Name})
	}
	if !m.has("workspace") {
		return out
	}
	patterns := m.list("workspace", "members")
	for _, x := range m.list("workspace", "exclude") {
		patterns = append(patterns, "!"+x)
	}
	s.declare(p, "Cargo.toml", patterns)
	for _, d := range p.Members {
		if t, ok := s.load(p, path.Join(d, "Cargo.toml"), parseTOML); ok && t.text("package", "name") != "" {
			out = append(out, Package{Dir: d, Name: t.text("package", "name")})
		}
	}
	return out
}

// cargo makes a command over crates. Cargo takes no files: where the command is
// to be scoped, files become the crates that hold them.
func (p *Project) cargo(verb string, packages []Package, workspace, scoped bool, rest ...string) Command {
	argv := []string{"cargo", verb}
	if workspace {
		argv = append(argv, "--workspace")
	}
	argv = append(argv, rest...)
	if !scoped || len(packages) == 0 {
		return p.at(p.Proof, argv...).on(crateFile)
	}
	c := p.at(p.Proof, append([]string{"cargo", verb, "--package=" + Packages}, rest...)...).on(crateFile).whole(argv...)
	c.Packages = packages
	return c
}
