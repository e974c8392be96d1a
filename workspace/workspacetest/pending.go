package workspacetest

var shellChecks []Check
