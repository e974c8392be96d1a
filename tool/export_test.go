package tool

// TryPatch parses a patch and applies it to a text, for the fuzzer.
func TryPatch(patch, content string) {
	ops, err := parsePatch(patch)
	if err != nil {
		return
	}
	for _, op := range ops {
		_, _ = applyHunks(op.path, content, op.hunks)
	}
}
