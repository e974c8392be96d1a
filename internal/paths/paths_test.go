package paths

import "testing"

func TestInside(t *testing.T) {
	for _, tt := range []struct {
		dir, name string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b", true},
		{"/a/", "/a/./b", true},
		{"/", "/a", true},
		{"/a", "/ab", false},
		{"/a/b", "/a", false},
		{"/a", "/a/../b", false},
		{"/a", "a", false},
		{"a", "a/..b", true},
	} {
		if got := Inside(tt.dir, tt.name); got != tt.want {
			t.Errorf("Inside(%q, %q) = %v", tt.dir, tt.name, got)
		}
	}
}

func TestInsideName(t *testing.T) {
	for _, tt := range []struct {
		dir, name string
		want      bool
	}{
		{".", "a", true},
		{"", "a/b", true},
		{"a", "a", true},
		{"a", "a/b", true},
		{"a", "ab", false},
		{"a/b", "a", false},
		{".", "..", false},
		{".", "../a", false},
		{"..", "../a", false},
		{".", "/a", false},
		{".", "..a", true},
	} {
		if got := InsideName(tt.dir, tt.name); got != tt.want {
			t.Errorf("InsideName(%q, %q) = %v", tt.dir, tt.name, got)
		}
	}
}
