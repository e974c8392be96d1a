package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/provider/remote"
)

// noteRefusals says what a workspace was not let reach over the network. A
// program often says no more of it than that it failed.
func (a *app) noteRefusals(ctx context.Context, c *remote.Client, id string) {
	const most = 5
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	told := map[string]bool{}
	filter := remote.EventFilter{Kinds: []string{string(event.EgressRequest)}, Workspace: id, After: "0"}
	err := c.Events(ctx, filter, func(data json.RawMessage) error {
		e, err := event.Unmarshal(data)
		if err != nil || e.Fields[event.FieldVerdict] != event.VerdictDeny {
			return err
		}
		host, port := fmt.Sprint(e.Fields[event.FieldHost]), fmt.Sprint(e.Fields[event.FieldPort])
		reason := fmt.Sprint(e.Fields[event.FieldReason])
		at := net.JoinHostPort(host, port)
		line := at + ": " + reason
		// Nobody is led to where machines keep their credentials.
		if ip := net.ParseIP(host); strings.HasPrefix(reason, "no rule") && (ip == nil || !ip.IsLinkLocalUnicast()) {
			if port == "80" || port == "443" { // what a host without a port allows
				at = host
			}
			line += "; --allow-net " + at + " lets it through"
		}
		if len(told) < most && !told[line] {
			a.note("croft: refused: %s", printable(line))
		}
		told[line] = true
		return nil
	})
	if err == nil && len(told) > most {
		a.note("croft: refused: and %d more; see croft events --kind %s", len(told)-most, event.EgressRequest)
	}
}
