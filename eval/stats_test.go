package eval

import (
	"math"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 0.0005 }

// TestWilson holds against values of R's binom::binom.wilson.
func TestWilson(t *testing.T) {
	for _, c := range []struct {
		passed, n int
		low, high float64
	}{{0, 10, 0, 0.2775}, {5, 10, 0.2366, 0.7634}, {10, 10, 0.7225, 1}, {81, 263, 0.2553, 0.3662}} {
		got := Wilson(c.passed, c.n)
		if !near(got.Low, c.low) || !near(got.High, c.high) {
			t.Errorf("Wilson(%d, %d) is %.4f to %.4f, want %.4f to %.4f", c.passed, c.n, got.Low, got.High, c.low, c.high)
		}
	}
}

// TestNewcombe holds against the example of Newcombe (1998), method 10: 56/70 and
// 48/80.
func TestNewcombe(t *testing.T) {
	got := Newcombe(Wilson(48, 80), Wilson(56, 70))
	if !near(got.Value, 0.2) || !near(got.Low, 0.0524) || !near(got.High, 0.3339) {
		t.Errorf("got %+v, want 0.2 (0.0524 to 0.3339)", got)
	}
}

func TestPassAtK(t *testing.T) {
	for _, c := range []struct {
		n, c, k int
		want    float64
	}{{5, 0, 1, 0}, {5, 5, 3, 1}, {5, 2, 1, 0.4}, {5, 2, 2, 0.7}, {10, 3, 5, 0.916667}, {4, 3, 2, 1}} {
		if got := PassAtK(c.n, c.c, c.k); !near(got, c.want) {
			t.Errorf("PassAtK(%d, %d, %d) = %.6f, want %.6f", c.n, c.c, c.k, got, c.want)
		}
	}
}

func TestBootstrapIsTheSameEachTime(t *testing.T) {
	xs := []float64{1, 2, 3, 4, 100}
	a, b := Bootstrap(xs), Bootstrap(xs)
	if a != b {
		t.Errorf("%+v and %+v", a, b)
	}
	if a.Value != 22 || a.Low > a.Value || a.High < a.Value || a.Low < 1 || a.High > 100 {
		t.Errorf("got %+v", a)
	}
	if r := BootstrapRatio([]float64{1, 1, 1}, []float64{2, 2, 2}); r.Value != 2 || r.Low != 2 || r.High != 2 {
		t.Errorf("the ratio of what does not vary is %+v", r)
	}
}
