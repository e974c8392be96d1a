package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/croft-run/croft/fault"
)

// RegisterYes adds the flag that answers the question of confirm.
func RegisterYes(f *pflag.FlagSet, yes *bool) {
	f.BoolVarP(yes, "yes", "y", false, "do it without asking")
}

// Confirm asks a question on the terminal. Without one the answer is no.
func (a *Console) Confirm(question string, in *bufio.Reader) bool {
	if !a.OnTerminal() {
		a.Note("%s Nothing is changed: there is no terminal to ask on; --yes says yes.", question)
		return false
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	line, _ := in.ReadString('\n') // at the end of the input the answer is no
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}

// ConfirmRemoval asks the user whether to remove workspaces.
func (a *Console) ConfirmRemoval(names []string, noun string, yes bool) ([]string, error) {
	if len(names) == 0 {
		a.Note("no %s was removed: none matches", noun)
		return nil, a.PrintJSONOnly(map[string][]string{"removed": {}})
	}
	which := fmt.Sprintf("%s (%s)", CountText(len(names), noun), strings.Join(names, ", "))
	if !yes && !a.OnTerminal() {
		return nil, Usagef("this asks first, and there is no terminal to ask on: --yes removes %s", which)
	}
	if !yes && !a.Confirm("Remove "+which+"?", bufio.NewReader(a.In)) {
		return nil, fmt.Errorf("%w: nothing is removed", fault.Canceled)
	}
	return names, nil
}

// Remove destroys workspaces, and says so.
func Remove(ctx context.Context, a *Console, c Workspaces, names []string) error {
	if len(names) == 1 {
		if err := c.Destroy(ctx, names[0]); err != nil {
			return err
		}
		a.Note("removed %s", names[0])
		return a.PrintJSONOnly(map[string]string{"removed": names[0]})
	}
	var removed []string
	var errs []error
	for _, name := range names {
		if err := c.Destroy(ctx, name); err != nil {
			errs = append(errs, err)
			continue
		}
		a.Note("removed %s", name)
		removed = append(removed, name)
	}
	if len(removed) > 0 {
		errs = append(errs, a.PrintJSONOnly(map[string][]string{"removed": removed}))
	}
	return errors.Join(errs...)
}
