package console

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/croft-run/croft/event"
	"github.com/croft-run/croft/internal/daemon/config"
	"github.com/croft-run/croft/workspace/driver"
)

// MostRefusals bounds the number of refused hosts that are printed.
const MostRefusals = 5

// NoteResultRefusals prints the refused hosts of a result, for a workspace that stays.
func (a *Console) NoteResultRefusals(refused []driver.Refusal) {
	for i, r := range refused {
		if i == MostRefusals {
			a.Note("croft: refused: and %d more; see croft events --kind %s", len(refused)-MostRefusals, event.EgressRequest)
			return
		}
		a.Note("croft: refused: %s", Printable(RefusalText(r.Host, r.Reason, "a workspace opened with --allow-net %s reaches it")))
	}
}

// RefusalText describes a refusal, with what to do about it. allow says how a host that no rule
// names is allowed.
func RefusalText(at, reason, allow string) string {
	line := at + ": " + reason
	host, port, err := net.SplitHostPort(at)
	// No hint for link-local addresses: cloud metadata services have credentials there.
	if ip := net.ParseIP(host); err != nil || ip != nil && ip.IsLinkLocalUnicast() {
		return line
	}
	if port == "80" || port == "443" { // what a host without a port allows
		at = host
	}
	if strings.HasPrefix(reason, NoRule) {
		return line + "; " + fmt.Sprintf(allow, cmp.Or(config.RegistryRule(at), at))
	}
	return line + AddressRemedy(host, at, reason)
}

// What the reasons of the egress proxy begin with. More --allow-net helps against the first
// alone.
const (
	NoRule         = "no rule allows it"
	refusedAddress = "its address is "
)

// AddressRemedy says how a name is reached that is allowed and whose address is refused, as in
// networks with names and proxies of their own; at is the host, with a port that is not usual. A metadata service has none: it has credentials.
func AddressRemedy(host, at, reason string) string {
	class, ok := strings.CutPrefix(reason, refusedAddress)
	if !ok || class == "a metadata service" || class == "link-local" || net.ParseIP(host) != nil {
		return ""
	}
	if _, port, err := net.SplitHostPort(at); err == nil { // a key of its own
		host += ", ports: [" + port + "]"
	}
	return fmt.Sprintf("; a rule of croft.yaml reaches it: network: {rules: {NAME: [{host: %s, private: true}]}}, "+
		"with --allow-net @NAME; of a registry, network.mirrors", host)
}

// NoteEventRefusals prints the hosts that the egress proxy refused to a workspace, from
// its events. Programs often report only that a request failed.
func (a *Console) NoteEventRefusals(ctx context.Context, c Workspaces, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTimeout)
	defer cancel()
	told := map[string]bool{}
	err := c.KeptEvents(ctx, event.EgressRequest, id, func(e event.Event) error {
		refused := e.Fields[event.FieldVerdict] == event.VerdictDeny
		if !refused && e.Fields[event.FieldCode] == nil {
			return nil
		}
		at := fmt.Sprint(e.Fields[event.FieldHost])
		if port := e.Fields[event.FieldPort]; port != nil { // a malformed request has none
			at = net.JoinHostPort(at, fmt.Sprint(port))
		}
		line := "refused: " + RefusalText(at, fmt.Sprint(e.Fields[event.FieldReason]), "--allow-net %s lets it through")
		if !refused {
			line = "allowed but not reached: " + at + ": " + fmt.Sprint(e.Fields[event.FieldReason])
		}
		if len(told) < MostRefusals && !told[line] {
			a.Note("croft: %s", Printable(line))
		}
		told[line] = true
		return nil
	})
	if err == nil && len(told) > MostRefusals {
		a.Note("croft: refused: and %d more; see croft events --kind %s", len(told)-MostRefusals, event.EgressRequest)
	}
}
