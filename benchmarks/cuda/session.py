# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One call of `run`: where things are, what is left of the time, the results.

Results are lines of JSON, appended one by one and forced to the disk, so that
whatever happens later, what was measured stays.
"""

import json
import lzma
import os
import shutil
import sys
import tarfile
import time
import zipfile

import gpu
import machine
import measure
import report
from rows import SPEED_LEARNING_RATE, Skip


class CutOff(Exception):
    """The time of this call is over; a later one takes up what is left."""


# All ranks are on this machine, which may have no other network.
LOOPBACK = {"NCCL_SOCKET_IFNAME": "lo"}
# Seconds between looks at the GPU's clocks while steps run.
STATE_SECONDS = 0.5


class Watch:
    """Watches a run: the GPU's memory above what it was, its clocks, power and
    temperature while steps run, and when the first step was done.

    The memory is that of all processes, as the driver counts it: context,
    modules and libraries included.
    """

    def __init__(self, gpu, interval):
        self.gpu, self.interval = gpu, interval
        self.idle = gpu.memory() if gpu else None
        self.before = gpu.state() if gpu else None
        self.began = time.monotonic()
        self.peak = self.first_step = None
        self.seen, self.looked = [], 0

    def sample(self, _, log):
        now = time.monotonic()
        if self.first_step is None and has_line(log):
            self.first_step = now - self.began
        used = self.gpu.memory() if self.idle else None
        if used:
            self.peak = max(self.peak or 0, used[0] - self.idle[0])
        # nvidia-smi would be slow, and would be seen in the times.
        if self.first_step is not None and self.gpu and self.gpu.present \
                and now - self.looked > STATE_SECONDS:
            self.looked = now
            self.seen.append(self.gpu.state())

    def conditions(self):
        """Before, after, and the extremes of what was seen in between."""
        if not self.before:
            return None
        found = {"before": self.before, "after": self.gpu.state()}
        seen = [s for s in self.seen if s]
        for key, name, of in (("sm_mhz", "lowest_sm_mhz", min),
                              ("sm_mhz", "highest_sm_mhz", max),
                              ("watts", "highest_watts", max),
                              ("celsius", "highest_celsius", max)):
            values = [s[key] for s in seen if s[key] is not None]
            found[name] = of(values) if values else None
        found["held_back"] = sorted({why for s in seen
                                     for why in s["held_back"] or ()})
        return found


def has_line(log):
    try:
        with open(log, "rb") as file:
            return b"\n" in file.read(1 << 16)
    except OSError:
        return False


class Session:
    """What rows are given."""

    def __init__(self, root, options):
        self.root = root
        self.options = options
        self.rounds = options.rounds
        with open(os.path.join(root, "bundle.json")) as file:
            self.bundle = json.load(file)
        self.cuda = self.bundle["target"] == "cuda"
        self.began = time.monotonic()
        self.deadline = self.began + options.budget
        self.row_deadline = self.deadline
        self.results = os.path.join(options.out, "results.jsonl")
        self.folder = machine.scratch_folder([options.out])
        self.references = None
        self.added = 0  # results of the row that is running
        self.known = {}
        self.gpu = gpu.Gpu() if self.cuda else None
        self.sanitizer = machine.sanitizer() if self.cuda else None

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def open_results(self, kept):
        """Makes OUT; a session goes on from `kept`, if it has none there."""
        os.makedirs(self.options.out, exist_ok=True)
        if self.options.session:
            self.take_up(os.path.join(kept, "results.jsonl"))
            self.set_apart()
        self.end_line()

    def take_up(self, path):
        if not os.path.exists(self.results) and os.path.exists(path):
            shutil.copyfile(path, self.results)
            print(f"going on from {path}", flush=True)

    def set_apart(self):
        """Results of another bundle are not this one's."""
        for result in report.read(self.results).get("machine", []):
            found = result.get("commit", self.bundle["commit"])
            if found != self.bundle["commit"]:
                name = f"results-{found}.jsonl"
                os.rename(self.results, os.path.join(self.options.out, name))
                print(f"note: the results so far are of commit {found}, this "
                      f"bundle is of {self.bundle['commit']}: they are now "
                      f"in {name}", flush=True)
                return

    def end_line(self):
        """A run that was cut off may have left half a line."""
        try:
            with open(self.results, "rb+") as file:
                if file.seek(0, os.SEEK_END) == 0:
                    return
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")
        except FileNotFoundError:
            pass

    def state(self):
        """The GPU's clocks, power and temperature now, if anybody tells."""
        return self.gpu.state() if self.gpu else None

    def keep(self, name, path):
        """Stores a file beside the results, in one archive for all."""
        try:
            with zipfile.ZipFile(os.path.join(self.options.out, "traces.zip"),
                                 "a", zipfile.ZIP_DEFLATED) as archive:
                archive.write(path, name)
        except (OSError, zipfile.BadZipFile) as error:
            print(f"note: {name} is not kept: {error}", flush=True)

    def add(self, row, kind, **result):
        self.added += 1
        line = json.dumps(dict(row=row, kind=kind, at=round(time.time(), 1),
                               **result))
        with open(self.results, "a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        # Whatever ends this call, the tables hold what was there.
        report.write(self.results, self.options.out)

    def path(self, name):
        return os.path.join(self.root, name)

    def program(self, name):
        """An executable: of the archive, taken out when first asked for."""
        return os.path.join(self.once("unpacked", self.unpack), name)

    def unpack(self):
        archive = self.path("programs.tar.xz")
        if not os.path.exists(archive):
            return self.root
        # Older Pythons have no filters, newer ones ask for one.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        with tarfile.open(archive, "r|xz") as file:
            file.extractall(self.folder, **safe)
        return self.folder

    def scratch(self, name):
        return os.path.join(self.folder, name)

    def left(self):
        """Seconds until this row, or all of it, must be over."""
        return min(self.deadline, self.row_deadline) - time.monotonic()

    def watch(self, interval=0.05):
        return Watch(self.gpu, interval)

    def once(self, key, function):
        if key not in self.known:
            self.known[key] = function()
        return self.known[key]

    def folders(self):
        return self.once("folders", lambda: machine.library_folders(
            self.options.python))

    def libraries(self):
        return self.once("libraries", lambda: machine.libraries(
            self.folders(), self.options.python) if self.cuda else {})

    def torch(self):
        return self.once("torch", lambda: machine.torch_of(
            self.options.python, max(1, min(300, self.left()))))

    def need_torch(self):
        """Skips unless PyTorch can train on what the executables train on."""
        found = self.torch()
        if not isinstance(found, dict):
            raise Skip(f"no PyTorch with transformers: {found}")
        if self.cuda and not found["device"]:
            raise Skip(f"PyTorch {found['torch']} sees no GPU")

    def devices(self):
        return self.once("devices", lambda: machine.devices(
            self.folders(), self.options.python))

    def nccl_folders(self, version):
        """The libraries' folders, with the bundle's NCCL if it is needed."""
        name = "libnccl.so.2"
        found = self.libraries()[name].get("version", 0)
        if found >= version:
            return self.folders()
        packed = self.path(f"lib/{name}.xz")
        if not os.path.exists(packed):
            raise Skip(f"NCCL {machine.dotted(name, found)}: ranks can share "
                       f"a GPU from {machine.dotted(name, version)} on")
        return [self.once("nccl", lambda: self.unpack_library(packed)),
                *self.folders()]

    def unpack_library(self, packed):
        folder = self.scratch("lib")
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, os.path.basename(packed)[:-3])
        with lzma.open(packed) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)
        return folder

    def try_program(self):
        """One of our executables must at least start here."""
        program = self.bundle["checks"][0]["programs"]["full_shard"]
        self.call([self.program(program), "--help"],
                  self.environment(self.scratch("cache")),
                  self.scratch("help.jsonl"), 60, None)

    def earlier(self, row):
        """What earlier calls have found of a row, if this one goes on."""
        return report.read(self.results).get(row, []) \
            if self.options.session else []

    def describe(self):
        found = self.torch()
        names = machine.LIBRARIES if self.cuda else {}
        device = self.gpu
        memory = device.memory() if device else None
        return dict(
            target=self.bundle["target"], arch=self.bundle["arch"],
            commit=self.bundle["commit"], processor=machine.processor(),
            cores=len(os.sched_getaffinity(0)),
            python=sys.version.split()[0],
            gpu=device.name() if device else None,
            driver=device.driver() if device else None,
            told_by=device.source() if device else None,
            gpus=self.devices() if self.cuda else 0,
            gpu_bytes=memory[1] if memory else None,
            idle_bytes=memory[0] if memory else None,
            libraries={name: self.libraries()[name] for name in names},
            torch=found if isinstance(found, dict) else {"missing": found})

    def environment(self, cache):
        """Of our executables: CUDA's libraries, and a cache of this run's."""
        env = {"SHARDONNX_CACHE_DIR": cache, **LOOPBACK}
        if self.cuda:
            env["LD_LIBRARY_PATH"] = ":".join(self.folders())
        return env

    def ours(self, program, steps, words, watch=None, limit=120, prefix=(),
             env=None, cache=None, log=None):
        """Runs one of our executables, returns the steps of its log."""
        log = log or self.scratch("ours.jsonl")
        command = [*prefix, self.program(program), *words,
                   "--steps", str(steps), "--log", log]
        environment = self.environment(cache or self.scratch("cache"))
        return self.call(command, {**environment, **(env or {})}, log, limit,
                         watch)

    def said_by_ours(self, part):
        """Lines with `part` in them that our last run printed."""
        with open(self.scratch("ours.jsonl.out0"), errors="replace") as file:
            return [line.strip()[:300] for line in file if part in line][:40]

    def peer(self, words, log, limit, watch=None):
        """Runs PyTorch's side, returns the steps of its log."""
        command = [self.options.python,
                   os.path.join(self.root, "benchmarks", "peer.py"), *words]
        env = {"HF_HUB_OFFLINE": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
               "PYTHONWARNINGS": "ignore", "RANK": "0", "LOCAL_RANK": "0",
               "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": str(measure.free_port()),
               "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
               "PYTORCH_ALLOC_CONF": "expandable_segments:True",
               "TORCHINDUCTOR_CACHE_DIR": self.scratch("inductor"),
               "TRITON_CACHE_DIR": self.scratch("triton"),
               **LOOPBACK}
        if not self.cuda:
            env["OMP_NUM_THREADS"] = str(len(os.sched_getaffinity(0)))
        words = ["--device", "cuda" if self.cuda else "cpu"]
        return self.call(per_job(command, words), env, log, limit, watch)

    def peer_run(self, work, mode, watch, limit, steps=None, more=()):
        log = self.scratch(f"{mode}.jsonl")
        words = [work["preset"], "--mode", mode, "--seq", str(work["seq"]),
                 "--shape", work["shape"], "--precision", work["precision"],
                 "--recompute", work["recompute"],
                 "--data", self.path(self.bundle["speed_data"]),
                 "--batch", str(work["batch"]),
                 "--steps", str(steps or work["steps"]),
                 "--lr", SPEED_LEARNING_RATE, "--draw", "0", "--log", log,
                 *more]
        for name, ours in work["drawn_as"].items():
            words += ["--drawn-as", f"{name}={ours}"]
        return self.peer(words, log, limit, watch)

    def call(self, command, env, log, limit, watch):
        """Runs a command; CutOff if the time of all, not its own, is short."""
        allowed = min(self.options.limit or limit,
                      self.row_deadline - time.monotonic())
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise CutOff("no time left")
        if allowed <= 0:
            raise RuntimeError("no time left of this row's")
        try:
            return measure.run([(command, env)], log, min(allowed, left),
                               watch or self.watch())
        except measure.OutOfTime as error:
            if left <= allowed:
                raise CutOff(str(error)) from None
            raise


def per_job(command, words):
    """Adds words to every one of the jobs that are parted by `+`."""
    result = []
    for word in command:
        result += words + [word] if word == "+" else [word]
    return result + words
