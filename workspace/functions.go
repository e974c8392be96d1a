package workspace

// Functions names the optional file functions that the provider itself has; see
// driver.FS. Of those that it lacks, chmod, symlink and watch answer
// fault.Unsupported, and the others are made up for.
func (w *Workspace) Functions() []string { return w.current.Load().FS.Functions() }
