package tool

import (
	"maps"
	"slices"
)

// fileTypes are the file types of Grep, with patterns of file names.
var fileTypes = map[string][]string{
	"c":        {"*.c", "*.h"},
	"cpp":      {"*.cc", "*.cpp", "*.cxx", "*.h", "*.hh", "*.hpp", "*.hxx"},
	"cs":       {"*.cs"},
	"css":      {"*.css", "*.scss", "*.sass", "*.less"},
	"docker":   {"Dockerfile", "Dockerfile.*", "*.dockerfile"},
	"elixir":   {"*.ex", "*.exs"},
	"go":       {"*.go"},
	"html":     {"*.html", "*.htm"},
	"java":     {"*.java"},
	"js":       {"*.js", "*.jsx", "*.mjs", "*.cjs"},
	"json":     {"*.json", "*.jsonc", "*.json5"},
	"kotlin":   {"*.kt", "*.kts"},
	"lua":      {"*.lua"},
	"make":     {"Makefile", "makefile", "GNUmakefile", "*.mk"},
	"markdown": {"*.md", "*.markdown", "*.mdx"},
	"md":       {"*.md", "*.markdown", "*.mdx"},
	"php":      {"*.php"},
	"proto":    {"*.proto"},
	"py":       {"*.py", "*.pyi"},
	"python":   {"*.py", "*.pyi"},
	"ruby":     {"*.rb", "Rakefile", "Gemfile", "*.gemspec"},
	"rust":     {"*.rs"},
	"scala":    {"*.scala", "*.sbt"},
	"sh":       {"*.sh", "*.bash", "*.zsh"},
	"sql":      {"*.sql"},
	"swift":    {"*.swift"},
	"tf":       {"*.tf", "*.tfvars"},
	"toml":     {"*.toml"},
	"ts":       {"*.ts", "*.tsx", "*.mts", "*.cts"},
	"txt":      {"*.txt"},
	"vue":      {"*.vue"},
	"xml":      {"*.xml", "*.xsd", "*.xsl", "*.svg"},
	"yaml":     {"*.yaml", "*.yml"},
	"zig":      {"*.zig"},
}

func typeNames() []string { return slices.Sorted(maps.Keys(fileTypes)) }
