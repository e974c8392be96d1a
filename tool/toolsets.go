package tool

// Coding returns the tools of this package under the names, and with the
// arguments, that agents for code are used to. Those of the packages below are in
// tool/all.
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

// Workspace returns the tools of this package with plain names, which begin with
// workspace_.
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
