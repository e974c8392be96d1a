package eval

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

func sum(xs []float64) (s float64) {
	for _, x := range xs {
		s += x
	}
	return s
}

func mean(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	return sum(xs) / float64(len(xs))
}

// optionalMean is the mean, nil without values.
func optionalMean(xs []float64) *float64 {
	if len(xs) == 0 {
		return nil
	}
	return new(mean(xs))
}

const z95 = 1.959963984540054

// Wilson returns the rate of passed among n trials with Wilson's score interval,
// which holds for few trials and for rates of 0 and 1 too.
func Wilson(passed, n int) Interval {
	if n == 0 {
		return Interval{High: 1}
	}
	p, m := float64(passed)/float64(n), float64(n)
	den := 1 + z95*z95/m
	mid := (p + z95*z95/(2*m)) / den
	half := z95 * math.Sqrt(p*(1-p)/m+z95*z95/(4*m*m)) / den
	return Interval{Value: p, Low: max(0, mid-half), High: min(1, mid+half), N: n}
}

// Newcombe returns the difference of two rates, b less a, with the interval that
// Wilson's intervals of both give.
func Newcombe(a, b Interval) Interval {
	d := b.Value - a.Value
	low := d - math.Hypot(b.Value-b.Low, a.High-a.Value)
	high := d + math.Hypot(b.High-b.Value, a.Value-a.Low)
	return Interval{Value: d, Low: low, High: high, N: min(a.N, b.N)}
}

// resamples is the number of bootstrap samples.
const resamples = 2000

// Bootstrap returns the mean of observations with its bootstrap interval: the
// middle 95 % of the means of samples drawn from them. The same observations
// always give the same interval.
func Bootstrap(xs []float64) Interval {
	if len(xs) < 2 {
		m := mean(xs)
		return Interval{Value: m, Low: m, High: m, N: len(xs)}
	}
	rng := rand.New(rand.NewPCG(uint64(len(xs)), math.Float64bits(sum(xs)))) // not for secrets
	return percentileInterval(mean(xs), len(xs), func() float64 { return resampleMean(rng, xs) })
}

// BootstrapRatio returns mean(b)/mean(a) with its bootstrap interval.
func BootstrapRatio(a, b []float64) Interval {
	if len(a) == 0 || len(b) == 0 || mean(a) == 0 {
		return Interval{Value: 1, Low: 1, High: 1}
	}
	rng := rand.New(rand.NewPCG(uint64(len(a)), uint64(len(b)))) // not for secrets
	value := mean(b) / mean(a)
	return percentileInterval(value, min(len(a), len(b)), func() float64 {
		if over := resampleMean(rng, a); over != 0 {
			return resampleMean(rng, b) / over
		}
		return value
	})
}

func percentileInterval(value float64, n int, next func() float64) Interval {
	means := make([]float64, resamples)
	for i := range means {
		means[i] = next()
	}
	slices.Sort(means)
	return Interval{Value: value, Low: means[resamples/40], High: means[resamples-1-resamples/40], N: n}
}

// resampleMean is the mean of a sample of the same size, drawn with replacement.
func resampleMean(rng *rand.Rand, xs []float64) float64 {
	s := 0.0
	for range xs {
		s += xs[rng.IntN(len(xs))]
	}
	return s / float64(len(xs))
}

// PassAtK estimates, without bias, how likely it is that at least one of k
// sessions passes, from n sessions of which c did. k is at most n.
func PassAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	p := 1.0
	for i := n - c + 1; i <= n; i++ {
		p *= 1 - float64(k)/float64(i)
	}
	return 1 - p
}

// passAtKs returns the mean of PassAtK over executions, for 1 and the powers of
// two up to the fewest sessions that one has.
func passAtKs(results []*ExecutionResult) map[string]float64 {
	type count struct{ n, c int }
	var counts []count
	least := math.MaxInt
	for _, e := range results {
		k := count{}
		for _, s := range e.allSessions() {
			k.n++
			if s.Passed {
				k.c++
			}
		}
		counts, least = append(counts, k), min(least, k.n)
	}
	if len(counts) == 0 || least == 0 {
		return nil
	}
	out := map[string]float64{}
	for k := 1; k <= least; k *= 2 {
		var each []float64
		for _, c := range counts {
			each = append(each, PassAtK(c.n, c.c, k))
		}
		out[strconv.Itoa(k)] = mean(each)
	}
	return out
}
