package profile

func detectDeno(s *scan, dir string) *Project {
	config := s.first(dir, "deno.json", "deno.jsonc")
	if config == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: Deno, Language: "typescript", Proof: config, PackageManager: "deno", PackageManagerProof: config}
	t, ok := s.load(p, config, parseJSONC)
	if !ok {
		return p
	}
	p.Name = t.text("name")
	p.Install = p.at(config, "deno", "install")
	p.Format = p.at(config, "deno", "fmt", Files).on(append([]string{"*.md", "*.yml", "*.yaml"}, biomeFiles...)).whole("deno", "fmt")
	p.Lint = p.at(config, "deno", "lint", Files).on(scriptFiles).whole("deno", "lint")
	p.Typecheck = p.at(config, "deno", "check", Files).on(scriptFiles).whole("deno", "check", ".")
	p.ScopedTest = p.at(config, "deno", "test", Files).on(scriptFiles).whole("deno", "test")
	p.Test = p.at(config, "deno", "test").on(scriptFiles)
	if t.has("tasks", "test") {
		p.Test = p.at(config, "deno", "task", "test").on(scriptFiles)
	}
	if t.has("tasks", "build") {
		p.Build = p.at(config, "deno", "task", "build")
	}
	members := t.list("workspace")
	if members == nil {
		members = t.list("workspace", "members")
	}
	s.declare(p, "deno.json", members)
	s.declare(p, "deno.jsonc", members)
	return p
}
