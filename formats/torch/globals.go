package torch

import (
	"strings"

	"github.com/seed-e934e81e/convert/core/diag"
	"github.com/seed-e934e81e/convert/core/dtype"
	"github.com/seed-e934e81e/convert/formats/pickle"
)

// renamed maps modules to what they are called today.
var renamed = map[string]string{
	"__builtin__":  "builtins",
	"copy_reg":     "copyreg",
	"torch.tensor": "torch._tensor",
}

// canonical is the full name of a global as it is called today.
func canonical(module, name string) string {
	if m, ok := renamed[module]; ok {
		module = m
	}
	if rest, ok := strings.CutPrefix(module, "numpy._core"); ok {
		module = "numpy.core" + rest
	}
	return module + "." + name
}

// fullName is canonical for a node, "" where it is no global.
func fullName(n *pickle.Node) string {
	if n == nil || n.Kind != pickle.Global {
		return ""
	}
	return canonical(n.Obj.Module, n.Obj.Name)
}

// known are the globals that this package gives a meaning of its own.
var known = set(`
builtins.bool builtins.bytearray builtins.bytes builtins.complex builtins.dict builtins.float builtins.frozenset
builtins.int builtins.list builtins.object builtins.range builtins.set builtins.slice builtins.str builtins.tuple
builtins.xrange builtins.long builtins.unicode
_codecs.encode copyreg._reconstructor
collections.Counter collections.OrderedDict collections.defaultdict collections.deque
argparse.Namespace
torch.Size torch.Tensor torch.device torch.nn.parameter.Parameter torch.nn.parameter.Buffer
torch.per_tensor_affine torch.per_channel_affine torch.per_tensor_symmetric torch.per_channel_symmetric
torch.per_channel_affine_float_qparams
torch.serialization._get_layout torch.storage.UntypedStorage torch.UntypedStorage torch.storage.TypedStorage
torch._tensor._rebuild_from_type_v2
torch._utils._rebuild_tensor torch._utils._rebuild_tensor_v2 torch._utils._rebuild_tensor_v3
torch._utils._rebuild_parameter torch._utils._rebuild_parameter_with_state
torch._utils._rebuild_qtensor torch._utils._rebuild_sparse_tensor torch._utils._rebuild_sparse_csr_tensor
torch._utils._rebuild_meta_tensor_no_storage torch._utils._rebuild_wrapper_subclass
torch._utils._rebuild_device_tensor_from_numpy torch._utils._rebuild_xla_tensor
torch._utils._rebuild_device_tensor_from_cpu_tensor torch._utils._rebuild_nested_tensor
numpy.core.multiarray._reconstruct numpy.core.multiarray.scalar numpy.core.numeric._frombuffer
numpy.dtype numpy.ndarray
`)

// dangerous are globals with which a pickle runs what it wants, by module: all
// of the module, or the names listed. The table follows those of the scanners.
var dangerous = map[string]map[string]bool{
	"builtins": set("eval exec execfile compile open file getattr setattr delattr apply __import__ breakpoint input raw_input " +
		"globals locals vars exit quit help map filter"),
	"operator":  set("attrgetter itemgetter methodcaller"),
	"functools": set("partial reduce"),
	"types":     set("CodeType FunctionType LambdaType MethodType ModuleType"),
	"numpy":     set("load save savetxt fromfile memmap DataSource"),
	"torch":     set("load hub compile"),
	"io":        set("open open_code FileIO"),
	"_io":       set("open open_code FileIO"),
	"uuid":      set("_get_command_stdout _popen"),
	"_codecs":   set("register register_error"),
}

// dangerousModules are those of which every name is dangerous, with all that
// is in them.
var dangerousModules = set(`
os nt posix posixpath ntpath sys subprocess _posixsubprocess commands popen2 shutil socket _socket ssl pty runpy
importlib pkgutil imp zipimport code codeop pdb bdb trace timeit profile cProfile pydoc doctest webbrowser idlelib
lib2to3 distutils setuptools pip ensurepip venv ctypes _ctypes cffi multiprocessing _multiprocessing threading _thread
signal marshal _marshal pickle _pickle cPickle dill cloudpickle joblib shelve asyncio aiohttp http httplib urllib
urllib2 urllib3 requests httpx ftplib smtplib imaplib poplib telnetlib xmlrpc paramiko tempfile fileinput
glob linecache logging.config platform gc inspect atexit sysconfig unittest tkinter
torch.hub torch.serialization.load torch.jit torch.utils.cpp_extension torch._inductor torch.utils.bottleneck
torch.utils.collect_env torch.distributed.run torch.multiprocessing torch.fx numpy.testing numpy.f2py numpy.distutils
`)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

func isDangerous(full string) bool {
	module, name := full, ""
	if i := strings.LastIndexByte(full, '.'); i >= 0 {
		module, name = full[:i], full[i+1:]
	}
	if dangerous[module][name] {
		return true
	}
	// A dotted name reaches into a module by attributes ("builtins" "eval.x").
	if first, rest, ok := strings.Cut(full, "."); ok {
		if second, _, _ := strings.Cut(rest, "."); dangerous[first][second] {
			return true
		}
	}
	for i := 0; i <= len(full); i++ {
		if (i == len(full) || full[i] == '.') && dangerousModules[full[:i]] {
			return true
		}
	}
	return false
}

func isKnown(full string) bool {
	if known[full] {
		return true
	}
	rest, ok := strings.CutPrefix(full, "torch.")
	if !ok {
		return false
	}
	if _, ok := storageClass(full); ok {
		return true
	}
	_, ok = dtype.FromTorch(rest)
	return ok || packed[rest] != dtype.Invalid
}

// maxWarnings bounds the globals that are warned of one by one.
const maxWarnings = 64

// checkGlobals warns of every name that torch.load would import and that is
// not part of a plain checkpoint.
func (r *reader) checkGlobals(refs []pickle.Ref) error {
	seen := map[string]bool{}
	more := 0
	for _, ref := range refs {
		full := canonical(ref.Module, ref.Name)
		danger := isDangerous(full)
		if !danger && isKnown(full) || seen[full] {
			continue
		}
		seen[full] = true
		d := diag.Warnf("the pickle names `%.200s`, which is no part of a plain checkpoint", full).
			WithHint("nothing of it was run; its content is listed as it stands")
		if danger {
			d = diag.Warnf("DANGEROUS: the pickle names `%.200s`; torch.load without weights_only would let it run", full).
				WithHint("nothing of it was run; do not load this file in Python")
		}
		if r.in.Strict {
			e := bad(r.at(ref.At), "%s", d.Summary)
			e.Hint = d.Hint
			return e
		}
		if len(seen) > maxWarnings && !danger {
			more++
			continue
		}
		r.warn(d.AtByte(r.at(ref.At)))
	}
	if more > 0 {
		r.warn(diag.Warnf("the pickle names %d more globals that are no part of a plain checkpoint", more))
	}
	return nil
}
