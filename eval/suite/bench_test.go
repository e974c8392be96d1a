package suite

import "testing"

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		s, err := Load(b.Context(), "testdata/skillgym/examples/basic-suite.ts", nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAssert(b *testing.B) {
	s, err := Load(b.Context(), "testdata/skillgym/examples/skill-selection-suite.ts", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		if _, err := s.Assert(b.Context(), "find-skills-expo-strict", []byte(reports[1]), nil); err != nil {
			b.Fatal(err)
		}
	}
}
