package driver

// Functions names the optional functions that are set, in the order of their
// declaration: "list", "edit", and so on. A remote client sets the same functions in
// its copy of the module.
func (f *FS) Functions() []string {
	if f == nil {
		return nil
	}
	var names []string
	for _, fn := range []struct {
		name string
		set  bool
	}{
		{"list", f.List != nil}, {"edit", f.Edit != nil}, {"rename", f.Rename != nil}, {"copy", f.Copy != nil},
		{"chmod", f.Chmod != nil}, {"xattrs", f.Xattrs != nil}, {"setXattrs", f.SetXattrs != nil}, {"symlink", f.Symlink != nil}, {"glob", f.Glob != nil}, {"grep", f.Grep != nil},
		{"watch", f.Watch != nil}, {"digest", f.Digest != nil}, {"import", f.Import != nil},
		{"protect", f.Protect != nil}, {"changedPaths", f.ChangedPaths != nil},
		{"gitDirs", f.GitDirs != nil},
	} {
		if fn.set {
			names = append(names, fn.name)
		}
	}
	return names
}
