package guest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill gives every field a value that no other one has, also one that is added later.
// How deep the things in v may be made is bounded by depth.
func fill(t *testing.T, v reflect.Value, n *int64, depth int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*n)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-*n)
	case reflect.Uint8, reflect.Uint32:
		v.SetUint(uint64(*n % 256))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n, depth) // the other one stays empty
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, n, depth)
		fill(t, value, n, depth)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), n, depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n, depth)
		}
	default:
		t.Fatalf("the test does not know values such as %s", v.Type())
	}
}

// TestConfigIsReadAsItWasWritten: every field, alone and with all others.
func TestConfigIsReadAsItWasWritten(t *testing.T) {
	var n int64
	full := new(Config)
	fill(t, reflect.ValueOf(full).Elem(), &n, 2)
	configs := []*Config{new(Config), full}
	for i := range reflect.TypeFor[Config]().NumField() {
		one := new(Config)
		fill(t, reflect.ValueOf(one).Elem().Field(i), &n, 2)
		configs = append(configs, one)
	}
	for _, want := range configs {
		got, err := decodeConfig(want.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("they differ (-want +got):\n%s", diff)
		}
	}
}

// TestConfigOfAnotherVersion is refused with both numbers, whatever else it has.
func TestConfigOfAnotherVersion(t *testing.T) {
	for _, data := range []string{`{"protocol":6,"version":"x","root":"/"}`, `{"protocol":1000,"config":"AAAA"}`} {
		if _, err := decodeConfig([]byte(data)); err == nil || !strings.Contains(err.Error(), "both must come from one build") {
			t.Errorf("%s: %v", data, err)
		}
	}
	good := string(new(Config).Encode())
	for _, data := range []string{"", "{}", good[:len(good)-1], good[:len(good)-9] + configTail, good + " ", strings.Replace(good, `"config"`, `"c"`, 1)} {
		if _, err := decodeConfig([]byte(data)); !errors.Is(err, errNonsense) {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, cfg := range []*Config{{}, {Root: "/w", UID: -1, Env: map[string]string{"A": "b"}, Kernel: &Kernel{Inner: &Config{}}, Roots: []byte("x"),
		Mounts: []Mount{{Kind: MountOverlay, Lower: []string{"a"}, Mode: 0o700, Dev: true}}}} {
		var w wire
		w.config(cfg)
		f.Add(w.out)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		cfg, w := new(Config), wire{in: &reader{data: body}}
		if w.config(cfg); w.in.end() != nil {
			return
		}
		again, err := decodeConfig(cfg.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(cfg, again); diff != "" {
			t.Errorf("they differ (-first +second):\n%s", diff)
		}
	})
}
