package torch

import (
	"os"
	"testing"

	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/conformance"
)

func TestConformance(t *testing.T) {
	o := conformance.Options{DTypes: []dtype.Type{
		dtype.Bool, dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.U32, dtype.I32, dtype.U64, dtype.I64,
		dtype.F16, dtype.BF16, dtype.F32, dtype.F64, dtype.C32, dtype.C64, dtype.C128,
		dtype.F8E5M2, dtype.F8E4M3, dtype.F8E5M2FNUZ, dtype.F8E4M3FNUZ, dtype.F8E8M0,
	}}
	for _, name := range []string{"leaves", "views", "sparse"} {
		b, err := os.ReadFile(fixture(name + ".pt"))
		if err != nil {
			t.Fatal(err)
		}
		o.Samples = append(o.Samples, conformance.Sample{Name: name, Data: b})
	}
	conformance.Run(t, Format{}, o)
}
