package torch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-e934e81e/convert/core/checkpoint"
	"github.com/seed-e934e81e/convert/core/dtype"
)

// str, global and tuple are the pieces of the pickles below.
func str(s string) string { return "X" + string([]byte{byte(len(s)), byte(len(s) >> 8), 0, 0}) + s }

func global(module, name string) string { return "c" + module + "\n" + name + "\n" }

func tuple(parts ...string) string { return "(" + strings.Join(parts, "") + "t" }

func pid(class, key, numel string) string {
	i := strings.LastIndexByte(class, '.')
	return tuple(str("storage"), global(class[:i], class[i+1:]), str(key), str("cpu"), numel) + "Q"
}

// tensorPickle is the pickle of one tensor of one dim.
func tensorPickle(class, key, numel, offset, size, stride string) string {
	return tensorOf(pid("torch."+class, key, numel), offset, tuple(size), tuple(stride)) + "."
}

func tensorOf(storage, offset, size, stride string, more ...string) string {
	args := append([]string{storage, offset, size, stride, "\x89", global("collections", "OrderedDict") + ")R"}, more...)
	return global("torch._utils", "_rebuild_tensor_v2") + tuple(args...) + "R"
}

// one is a tensor of two floats.
var one = tensorOf(pid("torch.FloatStorage", "0", "K\x02"), "K\x00", "K\x02\x85", "K\x01\x85")

func rebuilt(fn string, args ...string) string {
	return global("torch._utils", fn) + tuple(args...) + "R"
}

// list writes what an index holds, one line each.
func list(x *checkpoint.Index) string {
	type line struct {
		seq  int
		text string
	}
	var lines []line
	step := func(p checkpoint.Path) string {
		var b strings.Builder
		for _, s := range p {
			switch s.Kind {
			case checkpoint.KeyPart:
				fmt.Fprintf(&b, ".%s", s.Text)
			case checkpoint.IndexPart:
				fmt.Fprintf(&b, "[%d]", s.Index)
			default:
				fmt.Fprintf(&b, "<%d %s>", s.Kind, s.Text)
			}
		}
		return b.String()
	}
	for _, e := range x.Entries {
		var notes []string
		for k, v := range e.Note {
			notes = append(notes, k+"="+v)
		}
		slices.Sort(notes)
		lines = append(lines, line{e.Seq, strings.TrimSpace(fmt.Sprintf("%s: %s %v %s", step(e.Path), e.DType, e.Shape, strings.Join(notes, " ")))})
	}
	for _, l := range x.Leaves {
		v := textOfValue(l.Value)
		if l.Value.Kind == checkpoint.Sized {
			v = strings.TrimSpace(fmt.Sprintf("%d %s", l.Value.Len, l.Value.Text))
		}
		lines = append(lines, line{l.Seq, strings.TrimSpace(fmt.Sprintf("%s: %s %s", step(l.Path), l.Type, v))})
	}
	slices.SortFunc(lines, func(a, b line) int { return a.seq - b.seq })
	var out []string
	for i, l := range lines {
		if l.seq != i {
			out = append(out, fmt.Sprintf("(place %d)", l.seq))
		}
		out = append(out, l.text)
	}
	return strings.Join(out, "\n")
}

func TestTreesOfPickles(t *testing.T) {
	untyped := pid("torch.storage.UntypedStorage", "1", "K\x08")
	for _, c := range []struct{ name, pickle, want string }{
		{"a tensor alone", one, ": f32 [2]"},
		{"a dict", "}" + str("a") + one + "s", ": dict 1\n.a: f32 [2]"},
		{"a key that is set twice", "}(" + str("a") + "K\x01" + str("b") + "K\x02" + str("a") + "K\x03u", ": dict 2\n.a: int 3\n.b: int 2"},
		{"keys that Python takes for one", "}(K\x01K\x05\x88K\x06G?\xf0\x00\x00\x00\x00\x00\x00K\x07u", ": dict 1\n[1]: int 7"},
		{"an OrderedDict of Python 2", global("collections", "OrderedDict") + "]](" + str("a") + "K\x01ea\x85R", ": OrderedDict 1\n.a: int 1"},
		{
			"attributes of a state dict", global("collections", "OrderedDict") + ")R" + str("w") + one + "s}" + str("_metadata") + "}sb",
			": OrderedDict 1\n.w: f32 [2]\n<2 _metadata>: dict 0",
		},
		{"the oldest rebuild function, and a storage on a device", rebuilt("_rebuild_tensor", pid("torch.cuda.FloatStorage", "0", "K\x02"), "K\x00", "K\x02\x85", "K\x01\x85"), ": f32 [2]"},
		{"a parameter", rebuilt("_rebuild_parameter", one, "\x88", "N"), ": f32 [2] parameter=true requires_grad=true"},
		{
			"a parameter with attributes", rebuilt("_rebuild_parameter_with_state", one, "\x89", "N", "}"+str("tag")+"K\x07s"),
			": f32 [2] parameter=true requires_grad=false\n<3 tag>: int 7",
		},
		{
			"a tensor of a class", global("torch._tensor", "_rebuild_from_type_v2") + tuple(global("torch._utils", "_rebuild_tensor_v2"), global("my", "Sub"),
				tuple(pid("torch.FloatStorage", "0", "K\x02"), "K\x00", "K\x02\x85", "K\x01\x85", "\x89", "N"), "}"+str("inner")+one+"s") + "R",
			": f32 [2] class=my.Sub\n<3 inner>: f32 [2] tie=",
		},
		{"an untyped storage", rebuilt("_rebuild_tensor_v3", untyped, "K\x01", "K\x02\x85", "K\x01\x85", "\x89", "N", global("torch", "uint16")), ": u16 [2]"},
		{"float8", rebuilt("_rebuild_tensor_v3", untyped, "K\x03", "K\x05\x85", "K\x01\x85", "\x89", "N", global("torch", "float8_e4m3fn")), ": f8_e4m3 [5]"},
		{
			"float4, two in a byte", rebuilt("_rebuild_tensor_v3", untyped, "K\x02", "K\x02K\x03\x86", "K\x03K\x01\x86", "\x89", "N", global("torch", "float4_e2m1fn_x2")),
			": f4 [2 6] dtype=torch.float4_e2m1fn_x2",
		},
		{"a type that is only bits", rebuilt("_rebuild_tensor_v3", untyped, "K\x00", "K\x08\x85", "K\x01\x85", "\x89", "N", global("torch", "uint4")), ": u8 [8] dtype=torch.uint4"},
		{"a storage alone", pid("torch.ByteStorage", "1", "K\x08"), ": u8 [8] storage=torch.ByteStorage"},
		{
			"four bits each", rebuilt("_rebuild_qtensor", pid("torch.QUInt4x2Storage", "1", "K\x10"), "K\x00", "K\x10\x85", "K\x01\x85",
				tuple(global("torch", "per_channel_affine_float_qparams"), "]", "]", "K\x00"), "\x89", "N"),
			": qu4x2 [16]\n<3 qscheme>: qscheme per_channel_affine_float_qparams\n<3 scales>: list 0\n<3 zero_points>: list 0\n<3 axis>: int 0",
		},
		{
			"sparse", rebuilt("_rebuild_sparse_tensor", global("torch.serialization", "_get_layout")+str("torch.sparse_csc")+"\x85R",
				tuple(one, one, one, global("torch", "Size")+"K\x02K\x02\x86\x85R")),
			"<4 ccol>: f32 [2] sparse=csc sparse_size=[2 2]\n<4 row>: f32 [2] sparse=csc sparse_size=[2 2] tie=ccol\n<4 values>: f32 [2] sparse=csc sparse_size=[2 2] tie=ccol",
		},
		{"a tensor without bytes", rebuilt("_rebuild_meta_tensor_no_storage", global("torch", "float32"), "K\x02K\x03\x86", "K\x03K\x01\x86", "\x89"), ": meta tensor float32 [2, 3]"},
		{"a device tensor", rebuilt("_rebuild_device_tensor_from_cpu_tensor", one, "N", "N", "\x89"), ": f32 [2]"},
		{"ties and views", tuple(one, one, tensorOf(pid("torch.FloatStorage", "0", "K\x02"), "K\x01", ")", ")")), ": tuple 3\n[0]: f32 [2]\n[1]: f32 [2] tie=0\n[2]: f32 []"},
		{
			"an object with all it may have", global("my", "C") + "(" + str("arg") + one + "t\x81" + str("key") + "K\x01sK\x02a}" + str("attr") + one + "sb",
			": object my.C\n<3 args>: tuple 2\n<3 args>[0]: str arg\n<3 args>[1]: f32 [2]\n.key: int 1\n<3 items>[0]: int 2\n<2 attr>: f32 [2] tie=args.1",
		},
		{
			"slots, and a state of another form", "(" + global("my", "C") + ")\x81N}" + str("slot") + "K\x01s\x86b" + global("my", "D") + ")\x81K\x05bt",
			": tuple 2\n[0]: object my.C\n[0]<2 slot>: int 1\n[1]: object my.D\n[1]<3 state>: int 5",
		},
		{"a dict of one's own", global("copy_reg", "_reconstructor") + tuple(global("my", "Cfg"), global("__builtin__", "dict"), "}"+str("a")+"K\x01s") + "R", ": object my.Cfg\n.a: int 1"},
		{"a call of a call", global("my", "f") + ")R)R", ": object call\n<3 call>: object my.f"},
		{"a function", "]" + global("my", "f") + "a", ": list 1\n[0]: global my.f"},
		{"a list in itself", "]q\x00h\x00a", ": list 1\n[0]: reference"},
		{"a shared list", "]q\x00K\x01a0(h\x00h\x00t", ": tuple 2\n[0]: list 1\n[0][0]: int 1\n[1]: list 1\n[1][0]: int 1"},
		{"a defaultdict", global("collections", "defaultdict") + global("__builtin__", "list") + "\x85RK\x01]s", ": defaultdict 1 builtins.list\n[1]: list 0"},
		{"a large integer", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01", ": int 18446744073709551616"},
		{"an integer beyond measure", "\x8b\x00\x02\x00\x00" + strings.Repeat("\x01", 512), ": int int"},
		{"numpy text", global("numpy.core.multiarray", "_reconstruct") + tuple(global("numpy", "ndarray"), "K\x00\x85", "C\x01b") + "R" +
			tuple("K\x01", "K\x01\x85", global("numpy", "dtype")+str("U3")+"\x89\x88\x87R", "\x89", "C\x0cabcdefghijkl") + "b", ": ndarray <U3 [1]"},
	} {
		x, err := indexOf(fileOf(c.pickle+"."), false)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := list(x); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
		if err := x.Validate([]int64{1 << 20}); err != nil {
			t.Errorf("%s: Validate: %v", c.name, err)
		}
	}
}

func TestNumpyScalars(t *testing.T) {
	for _, c := range []struct{ code, order, bytes, want string }{
		{"f8", "<", "\x00\x00\x00\x00\x00\x00\xf8?", "numpy.float64 1.5"},
		{"f8", ">", "?\xf8\x00\x00\x00\x00\x00\x00", "numpy.float64 1.5"},
		{"f4", "<", "\x00\x00\xc0\xbf", "numpy.float32 -1.5"},
		{"f2", "<", "\x00\x3e", "numpy.float16 1.5"},
		{"f2", "<", "\x01\x80", "numpy.float16 -5.960464477539063e-08"},
		{"f2", "<", "\x00\xfc", "numpy.float16 -inf"},
		{"i8", "<", "\xff\xff\xff\xff\xff\xff\xff\xff", "numpy.int64 -1"},
		{"i2", ">", "\x01\x00", "numpy.int16 256"},
		{"u8", "<", "\xff\xff\xff\xff\xff\xff\xff\xff", "numpy.uint64 18446744073709551615"},
		{"u1", "|", "\xff", "numpy.uint8 255"},
		{"b1", "|", "\x01", "numpy.bool true"},
		{"c8", "<", "\x00\x00\x80?\x00\x00\x00\xc0", "numpy.complex64 (1-2j)"},
	} {
		typ := global("numpy", "dtype") + str(c.code) + "\x89\x88\x87R" + tuple("K\x03", str(c.order), "N") + "b"
		p := global("numpy._core.multiarray", "scalar") + typ + "C" + string(rune(len(c.bytes))) + c.bytes + "\x86R."
		x, err := indexOf(fileOf(p), true)
		if err != nil || len(x.Leaves) != 1 || x.Leaves[0].Type+" "+textOfValue(x.Leaves[0].Value) != c.want {
			t.Errorf("%s%s %x: %+v, %v, want %s", c.order, c.code, c.bytes, x, err, c.want)
		}
	}
}

func TestBigEndianStorages(t *testing.T) {
	b := fileOf("("+one+tensorOf(pid("torch.ByteStorage", "1", "K\x08"), "K\x00", "K\x08\x85", "K\x01\x85")+"t.", rec{"m/byteorder", "big"})
	x, err := indexOf(b, true)
	if err != nil {
		t.Fatal(err)
	}
	if !x.Entries[0].Data.BigEndian || x.Entries[1].Data.BigEndian {
		t.Errorf("big endian: %v and %v, want the floats and not the bytes", x.Entries[0].Data.BigEndian, x.Entries[1].Data.BigEndian)
	}
	if got, _ := gather(b, &x.Entries[0]); string(got) != "?\x80\x00\x00@\x00\x00\x00" {
		t.Errorf("the floats are %x, want their bytes swapped", got)
	}
}

func TestStridedTensorsTakeOnlyWhatTheySpan(t *testing.T) {
	p := tensorOf(pid("torch.ByteStorage", "1", "K\x08"), "K\x01", "K\x02K\x02\x86", "K\x01K\x03\x86") + "."
	b := fileOf(p)
	x, err := indexOf(b, true)
	if err != nil {
		t.Fatal(err)
	}
	d := x.Entries[0].Data
	if got, err := gather(b, &x.Entries[0]); string(got) != "2536" || err != nil || d.Extents[0].Len != 5 || d.Offset != 0 {
		t.Errorf("the tensor is %q of %+v, %v, want 2536 out of 5 bytes", got, d, err)
	}
}

func TestHostileTreesAreRefused(t *testing.T) {
	float := func(numel, offset, size, stride string) string {
		return tensorOf(pid("torch.FloatStorage", "0", numel), offset, size, stride)
	}
	deep := strings.Repeat("]", maxDepth+2) + strings.Repeat("a", maxDepth+1)
	for _, c := range []struct{ name, pickle, want string }{
		{"an offset beyond the storage", float("K\x02", "K\x03", ")", ")"), "reaches past its storage of 2 elements"},
		{"a negative offset", float("K\x02", "J\xff\xff\xff\xff", ")", ")"), "begins at element -1"},
		{"a size beyond the storage", float("K\x02", "K\x01", "K\x02\x85", "K\x01\x85"), "reaches past its storage"},
		{"a negative size", float("K\x02", "K\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85"), "the size of the tensor is (-1,)"},
		{"a negative stride", float("K\x02", "K\x00", "K\x01\x85", "J\xff\xff\xff\xff\x85"), "the strides of the tensor are (-1,)"},
		{"a stride that overflows", float("K\x02", "K\x00", "K\x03\x85", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"), "reaches past its storage"},
		{"a size that overflows", float("K\x02", "K\x00", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x86", "K\x00K\x00\x86"), "is not possible"},
		{"more dims than strides", float("K\x02", "K\x00", "K\x01K\x01\x86", "K\x01\x85"), "2 dims and 1 strides"},
		{"more dims than there can be", float("K\x02", "K\x00", "("+strings.Repeat("K\x01", 200)+"t", "("+strings.Repeat("K\x01", 200)+"t"), "the size of the tensor"},
		{"a repeated element", float("K\x02", "K\x00", "J\x00\x00\x00\x10\x85", "K\x00\x85"), "repeats 4 bytes 268435456 times"},
		{"a storage longer than its record", float("K\x03", "K\x00", ")", ")"), "has 8 bytes, storage `0` of 3 elements of f32 has 12"},
		{"a negative storage", float("J\xff\xff\xff\xff", "K\x00", ")", ")"), "storage `0` has -1 elements"},
		{"a storage that overflows", float("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\x00", ")", ")"), "storage `0` has 9223372036854775807 elements"},
		{"a storage without a record", tensorOf(pid("torch.FloatStorage", "../0", "K\x02"), "K\x00", ")", ")"), "has no record `m/data/../0`"},
		{"a storage of two types", "(" + one + tensorOf(pid("torch.IntStorage", "0", "K\x02"), "K\x00", ")", ")") + "t", "2 elements of `torch.FloatStorage` in one place"},
		{"a storage class that is none", tensorOf(pid("torch.FooStorage", "0", "K\x02"), "K\x00", ")", ")"), "storage class `torch.FooStorage` is not known"},
		{"a storage class of another module", tensorOf(pid("evil.FloatStorage", "0", "K\x02"), "K\x00", ")", ")"), "storage class `evil.FloatStorage` is not known"},
		{"a persistent id of protocol 0", "Pabc\n", "a storage is wanted"},
		{"a persistent id that is no storage", "(" + str("module") + "NNNNtQ", "no storage"},
		{"a tensor of nothing", rebuilt("_rebuild_tensor_v2"), "rebuilt from 0 arguments"},
		{"a tensor of an int", rebuilt("_rebuild_tensor_v2", "K\x01", "K\x01", ")", ")", "N", "N"), "a storage is wanted, found a int"},
		{"an untyped tensor without a type", rebuilt("_rebuild_tensor_v3", pid("torch.UntypedStorage", "1", "K\x08"), "K\x00", ")", ")", "N", "N", "N"), "the element type of the tensor is None"},
		{"a type that is none", rebuilt("_rebuild_tensor_v3", pid("torch.UntypedStorage", "1", "K\x08"), "K\x00", ")", ")", "N", "N", global("torch", "foo")), "element type `torch.foo` is not known"},
		{"float4 with strides", rebuilt("_rebuild_tensor_v3", pid("torch.UntypedStorage", "1", "K\x08"), "K\x00", "K\x02\x85", "K\x02\x85", "N", "N", global("torch", "float4_e2m1fn_x2")), "is not supported"},
		{"a sparse layout that is none", rebuilt("_rebuild_sparse_tensor", "N", ")"), "sparse layout None is not known"},
		{
			"a numpy array of too few bytes", global("numpy.core.multiarray", "_reconstruct") + ")R" + tuple("K\x01", "K\x03\x85", global("numpy", "dtype")+str("f4")+"\x85R", "\x89", "C\x04abcd") + "b",
			"an array of <f4 with shape [3] has 4 bytes",
		},
		{"bytes that are no latin-1", global("numpy.core.multiarray", "_reconstruct") + ")R" + tuple("K\x01", "K\x01\x85", global("numpy", "dtype")+str("u1")+"\x85R", "\x89",
			global("_codecs", "encode")+str("\u0100")+str("latin1")+"\x86R") + "b", "the elements of an array are a call"},
		{"nesting", deep, "nested more than 1000 deep"},
		{"parameters of parameters", strings.Repeat(global("torch._utils", "_rebuild_parameter")+"(", maxDepth+2) + one + strings.Repeat("\x88NtR", maxDepth+2), "nested more than 1000 deep"},
	} {
		_, err := indexOf(fileOf(c.pickle+"."), false)
		if fe := (*checkpoint.FormatError)(nil); !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want a FormatError that says %q", c.name, err, c.want)
		}
	}
}

func TestSharingWithoutEndIsListedOnce(t *testing.T) {
	bomb := "]q\x00K\x01a" + strings.Repeat("](h\x00h\x00eq\x00", 200) + "."
	x, err := indexOf(fileOf(bomb), false)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Leaves) > 1000 || len(x.Warnings) != 1 {
		t.Errorf("%d leaves and %v, want each list once and a warning", len(x.Leaves), x.Warnings)
	}
}

func TestLongNamesAreBounded(t *testing.T) {
	// 20000 tensors under one key of 60000 bytes: 1.2 GB of names.
	p := "}" + str(strings.Repeat("k", 60000)) + "}(K\x00" + one + "q\x05"
	for i := 1; i < 20000; i++ {
		p += "M" + string([]byte{byte(i), byte(i >> 8)}) + "h\x05"
	}
	_, err := indexOf(fileOf(p+"us."), false)
	if fe := (*checkpoint.FormatError)(nil); !errors.As(err, &fe) || !strings.Contains(err.Error(), "the names of all tensors") {
		t.Errorf("error %v, want one about the names", err)
	}
}

func TestConjugateAndNegatedTensors(t *testing.T) {
	flags := func(name string) string { return "}" + str(name) + "\x88s" }
	complexOf := func(flag string) string {
		return tensorOf(pid("torch.ComplexFloatStorage", "0", "K\x01"), "K\x00", ")", ")", flags(flag))
	}
	x, err := indexOf(fileOf("("+complexOf("conj")+complexOf("neg")+"t."), true)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []checkpoint.Data{{Conjugate: true}, {Negate: true}} {
		e := x.Entries[i]
		if e.DType != dtype.C64 || e.Data.Conjugate != want.Conjugate || e.Data.Negate != want.Negate || e.Note["tie"] != "" {
			t.Errorf("tensor %d is %s, conjugate %v, negated %v, %v", i, e.DType, e.Data.Conjugate, e.Data.Negate, e.Note)
		}
	}
}
