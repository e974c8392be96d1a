package servercmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/croft-run/croft/client"
	"github.com/croft-run/croft/internal/daemon/cli/console"
	"github.com/croft-run/croft/internal/suggest"
)

func keyCommand(a *command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Manage API keys of the clients of a server",
		Long: `Manage API keys of the clients of a server. A key belongs to a tenant, which sees its own
workspaces, snapshots, templates and artifacts only, and has a scope: read, run (read, and change
workspaces) or admin (run, and manage the tenant's keys and templates). Keys are in the store of the
data directory; with --server they are those of that server, which needs a key with scope admin.`,
	}
	cmd.AddCommand(keyCreateCommand(a), keyListCommand(a), keyRotateCommand(a), keyRevokeCommand(a))
	return cmd
}

func keyCreateCommand(a *command) *cobra.Command {
	var k client.KeyRequest
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create an API key and print it, once",
		Long: `Create an API key and print it. Only a hash of it is stored, so it can't be shown again. Clients
send it as Authorization: Bearer KEY (CROFT_TOKEN of croft) or as X-API-KEY (E2B_API_KEY of the E2B
SDKs). Without --tenant the key belongs to the server itself; with scope admin it then administers
all tenants, as the server's token does.`,
		Example: `  croft key create --tenant team-a --scope run --expires 90d
  croft key create --tenant team-a --scope admin --name "team lead" --server https://croft.example`,
		Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			if err := checkExpires(k.Expires); err != nil {
				return err
			}
			return a.WithClient(ctx, func(c *client.Client) error {
				known, unknown := c.Tenants(ctx) // the key is made without them, too
				made, err := c.CreateKey(ctx, k)
				if err != nil {
					return err
				}
				if k.Tenant != "" && unknown == nil {
					a.noteNewTenant(k.Tenant, known)
				}
				return a.printNewKey(made)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&k.Tenant, "tenant", "", "the team that the key is for: [a-z0-9][a-z0-9-]{0,62} (default the server itself, or the tenant of the key in use)")
	f.StringVar(&k.Scope, "scope", "run", "read, run or admin; each includes the ones before it")
	f.StringVar(&k.Name, "name", "", "a text to recognise the key by")
	registerExpires(f.StringVar, &k.Expires, "never")
	return cmd
}

// noteNewTenant says that nothing has the tenant yet, which may be misspelt: every name is
// allowed.
func (a *command) noteNewTenant(tenant string, known []client.Tenant) {
	var names []string
	for _, t := range known {
		if t.Tenant == tenant {
			return
		}
		names = append(names, t.Tenant)
	}
	a.Note("croft: tenant %s is new: no key, workspace or entry of croft.yaml has it%s", tenant, suggest.Hint(tenant, names))
}

func registerExpires(stringVar func(*string, string, string, string), value *string, absent string) {
	stringVar(value, "expires", "", "time until the key expires, such as 90d or 12h (default "+absent+")")
}

func checkExpires(text string) error {
	if text == "" {
		return nil
	}
	if _, err := client.ParseAge(text); err != nil {
		return console.Usagef("--expires %q: give a positive duration such as 90d or 12h", text)
	}
	return nil
}

// printNewKey prints the text of a key alone, so that a script can take it.
func (a *command) printNewKey(k client.NewKey) error {
	return a.PrintAnswer(k, func(w io.Writer) error {
		expires := "never expires"
		if !k.ExpiresAt.IsZero() {
			expires = "expires " + console.TimeText(k.ExpiresAt)
		}
		a.Note("%s, tenant %s, scope %s, %s; the key is shown this once", k.ID, console.OrDash(k.Tenant), k.Scope, expires)
		_, err := fmt.Fprintln(w, k.Text)
		return err
	})
}

func keyListCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the API keys", Args: cobra.NoArgs,
		RunE: console.RunE(func(ctx context.Context, _ []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				list, err := c.Keys(ctx)
				if err != nil {
					return err
				}
				return a.PrintAnswer(list, func(w io.Writer) error {
					rows := [][]string{{"ID", "TENANT", "SCOPE", "STATE", "EXPIRES", "LAST USED", "NAME"}}
					for _, k := range list {
						rows = append(rows, []string{k.ID, console.OrDash(k.Tenant), k.Scope, keyState(k, time.Now()), console.TimeText(k.ExpiresAt), console.TimeText(k.LastUsed), console.OrDash(k.Name)})
					}
					return console.WriteTable(w, rows, "LAST USED", "EXPIRES", "TENANT")
				})
			})
		}),
	}
}

func keyState(k client.Key, now time.Time) string {
	switch {
	case !k.RevokedAt.IsZero():
		return "revoked"
	case !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(now):
		return "expired"
	}
	return "valid"
}

func keyRotateCommand(a *command) *cobra.Command {
	var r client.RotateRequest
	cmd := &cobra.Command{
		Use: "rotate ID", Short: "Give an API key a new text and print it; the previous one is refused", Args: cobra.ExactArgs(1),
		Long: `Give an API key a new text and print it. The previous text is refused at once or, with --overlap,
after that time, in which clients change over. The text before the previous one is refused.`,
		Example: `  croft key rotate key-k3m5n2x7qa4z --overlap 1h`,
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			if err := checkExpires(r.Expires); err != nil {
				return err
			}
			if _, err := client.ParseAge(r.Overlap); r.Overlap != "" && err != nil {
				return console.Usagef("--overlap %q: give a positive duration such as 1h or 7d", r.Overlap)
			}
			return a.WithClient(ctx, func(c *client.Client) error {
				made, err := c.RotateKey(ctx, args[0], r)
				if err != nil {
					return err
				}
				return a.printNewKey(made)
			})
		}),
	}
	registerExpires(cmd.Flags().StringVar, &r.Expires, "as before")
	cmd.Flags().StringVar(&r.Overlap, "overlap", "", "how long the previous text is accepted, such as 1h or 7d (default it is refused at once)")
	return cmd
}

func keyRevokeCommand(a *command) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke an API key for good", Args: cobra.ExactArgs(1),
		RunE: console.RunE(func(ctx context.Context, args []string) error {
			return a.WithClient(ctx, func(c *client.Client) error {
				k, err := c.RevokeKey(ctx, args[0])
				if err != nil {
					return err
				}
				return a.PrintAnswer(k, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, "revoked", k.ID)
					return err
				})
			})
		}),
	}
}
