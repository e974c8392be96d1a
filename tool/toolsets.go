package tool

// Coding returns the tools of this package under the names, and with the
// arguments, that agents for code are used to. Those of the packages below are in
// tool/all.
func Coding() []*Tool {
	return []*Tool{
		readTool(),
		bashTool(),
	}
}

// Workspace returns the tools of this package with plain names, which begin with
// workspace_.
func Workspace() []*Tool {
	return nil
}
