package profile

import (
	"encoding/xml"
	"slices"
	"strings"

	"github.com/croft-run/croft/internal/lazyregexp"
)

var (
	jvmFiles     = []string{"*.java", "*.kt", "*.kts", "*.groovy", "*.scala"}
	jvmTestFiles = []string{"*Test.java", "*Tests.java", "Test*.java", "*TestCase.java", "*IT.java", "*Test.kt", "*Tests.kt", "*Spec.kt", "*Spec.groovy"}
)

// A pom has the used parts of Maven's manifest.
type pom struct {
	XMLName  xml.Name `xml:"project"`
	Artifact string   `xml:"artifactId"`
	Modules  []string `xml:"modules>module"`
	Plugins  []string `xml:"build>plugins>plugin>artifactId"`
	Managed  []string `xml:"build>pluginManagement>plugins>plugin>artifactId"`
}

func detectMaven(s *scan, dir string) *Project {
	manifest := s.firstFile(dir, "pom.xml")
	if manifest == "" {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: JVM, Language: s.jvmLanguage(dir), Proof: manifest, PackageManager: "maven", PackageManagerProof: manifest}
	data, err := s.read(manifest)
	var m pom
	if err == nil {
		err = xml.Unmarshal(data, &m)
	}
	if err != nil {
		p.warn(manifest, "invalid pom: %v", err)
		return p
	}
	p.Name = m.Artifact
	plugins := append(m.Plugins, m.Managed...)
	if slices.Contains(plugins, "kotlin-maven-plugin") {
		p.Language = "kotlin"
	}
	s.declareMembers(p, "pom.xml", m.Modules)
	p.mavenCommands(s, plugins)
	return p
}

func (p *Project) mavenCommands(s *scan, plugins []string) {
	// Modules are built from the root, where the reactor finds their siblings.
	root, scope := p, []string(nil)
	for up := s.workspaceOf(JVM, p.Dir); up != nil; up = s.workspaceOf(JVM, up.Dir) {
		root = up
	}
	if root != p {
		scope = []string{"--projects=" + relativeTo(root.Dir, p.Dir), "--also-make"}
	}
	program := "mvn"
	if s.hasFile(root.Dir, "mvnw") {
		program = "./mvnw"
	}
	run := func(args ...string) Command {
		c := root.command(p.Proof, append(append([]string{program, "-B"}, scope...), args...)...).matching(jvmFiles)
		if root != p {
			c.Under = p.Dir
		}
		return c
	}
	p.Install = run("dependency:resolve").matching(nil)
	if root != p || len(p.Members) > 0 {
		p.Install = run("test-compile").matching(nil) // dependencies between modules resolve only when they are built
	}
	p.Build = run("package", "-DskipTests")
	p.Typecheck = run("test-compile")
	p.Test = run("test")
	p.ScopedTest = run("test", "-Dtest="+Tests, "-Dsurefire.failIfNoSpecifiedTests=false").matching(jvmTestFiles).withWhole(p.Test.Argv...)
	p.ScopedTest.Join = ","
	if slices.Contains(plugins, "spotless-maven-plugin") {
		p.Format, p.Lint = run("spotless:apply"), run("spotless:check")
	}
	if slices.Contains(plugins, "fmt-maven-plugin") {
		p.Format, p.Lint = run("com.spotify.fmt:fmt-maven-plugin:format"), run("com.spotify.fmt:fmt-maven-plugin:check")
	}
	if slices.Contains(plugins, "maven-checkstyle-plugin") {
		p.Lint = run("checkstyle:check")
	}
}

func (s *scan) jvmLanguage(dir string) string {
	if s.hasDir(dir, "src/main/kotlin") && !s.hasDir(dir, "src/main/java") {
		return "kotlin"
	}
	return "java"
}

func detectGradle(s *scan, dir string) *Project {
	build := s.firstFile(dir, "build.gradle.kts", "build.gradle")
	settings := s.firstFile(dir, "settings.gradle.kts", "settings.gradle")
	if build == "" && settings == "" || s.hasFile(dir, "pom.xml") && !s.hasFile(dir, "gradlew") {
		return nil
	}
	p := &Project{Dir: dir, Ecosystem: JVM, Language: s.jvmLanguage(dir), Proof: build, PackageManager: "gradle"}
	if build == "" {
		p.Proof = settings
	}
	p.PackageManagerProof = p.Proof
	text := stripComments(s.readText(p, build), "//")
	if strings.Contains(text, `kotlin("`) || strings.Contains(text, "org.jetbrains.kotlin") {
		p.Language = "kotlin"
	}
	if settings != "" {
		p.gradleSettings(s, stripComments(s.readText(p, settings), "//"))
	}
	p.gradleCommands(s, text)
	return p
}

var (
	gradleInclude = lazyregexp.New(`(?m)^\s*include\b\s*\(?((?:\s*["'][^"'\n]+["']\s*,?)+)`)
	gradleName    = lazyregexp.New(`rootProject\.name\s*=\s*["']([^"'\n]+)["']`)
	quoted        = lazyregexp.New(`["']([^"'\n]+)["']`)
)

func (p *Project) gradleSettings(s *scan, text string) {
	if m := gradleName.FindStringSubmatch(text); m != nil {
		p.Name = m[1]
	}
	var dirs []string
	for _, list := range submatches(gradleInclude, text) {
		for _, name := range submatches(quoted, list) {
			dirs = append(dirs, strings.ReplaceAll(strings.Trim(name, ":"), ":", "/"))
		}
	}
	s.declareMembers(p, "build.gradle", dirs)
	s.declareMembers(p, "build.gradle.kts", dirs)
	slices.Sort(p.Members)
}

func (p *Project) gradleCommands(s *scan, text string) {
	root, prefix := p, ""
	if up := s.workspaceOf(JVM, p.Dir); up != nil && up.PackageManager == "gradle" {
		root, prefix = up, ":"+strings.ReplaceAll(relativeTo(up.Dir, p.Dir), "/", ":")+":"
	}
	program := "gradle"
	if s.hasFile(root.Dir, "gradlew") {
		program = "./gradlew"
	}
	run := func(task string, args ...string) Command {
		c := root.command(p.Proof, append([]string{program, prefix + task}, args...)...).matching(jvmFiles)
		if root != p {
			c.Under = p.Dir
		}
		return c
	}
	p.Install = run("dependencies").matching(nil)
	p.Build, p.Typecheck, p.Test = run("assemble"), run("testClasses"), run("test")
	if len(p.Members) == 0 {
		p.ScopedTest = run("test", "--tests="+Tests).matching(jvmTestFiles).withWhole(p.Test.Argv...)
	} else {
		p.ScopedTest = run(Packages + ":test").withWhole(p.Test.Argv...)
		p.ScopedTest.Packages = gradlePackages(p)
	}
	for _, t := range gradleTools {
		if strings.Contains(text, t.plugin) {
			if t.format != "" && p.Format.IsZero() {
				p.Format = run(t.format)
			}
			if p.Lint.IsZero() {
				p.Lint = run(t.lint)
			}
		}
	}
}

var gradleTools = []struct{ plugin, format, lint string }{
	{"spotless", "spotlessApply", "spotlessCheck"},
	{"ktlint", "ktlintFormat", "ktlintCheck"},
	{"detekt", "", "detekt"},
	{"checkstyle", "", "checkstyleMain"},
}

// gradlePackages returns the Gradle paths of the projects of a build. The root's is empty,
// so that its task is ":test".
func gradlePackages(p *Project) []Package {
	out := []Package{{Dir: p.Dir}}
	for _, m := range p.Members {
		out = append(out, Package{Dir: m, Name: ":" + strings.ReplaceAll(relativeTo(p.Dir, m), "/", ":")})
	}
	return out
}
