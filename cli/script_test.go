// Package cli_test runs the command line as its users do: each script in
// testdata/script is a session.
package cli_test

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/seed-e934e81e/convert/cli/command"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"convert": func() { os.Exit(command.Main(command.System(), command.Builtin())) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_COLOR", "")
			e.Setenv("CONVERT_NO_PROGRESS", "1")
			return nil
		},
	})
}
