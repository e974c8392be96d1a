package config

import (
	"testing"
	"time"

	"github.com/croft-run/croft/fault"
)

func TestParseBytes(t *testing.T) {
	good := map[string]int64{
		"0": 0, "1": 1, "512M": 512 << 20, "512m": 512 << 20, "1.5G": 3 << 29, "2Gi": 2 << 30, "2GiB": 2 << 30, "2 GiB": 2 << 30,
		"100KB": 100_000, "1mb": 1_000_000, "3T": 3 << 40, "1P": 1 << 50, "10B": 10, "0.5K": 512, "0.3K": 307, "1024P": 1 << 60,
	}
	for in, want := range good {
		if got, err := ParseBytes(in); got != want || err != nil {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "M", "-1", "+1", "1e3", "1.5", "1.", ".5K", "1..5K", "0x10", "1_000", "1 000", "1X", "1KBB", "1025P", "99999999999999999999999P", "１M", "1M "} {
		if got, err := ParseBytes(in); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("ParseBytes(%q) = %d, %v; want InvalidArgument", in, got, err)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1": 1000, "1.5": 1500, "0.001": 1, "500m": 500, "2.0005": 2000, "64": 64000} {
		if got, err := ParseCPUs(in); got != want || err != nil {
			t.Errorf("ParseCPUs(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "m", "-1", "1.5m", "1e3", "0.0001", "1,5", "1000001", "NaN", "Inf"} {
		if got, err := ParseCPUs(in); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("ParseCPUs(%q) = %d, %v; want InvalidArgument", in, got, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	if got, err := ParseDuration("1m30s"); got != 90*time.Second || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	for _, in := range []string{"", "60", "-1s", "1d", "s"} {
		if _, err := ParseDuration(in); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("ParseDuration(%q) = %v, want InvalidArgument", in, err)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "1m", 90 * time.Minute: "1h30m", time.Hour: "1h", 61 * time.Second: "1m1s", 10 * time.Second: "10s", time.Millisecond: "1ms"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("Duration(%v) prints as %s, want %s", d, got, want)
		}
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"512M", "1.5GiB", "100KB", "0", "1e9", "1024P"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseBytes(s)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("ParseBytes(%q) = %v", s, err)
			}
			return
		}
		if n < 0 || n > maxBytes {
			t.Fatalf("ParseBytes(%q) = %d", s, n)
		}
		if again, err := ParseBytes(Bytes(n).String()); again != n || err != nil {
			t.Errorf("%d prints as %s, which is %d, %v", n, Bytes(n), again, err)
		}
	})
}

func FuzzParseCPUs(f *testing.F) {
	for _, s := range []string{"1.5", "500m", "0", "0.001", "1000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseCPUs(s)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("ParseCPUs(%q) = %v", s, err)
			}
			return
		}
		if again, err := ParseCPUs(CPUs(n).String()); n < 0 || again != n || err != nil {
			t.Errorf("%d prints as %s, which is %d, %v", n, CPUs(n), again, err)
		}
	})
}
