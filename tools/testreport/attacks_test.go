package main

import (
	"io"
	"strings"
	"testing"
)

// TestAttackTable reads an attack that was prevented at one level and, of two runs at
// another, had an effect in one.
func TestAttackTable(t *testing.T) {
	const in = `{"Action":"output","Package":"p","Test":"TestAttacks/mount","Output":"    a.go:1: attack: {\"attack\":\"mount\",\"level\":\"namespaces\",\"user\":\"root\",\"verdict\":\"prevented\"}\n"}
{"Action":"output","Package":"p","Test":"TestAttacks/mount","Output":"    a.go:1: attack: {\"attack\":\"mount\",\"level\":\"namespaces\",\"user\":\"ordinary\",\"verdict\":\"prevented\"}\n"}
{"Action":"output","Package":"p","Test":"TestAttacks/mount","Output":"    a.go:1: attack: {\"attack\":\"mount\",\"level\":\"process\",\"user\":\"root\",\"verdict\":\"unreported\"}\n"}
{"Action":"output","Package":"p","Test":"TestAttacks/mount","Output":"    a.go:1: attack: {\"attack\":\"mount\",\"level\":\"process\",\"user\":\"root\",\"verdict\":\"not claimed\",\"note\":\"no mounts\"}\n"}
{"Action":"output","Package":"p","Test":"TestAttacks/mount","Output":"attack: {\"attack\":\n"}
`
	r := newReport()
	if err := r.readEvents(strings.NewReader(in), io.Discard); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.attacks.writePage(&out)
	r.attacks.printCounts(&out)
	for _, want := range []string{
		"| mount | prevented: namespaces; unreported: process as root |\n",
		"3 attacks: 2 prevented 0 not claimed 0 reported 1 unreported\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, out.String())
		}
	}
}
