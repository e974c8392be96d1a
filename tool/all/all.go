// Package all lists the tools that a croft has by itself, of every family. The
// lists are functions that are called, not side effects of an import: who wants
// fewer tools, or others, writes a list of their own.
package all

import (
	"slices"

	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/ast"
	"github.com/croft-run/croft/tool/git"
	"github.com/croft-run/croft/tool/index"
	"github.com/croft-run/croft/tool/lsp"
	"github.com/croft-run/croft/tool/snapshots"
	"github.com/croft-run/croft/tool/verifytool"
	"github.com/croft-run/croft/tool/web"
)

// Coding returns every tool of the coding toolset.
func Coding() []*tool.Tool {
	return slices.Concat(tool.Coding(), ast.Tools(), verifytool.Tools(), index.Tools(), lsp.Tools(), snapshots.Coding())
}

// Workspace returns every tool of the workspace toolset.
func Workspace() []*tool.Tool {
	return slices.Concat(tool.Workspace(), snapshots.Workspace())
}

// Effects returns what happens after a tool has changed files, in this order: what
// formatting makes of a file is what the others are to see.
func Effects() []tool.Effect {
	return []tool.Effect{verifytool.Effect(lsp.Servers), lsp.Effect, index.Effect}
}

// Sources returns where further tools of a workspace come from.
func Sources() []tool.Source {
	return []tool.Source{git.Source, web.Source}
}
