// Convert reshards and converts distributed deep-learning checkpoints, bit for
// bit.
package main

import (
	"os"

	"github.com/seed-e934e81e/convert/cli/command"
)

func main() { os.Exit(command.Main(command.System(), command.Builtin())) }
