# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What this machine has: GPU, driver, CUDA's libraries, PyTorch.

Whatever could crash or hang when it is loaded is asked in another process.
"""

import glob
import json
import os
import platform
import shutil
import subprocess
import sysconfig
import tempfile

# Library -> function that fills an int with its version (None: returns it).
LIBRARIES = {
    "libcuda.so.1": "cuDriverGetVersion",
    "libcublasLt.so.13": None,
    "libcudnn.so.9": None,
    "libnccl.so.2": "ncclGetVersion",
    "libcupti.so.13": "cuptiGetVersion",
}
# Without these a program still trains, but by itself or without its phases.
OPTIONAL = ("libnccl.so.2", "libcupti.so.13")
RETURNED = {"libcublasLt.so.13": "cublasLtGetVersion",
            "libcudnn.so.9": "cudnnGetVersion"}

ASK_LIBRARY = """
import ctypes, sys
path, filler, returner = sys.argv[1:]
library = ctypes.CDLL(path)
if filler:
    value = ctypes.c_int()
    status = getattr(library, filler)(ctypes.byref(value))
    print(-1 if status else value.value)
else:
    function = getattr(library, returner)
    function.restype = ctypes.c_size_t
    print(function())
"""

ASK_DEVICES = """
import ctypes
library, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(0 if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count))
      else count.value)
"""

ASK_TORCH = """
import importlib.util, json, torch, transformers
print(json.dumps(dict(torch=torch.__version__, cuda=torch.version.cuda,
                      transformers=transformers.__version__,
                      torchao=importlib.util.find_spec("torchao") is not None,
                      device=torch.cuda.is_available())))
"""

# Where containers find the driver's libraries that no loader was told of.
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib",
                  "/usr/lib/wsl/lib")

# What a folder for programs must have free.
SCRATCH_BYTES = 2 << 30

# Dense bf16 tensor-core FLOP/s by part of the device's name, first that fits.
PEAKS = [("H100 PCIe", 756e12), ("H100", 989e12), ("H200", 989e12),
         ("GH200", 989e12), ("H800", 989e12)]


def peak_flops(name):
    return next((f for part, f in PEAKS if part in (name or "")), None)


def library_folders(python):
    """Where CUDA's libraries may be, in the order in which they are taken."""
    folders = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":")
               if f]
    for site in site_packages(python):
        folders += sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib")))
    if os.environ.get("CUDA_HOME"):
        folders.append(os.path.join(os.environ["CUDA_HOME"], "lib64"))
    folders += ["/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64",
                *DRIVER_FOLDERS]
    return [f for f in dict.fromkeys(folders) if os.path.isdir(f)]


def site_packages(python):
    """The packages' folders of a Python, which need not be the running one."""
    code = ("import json, site, sysconfig; print(json.dumps([sysconfig."
            "get_path('platlib'), sysconfig.get_path('purelib')] + "
            "site.getsitepackages() + [site.getusersitepackages()]))")
    said = ask([python, "-c", code])
    return said if isinstance(said, list) else [sysconfig.get_path("platlib")]


def ask(words, timeout=120, env=None):
    """What a command prints as JSON, or how it failed, as a string."""
    try:
        done = subprocess.run(words, capture_output=True, text=True,
                              errors="replace", timeout=timeout,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, **(env or {})})
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error).split("\n")[0]
    if done.returncode != 0:
        lines = done.stderr.strip().split("\n")
        return lines[-1] or f"exit status {done.returncode}"
    try:
        return json.loads(done.stdout.strip().split("\n")[-1])
    except ValueError:
        return f"no JSON: {done.stdout.strip()[-80:]!r}"


def libraries(folders, python):
    """Name -> path and version number, or why there is none."""
    env = {"LD_LIBRARY_PATH": ":".join(folders)}
    found = {}
    for name, filler in LIBRARIES.items():
        path = next((os.path.join(f, name) for f in folders
                     if os.path.exists(os.path.join(f, name))), name)
        said = ask([python, "-c", ASK_LIBRARY, path, filler or "",
                    RETURNED.get(name, "")], env=env)
        found[name] = ({"path": path, "version": said}
                       if isinstance(said, int) and said > 0
                       else {"path": path, "missing": str(said)})
    return found


def devices(folders, python):
    """How many GPUs a program may use here."""
    said = ask([python, "-c", ASK_DEVICES],
               env={"LD_LIBRARY_PATH": ":".join(folders)})
    return said if isinstance(said, int) else 0


def dotted(name, version):
    """A library's version number as people write it."""
    if not isinstance(version, int):
        return "not found"
    if name == "libcuda.so.1":
        return f"{version // 1000}.{version % 1000 // 10}"
    if version < 10000:  # NCCL before 2.9
        return f"{version // 1000}.{version % 1000 // 100}.{version % 100}"
    return f"{version // 10000}.{version % 10000 // 100}.{version % 100}"


def torch_of(python, timeout):
    """PyTorch's versions, or why it can't be used, as a string."""
    return ask([python, "-c", ASK_TORCH], timeout=timeout,
               env={"HF_HUB_OFFLINE": "1"})


def sanitizer():
    """compute-sanitizer's path, or None."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    for path in (shutil.which("compute-sanitizer"),
                 os.path.join(home, "bin", "compute-sanitizer")):
        if path and os.access(path, os.X_OK):
            return path
    return None


def processor():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def scratch_folder(preferred):
    """A new folder with room, whose programs may run; `preferred` come after
    the system's own."""
    why = []
    for parent in [tempfile.gettempdir(), "/var/tmp", "/dev/shm", *preferred]:
        try:
            if shutil.disk_usage(parent).free < SCRATCH_BYTES:
                why.append(f"{parent} has less than "
                           f"{SCRATCH_BYTES >> 30} GiB free")
                continue
            folder = tempfile.mkdtemp(prefix="run-", dir=parent)
        except OSError as error:
            why.append(str(error))
            continue
        if may_execute(folder):
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        why.append(f"{parent} lets no program run")
    raise OSError("no folder for the programs: " + "; ".join(why)
                  + ": set TMPDIR to one")


def may_execute(folder):
    path = os.path.join(folder, "try")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(path, 0o700)
    try:
        return subprocess.run([path], timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
