package tool

import "context"

// TryPatch parses a patch and applies it to a text, for the fuzzer.
func TryPatch(ctx context.Context, patch, content string) {
	ops, err := parsePatch(patch)
	if err != nil {
		return
	}
	for _, op := range ops {
		_, _ = applyHunks(ctx, op.path, content, op.hunks)
	}
}

var CommandError = commandError

var WithoutStutter = withoutStutter
