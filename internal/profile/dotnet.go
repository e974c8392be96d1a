package profile

import (
	"encoding/xml"
	"path"
	"strings"
)

var dotnetFiles = []string{"*.cs", "*.fs", "*.vb"}

func detectDotnet(s *scan, dir string) *Project {
	solutions := s.glob(dir, "*.sln", "*.slnx")
	projects := s.glob(dir, "*.csproj", "*.fsproj", "*.vbproj")
	if len(solutions)+len(projects) == 0 {
		return nil
	}
	targets := solutions
	if len(targets) == 0 {
		targets = projects
	}
	p := &Project{Dir: dir, Ecosystem: Dotnet, Language: dotnetLanguage(projects), Proof: targets[0], PackageManager: "nuget", PackageManagerProof: targets[0]}
	p.Name = strings.TrimSuffix(path.Base(targets[0]), path.Ext(targets[0]))
	if len(targets) > 1 {
		// dotnet requires one to be named, too.
		p.Name = ""
		p.warn(targets[0], "one of %d in this directory; dotnet needs one to be named", len(targets))
		return p
	}
	testable, ok := true, true
	if len(solutions) == 0 {
		testable, ok = s.isTestProject(p, targets[0])
	}
	if ok {
		p.dotnetCommands(targets[0], testable)
	}
	return p
}

func (p *Project) dotnetCommands(proof string, testable bool) {
	target := path.Base(proof)
	p.Install = p.command(proof, "dotnet", "restore", target)
	p.Build = p.command(proof, "dotnet", "build", target).matching(dotnetFiles)
	p.Format = p.command(proof, "dotnet", "format", target, "--include", Files).matching(dotnetFiles).withWhole("dotnet", "format", target)
	p.Lint = p.command(proof, "dotnet", "format", target, "--verify-no-changes", "--include", Files).matching(dotnetFiles).
		withWhole("dotnet", "format", target, "--verify-no-changes")
	p.Typecheck = p.Build
	if testable {
		p.Test = p.command(proof, "dotnet", "test", target).matching(dotnetFiles)
		p.ScopedTest = p.Test
	}
}

func dotnetLanguage(projects []string) string {
	if len(projects) > 0 {
		switch path.Ext(projects[0]) {
		case ".fsproj":
			return "fsharp"
		case ".vbproj":
			return "visualbasic"
		}
	}
	return "csharp"
}

// isTestProject looks for an SDK that dotnet test can run.
func (s *scan) isTestProject(p *Project, file string) (testable, ok bool) {
	data, err := s.read(file)
	if err == nil {
		var root struct {
			XMLName xml.Name `xml:"Project"`
		}
		err = xml.Unmarshal(data, &root)
	}
	if err != nil {
		p.warn(file, "invalid project: %v", err)
		return false, false
	}
	text := string(data)
	return strings.Contains(text, "Microsoft.NET.Test.Sdk") || strings.Contains(text, "<IsTestProject>true") ||
		strings.Contains(text, "MSTest.Sdk") || strings.Contains(text, "TUnit"), true
}
