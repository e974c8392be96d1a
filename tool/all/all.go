// Package all lists the built-in tools of every family. The lists are functions, not side
// effects of imports; a program that needs other tools writes its own list.
package all

import (
	"slices"

	"github.com/croft-run/croft/internal/tool/ast"
	"github.com/croft-run/croft/internal/tool/index"
	"github.com/croft-run/croft/internal/tool/lsp"
	"github.com/croft-run/croft/internal/tool/snapshots"
	"github.com/croft-run/croft/internal/tool/verifytool"
	"github.com/croft-run/croft/tool"
	"github.com/croft-run/croft/tool/git"
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

// Effects returns the effects after a tool has changed files, in order: formatting comes
// first, because the others must see its result.
func Effects() []tool.Effect {
	return []tool.Effect{verifytool.Effect(lsp.Servers), lsp.Effect, index.Effect}
}

// Sources returns the sources of further tools of a workspace.
func Sources() []tool.Source {
	return []tool.Source{git.Source, web.Source}
}
