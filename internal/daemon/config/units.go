package config

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// Bytes is a number of bytes, written with a unit: 512M.
type Bytes int64

// CPUs is a share of processors in thousandths of a core, written in cores: 1.5.
type CPUs int64

// Duration is a duration, written with units: 1m30s.
type Duration time.Duration

// Count is a number without a unit.
type Count int64

// Bounds that no host reaches, and that are far from an overflow of int64.
const (
	maxBytes = 1 << 60
	maxCPUs  = 1_000_000 * 1000
)

var units = []struct {
	name string
	size int64
}{
	{"", 1},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"P", 1 << 50},
	{"KI", 1 << 10}, {"MI", 1 << 20}, {"GI", 1 << 30}, {"TI", 1 << 40}, {"PI", 1 << 50},
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40}, {"PIB", 1 << 50},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
	{"B", 1},
}

// ParseBytes reads a number of bytes with an optional unit. K, M, G, T and P are
// powers of 1024, with or without "i" and "iB"; KB, MB, GB, TB and PB are powers
// of 1000, as in GNU's tools. Case is ignored. A fraction is rounded down to
// whole bytes. The error is InvalidArgument.
func ParseBytes(s string) (int64, error) {
	number, unit := s, ""
	if i := strings.IndexFunc(s, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); i >= 0 {
		number, unit = s[:i], strings.TrimLeft(s[i:], " ")
	}
	size := int64(0)
	for _, u := range units {
		if strings.EqualFold(u.name, unit) {
			size = u.size
		}
	}
	n, ok := parseDecimal(number)
	if !ok || size == 0 || size == 1 && strings.Contains(number, ".") {
		return 0, fmt.Errorf("config: parse size %.40q: %w: write a number with a unit, such as 512M, 1.5G or 100KB", s, fault.InvalidArgument)
	}
	return wholeNumber(n.Mul(n, new(big.Rat).SetInt64(size)), maxBytes, "size", s)
}

// ParseCPUs reads a number of cores, such as 2, 1.5 or 500m, and returns
// thousandths of a core. The error is InvalidArgument.
func ParseCPUs(s string) (int64, error) {
	number, milli := strings.CutSuffix(s, "m")
	n, ok := parseDecimal(number)
	if !ok || milli && strings.Contains(number, ".") {
		return 0, fmt.Errorf("config: parse cpus %.40q: %w: write a number of cores, such as 2 or 1.5, or thousandths of one, such as 500m", s, fault.InvalidArgument)
	}
	if !milli {
		n.Mul(n, big.NewRat(1000, 1))
	}
	v, err := wholeNumber(n, maxCPUs, "cpus", s)
	if err == nil && v == 0 && n.Sign() > 0 {
		return 0, fmt.Errorf("config: parse cpus %.40q: %w: the least is 0.001", s, fault.InvalidArgument)
	}
	return v, err
}

// parseDecimal reads digits with at most one point among them. It is strict where
// big.Rat is not: no sign, exponent, fraction or base.
func parseDecimal(s string) (*big.Rat, bool) {
	const longest = 40
	if s == "" || len(s) > longest || strings.Trim(s, "0123456789.") != "" || strings.Count(s, ".") > 1 ||
		strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

func wholeNumber(n *big.Rat, most int64, what, s string) (int64, error) {
	q := new(big.Int).Quo(n.Num(), n.Denom())
	if !q.IsInt64() || q.Int64() > most {
		return 0, fmt.Errorf("config: parse %s %.40q: %w: it is beyond any host", what, s, fault.InvalidArgument)
	}
	return q.Int64(), nil
}

// ParseDuration reads a duration with units, such as 1m30s or 250ms. The error is
// InvalidArgument.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("config: parse duration %.40q: %w: write a number with a unit, such as 30s, 1m30s or 2h", s, fault.InvalidArgument)
	case d < 0:
		return 0, fmt.Errorf("config: parse duration %.40q: %w: it must not be negative", s, fault.InvalidArgument)
	}
	return d, nil
}

// String returns b in the largest unit that holds it in whole numbers.
func (b Bytes) String() string {
	unit, size := "", int64(1)
	for _, u := range units[1:6] {
		if b != 0 && int64(b)%u.size == 0 {
			unit, size = u.name, u.size
		}
	}
	return strconv.FormatInt(int64(b)/size, 10) + unit
}

// String returns c in cores.
func (c CPUs) String() string {
	s := fmt.Sprintf("%d.%03d", int64(c)/1000, int64(c)%1000)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// String returns d without the units that are zero.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// String returns n in digits.
func (n Count) String() string { return strconv.FormatInt(int64(n), 10) }

// An Amount is a number with a unit, in the notation of that unit: 512M, 1.5, 1m30s, 100.
type Amount struct {
	N    int64
	Unit driver.Unit
}

// ParseAmount reads an amount of a unit. The error is InvalidArgument.
func ParseAmount(unit driver.Unit, text string) (int64, error) {
	switch unit {
	case driver.UnitBytes:
		return ParseBytes(text)
	case driver.UnitMillicores:
		return ParseCPUs(text)
	case driver.UnitNanoseconds:
		d, err := ParseDuration(text)
		return int64(d), err
	}
	var n Count
	err := n.parse(text)
	return int64(n), err
}

// String returns a in the notation of ParseAmount.
func (a Amount) String() string {
	switch a.Unit {
	case driver.UnitBytes:
		return Bytes(a.N).String()
	case driver.UnitMillicores:
		return CPUs(a.N).String()
	case driver.UnitNanoseconds:
		return Duration(a.N).String()
	}
	return Count(a.N).String()
}

// Example returns how a limit of the unit is written.
func Example(unit driver.Unit) string {
	return map[driver.Unit]string{driver.UnitBytes: "512M", driver.UnitMillicores: "1.5", driver.UnitNanoseconds: "1m30s", driver.UnitCount: "100"}[unit]
}

func (a *Amount) parse(text string) (err error) {
	a.N, err = ParseAmount(a.Unit, text)
	return err
}

// A scalar is a type with a parser for the text of a YAML scalar.
type scalar interface{ parse(text string) error }

func (b *Bytes) parse(text string) error {
	n, err := ParseBytes(text)
	*b = Bytes(n)
	return err
}

func (c *CPUs) parse(text string) error {
	n, err := ParseCPUs(text)
	*c = CPUs(n)
	return err
}

func (d *Duration) parse(text string) error {
	v, err := ParseDuration(text)
	*d = Duration(v)
	return err
}

func (n *Count) parse(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > maxBytes {
		return fmt.Errorf("config: parse count %.40q: %w: write a whole number that is not negative", text, fault.InvalidArgument)
	}
	*n = Count(v)
	return nil
}
