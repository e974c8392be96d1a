package tool

// Coding returns the tools of this package under the names and with the arguments that
// coding agents are used to. tool/all adds those of the packages below.
func Coding() []*Tool {
	return []*Tool{
		// files
		readTool(), writeTool(), editTool(), multiEditTool(), applyPatchTool(), listTool(), moveTool(), deleteTool(),
		// search
		globTool(), grepTool(),
		// shell
		bashTool(), bashOutputTool(), killShellTool(), writeStdinTool(), watchProcessTool(), watchEventsTool(),
		// secrets
		secretTool(), secretsAvailableTool(),
		// project
		profileTool(),
		// render
		renderMermaidTool(), renderDotTool(),
	}
}

// Workspace returns the tools of this package with plain names that begin with workspace_.
func Workspace() []*Tool {
	return []*Tool{
		// files
		wsReadFileTool(), wsWriteFileTool(), wsEditFileTool(), wsLsTool(), wsStatTool(), wsRmTool(), wsMkdirTool(),
		// search
		wsGlobTool(), wsGrepTool(),
		// shell
		wsRunTool(), wsExecTool(), wsWriteStdinTool(), wsKillSessionTool(),
		// code
		wsRunCodeTool(), wsCreateContextTool(), wsDeleteContextTool(), wsRunScriptTool(),
	}
}
