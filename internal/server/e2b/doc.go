// Package e2b serves sandboxes to the SDKs of E2B, unchanged: the control plane, the traffic
// to sandboxes, templates with their builds, snapshots, volumes and the sandbox's lifetime.
//
// A sandbox is a workspace of the registry whose annotation "e2b" holds what E2B knows of it
// and Croft does not: the template, metadata, what happens on traffic to a paused sandbox.
// Its id is the id of the workspace, its time-out the workspace's EndAt. So sandboxes
// survive a restart of the server with nothing stored here. A workspace that was opened in
// another way is not a sandbox, and not found here.
//
// Traffic to a sandbox is routed by the headers E2b-Sandbox-Id and E2b-Sandbox-Port, or by a
// host name PORT-ID.DOMAIN. Port 49983 is envd and 49999 the code interpreter (package
// envd); any other port is a program's own in the sandbox. Traffic has no API key: envd asks
// for the sandbox's access token, and ports are public unless the sandbox says otherwise.
//
// Errors have the form of E2B's API: {"code": 404, "message": "..."}.
package e2b
