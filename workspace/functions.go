package workspace

// Functions names the optional file functions that the provider itself has; see
// driver.FS. Of those that it lacks, chmod, symlink and watch answer
// fault.Unsupported, and the others are made up for. "seal" is named, too, where
// the module for snapshots can seal.
func (w *Workspace) Functions() []string {
	d := w.current.Load()
	names := d.FS.Functions()
	if s := d.Life.Snapshot; s != nil && s.Seal != nil {
		names = append(names, "seal")
	}
	return names
}
