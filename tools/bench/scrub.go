package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/croft-run/croft/secret"
)

// benchScrub measures how fast secrets are looked for in a text of code, by value
// and by form, beside asking for the forms one by one.
func benchScrub(ctx context.Context, b *bench) error {
	const line = "\tif token := parse(request.Header.Get(\"Authorization\")); token != expected { return fmt.Errorf(\"user %s: %w\", name, errDenied) }\n"
	text := []byte(strings.Repeat(line, (1<<20)/len(line)+1)[:1<<20])
	forms := secret.Providers()
	find, err := secret.NewPatterns(forms)
	if err != nil {
		return err
	}
	var values []secret.Value
	for i := range 20 {
		values = append(values, secret.NewValue(fmt.Sprintf("s%d", i), fmt.Sprintf("correct-horse-%d-battery", i*7919)))
	}
	s := secret.NewScrubber(values, &secret.ScrubOptions{Finders: []secret.Finder{find}})
	ours := func() error {
		if out := s.Bytes(text); len(out) != len(text) {
			return fmt.Errorf("%d bytes became %d", len(text), len(out))
		}
		return nil
	}
	var list []*regexp.Regexp
	for _, f := range forms {
		list = append(list, regexp.MustCompile(f.Form))
	}
	theirs := func() error {
		for _, re := range list {
			if re.Match(text) {
				return fmt.Errorf("%s is in the text", re)
			}
		}
		return nil
	}
	if err := b.compareSides(ctx, "1 MiB of code, 20 secrets", "Go's regexp for each form", 0.2, repeatSide(ours), repeatSide(theirs)); err != nil {
		return err
	}
	b.atMost(int64(time.Second) / 100) // 100 MB/s
	return nil
}
