package main

import (
	"os"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	self, err := os.Executable() // a Go program
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(&out, self, 1000, 20); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"section .text", "code of the standard library", "code of github.com/croft-run/croft", self} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if err := run(&out, self, 0.1, 20); err == nil || !strings.Contains(err.Error(), "recorded") {
		t.Errorf("a program that has grown gives %v", err)
	}
	if err := run(&out, "main.go", 0, 20); err == nil {
		t.Error("a text was taken for a program")
	}
}

func TestModuleOf(t *testing.T) {
	names := []string{"example.com/a/v2", "example.com/a", "gopkg.in/yaml.v3"}
	for function, want := range map[string]string{
		"example.com/a/v2.F":       "example.com/a/v2",
		"example.com/a/b.(*T).M":   "example.com/a",
		"example.com/ab.F":         "the standard library",
		"gopkg.in/yaml%2ev3.Parse": "gopkg.in/yaml.v3",
		"fmt.Println":              "the standard library",
	} {
		if got := moduleOf(function, names); got != want {
			t.Errorf("moduleOf(%q) = %q, want %q", function, got, want)
		}
	}
}
