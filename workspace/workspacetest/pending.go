package workspacetest

var treeChecks, moveChecks, nameChecks, searchChecks, watchChecks, fallbackChecks, refusalChecks, concurrencyChecks, shellChecks []Check
