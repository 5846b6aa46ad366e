package safetensors

import (
	"testing"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, Format{}, conformance.Options{DTypes: append(order[:], dtype.I4x2)})
}
