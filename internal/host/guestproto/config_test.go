package guestproto

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
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
		data, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeConfig(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("they differ (-want +got):\n%s", diff)
		}
	}
}

// TestConfigOfOddNames: paths and values of variables need not be valid UTF-8. What
// must be is refused by the host.
func TestConfigOfOddNames(t *testing.T) {
	const odd = "/caf\xe9"
	want := &Config{Root: odd, NewRoot: odd, Env: map[string]string{odd: odd}, Paths: map[string]string{"log": odd}, Verify: []SameFile{{Path: odd}},
		Confine: Confine{ReadWrite: []string{odd}, ReadOnly: []string{odd}}, GVisor: &GVisor{Args: []string{odd}, Bundle: odd},
		Mounts: []Mount{{Target: odd, Source: odd, Lower: []string{odd}, Upper: odd, Work: odd, Data: odd}}}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeConfig(data); err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := (&Config{Hostname: odd}).Encode(); fault.Of(err) != fault.InvalidArgument {
		t.Errorf("a host name: %v", err)
	}
}

// TestConfigOfAnotherVersion is refused with both numbers, whatever else it has.
func TestConfigOfAnotherVersion(t *testing.T) {
	for _, pb := range []*guestpb.Config{{}, {Protocol: Protocol + 1, Version: "x"}} {
		data, err := proto.Marshal(pb)
		if err != nil {
			t.Fatal(err)
		}
		data = protowire.AppendVarint(protowire.AppendTag(data, 1000, protowire.VarintType), 1) // a field that this version lacks
		if _, err := DecodeConfig(data); err == nil || !strings.Contains(err.Error(), "both must come from one build") {
			t.Errorf("%v: %v", pb, err)
		}
	}
	if _, err := DecodeConfig([]byte("{}")); fault.Of(err) != fault.Failed {
		t.Errorf("what is no configuration: %v", err)
	}
}

func FuzzConfig(f *testing.F) {
	for _, cfg := range []*Config{{}, {Root: "/w", UID: -1, Env: map[string]string{"A": "b"}, GVisor: &GVisor{Inner: &Config{}}, CACerts: []byte("x"),
		Mounts: []Mount{{Kind: MountOverlay, Lower: []string{"a"}, Mode: 0o700, Dev: true}}}} {
		data, err := cfg.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := DecodeConfig(data)
		if err != nil {
			return
		}
		again, err := cfg.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeConfig(again); err != nil || !cmp.Equal(cfg, got) {
			t.Errorf("they differ, %v (-first +second):\n%s", err, cmp.Diff(cfg, got))
		}
	})
}
