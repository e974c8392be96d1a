package trpcagent

import (
	"math"
	"testing"
)

func TestTimes(t *testing.T) {
	for _, test := range []struct{ n, unit, want int64 }{{3, 10, 30}, {0, 1 << 20, 0}, {-1, 1 << 20, -1 << 20}, {1 << 50, 1 << 20, math.MaxInt64}, {1 << 43, 1 << 20, math.MaxInt64}} {
		if got := saturatingMul(test.n, test.unit); got != test.want {
			t.Errorf("times(%d, %d) = %d, want %d", test.n, test.unit, got, test.want)
		}
	}
}
