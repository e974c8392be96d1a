package workspace

// Functions names the optional file functions that the provider implements; see
// driver.FS. Of those that the provider lacks, chmod, symlink and watch return
// fault.Unsupported, and this package implements the rest. The list has "seal" if the
// snapshot module can seal, "dial" if Dial works, and "metrics"
// if Metrics does.
func (w *Workspace) Functions() []string {
	d := w.current.Load()
	names := d.FS.Functions()
	if s := d.Life.Snapshot; s != nil && s.Seal != nil {
		names = append(names, "seal")
	}
	if d.Shell != nil && d.Shell.Dial != nil {
		names = append(names, "dial")
	}
	if d.Life.Metrics != nil {
		names = append(names, "metrics")
	}
	return names
}
