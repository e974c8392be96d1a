package config

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

// FuzzParse holds that any text is read or refused, that every policy of what was
// read can be had, and that printing it changes nothing.
func FuzzParse(f *testing.F) {
	for _, path := range []string{"laptop", "minimal", "server"} {
		data, err := os.ReadFile("../../../docs/examples/" + path + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, tt := range refused {
		if len(tt.text) < 1000 {
			f.Add([]byte(tt.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if fault.Of(err) != fault.InvalidArgument {
				t.Fatalf("got %v, want InvalidArgument", err)
			}
			return
		}
		for name := range c.Policies {
			if _, err := c.Policy(name); err != nil {
				t.Errorf("policy %s: %v", name, err)
			}
		}
		for name := range c.Providers {
			if _, _, err := c.Provider(name); err != nil {
				t.Errorf("provider %s: %v", name, err)
			}
		}
		again, err := Parse(c.YAML())
		if err != nil {
			t.Fatalf("what is printed can't be read: %v\n%s", err, c.YAML())
		}
		for name, p := range c.Providers { // 1.0 is printed as 1
			_, a, _ := c.Provider(name)
			_, b, _ := again.Provider(name)
			if string(a) != string(b) {
				t.Errorf("options %s are printed as %s", a, b)
			}
			p.Options = again.Providers[name].Options
			c.Providers[name] = p
		}
		if diff := cmp.Diff(c, again, same); diff != "" {
			t.Errorf("printing changes it (-want +got):\n%s", diff)
		}
	})
}
