package profile

func detectDeno(s *scan, dir string) *Project {
	config := s.firstFile(dir, "deno.json", "deno.jsonc")
	if config == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Deno, Language: "typescript", Proof: config, PackageManager: "deno", PackageManagerProof: config}
	t, ok := s.loadTable(p, config, parseJSONC)
	if !ok {
		return p
	}
	p.Name = t.stringAt("name")
	p.Install = p.command(config, "deno", "install")
	p.Format = p.command(config, "deno", "fmt", Files).matching(append([]string{"*.md", "*.yml", "*.yaml"}, biomeFiles...)).withWhole("deno", "fmt")
	p.Lint = p.command(config, "deno", "lint", Files).matching(scriptFiles).withWhole("deno", "lint")
	p.Typecheck = p.command(config, "deno", "check", Files).matching(scriptFiles).withWhole("deno", "check", ".")
	p.ScopedTest = p.command(config, "deno", "test", Files).matching(scriptFiles).withWhole("deno", "test")
	p.Test = p.command(config, "deno", "test").matching(scriptFiles)
	if t.hasKey("tasks", "test") {
		p.Test = p.command(config, "deno", "task", "test").matching(scriptFiles)
	}
	if t.hasKey("tasks", "build") {
		p.Build = p.command(config, "deno", "task", "build")
	}
	members := t.stringsAt("workspace")
	if members == nil {
		members = t.stringsAt("workspace", "members")
	}
	s.declareMembers(p, "deno.json", members)
	s.declareMembers(p, "deno.jsonc", members)
	return p
}
