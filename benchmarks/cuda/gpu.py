# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The first GPU, as the driver's management library (NVML) sees it.

Where that cannot be loaded, `nvidia-smi` is asked, which is slower: for what
is read before and after a run, not while it goes on.
"""

import ctypes
import os
import shutil
import subprocess

import machine

# Why the GPU's clock is lower than it could be; bits of NVML's mask. Idle and
# what the owner has set are no faults.
IDLE, SETTINGS = 0x1, 0x2
REASONS = {IDLE: "idle", SETTINGS: "settings", 0x4: "power cap",
           0x8: "hardware slowdown", 0x10: "sync boost",
           0x20: "heat (driver)", 0x40: "heat (hardware)",
           0x80: "power brake", 0x100: "display"}
SM_CLOCK, MEMORY_CLOCK = 1, 2
# nvidia-smi's names of what NVML tells; older drivers know the last by
# another one.
FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "power.limit",
          "temperature.gpu")
REASON_FIELDS = ("clocks_event_reasons.active",
                 "clocks_throttle_reasons.active")


class Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


def load():
    """NVML, from where the loader or a container has it."""
    name = "libnvidia-ml.so.1"
    for path in [name] + [os.path.join(f, name)
                          for f in machine.DRIVER_FOLDERS]:
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


def named(mask):
    """What holds the clock back, beside idling and settings."""
    return [text for bit, text in REASONS.items()
            if mask & bit and bit not in (IDLE, SETTINGS)]


def number(text):
    """nvidia-smi's word as a number, or None for `[N/A]`."""
    try:
        return int(text, 16) if text.startswith("0x") else float(text)
    except ValueError:
        return None


class Gpu:
    def __init__(self):
        self.handle = ctypes.c_void_p()
        self.library = load()
        try:
            self.present = self.library is not None and not (
                self.library.nvmlInit_v2()
                or self.library.nvmlDeviceGetHandleByIndex_v2(
                    0, ctypes.byref(self.handle)))
        except AttributeError:
            self.present = False
        self.smi = None if self.present else shutil.which("nvidia-smi")

    def source(self):
        """Who tells, or that nobody does."""
        return "NVML" if self.present else self.smi or "nobody: neither " \
            "libnvidia-ml.so.1 nor nvidia-smi works here"

    def text(self, function, *arguments):
        buffer = ctypes.create_string_buffer(96)
        if not self.present or getattr(self.library, function)(
                *arguments, buffer, ctypes.c_uint(len(buffer))):
            return None
        return buffer.value.decode(errors="replace")

    def name(self):
        return self.text("nvmlDeviceGetName", self.handle) or \
            self.first_word("name")

    def driver(self):
        return self.text("nvmlSystemGetDriverVersion") or \
            self.first_word("driver_version")

    def memory(self):
        """Bytes in use by all processes, and in all; None if unknown."""
        memory = Memory()
        if not self.present or self.library.nvmlDeviceGetMemoryInfo(
                self.handle, ctypes.byref(memory)):
            return None
        return memory.used, memory.total

    def state(self):
        """Clocks, power, temperature and what holds the clocks back; None
        where nobody tells. What is not known is None."""
        if self.present:
            return self.state_by_library()
        if self.smi:
            return self.state_by_program()
        return None

    def value(self, function, *arguments, kind=ctypes.c_uint):
        result = kind()
        try:
            failed = getattr(self.library, function)(
                self.handle, *arguments, ctypes.byref(result))
        except AttributeError:
            return None
        return None if failed else result.value

    def state_by_library(self):
        draws, limit = (self.value(f"nvmlDeviceGet{name}") for name in (
            "PowerUsage", "EnforcedPowerLimit"))
        mask = None
        for name in ("Event", "Throttle"):
            if mask is None:
                mask = self.value(f"nvmlDeviceGetCurrentClocks{name}Reasons",
                                  kind=ctypes.c_ulonglong)
        return state(self.value("nvmlDeviceGetClockInfo", SM_CLOCK),
                     self.value("nvmlDeviceGetClockInfo", MEMORY_CLOCK),
                     None if draws is None else draws / 1e3,
                     None if limit is None else limit / 1e3,
                     self.value("nvmlDeviceGetTemperature", 0), mask)

    def state_by_program(self):
        for reasons in REASON_FIELDS:
            words = self.ask(",".join((*FIELDS, reasons)))
            if words and len(words) == len(FIELDS) + 1:
                return state(*map(number, words))
        return None

    def first_word(self, field):
        words = self.ask(field) if self.smi else None
        return words[0] if words else None

    def ask(self, fields):
        """nvidia-smi's words about the first GPU."""
        try:
            done = subprocess.run(
                [self.smi, f"--query-gpu={fields}",
                 "--format=csv,noheader,nounits", "--id=0"],
                capture_output=True, text=True, timeout=20,
                stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0 or not done.stdout.strip():
            return None
        return [w.strip() for w in done.stdout.split("\n")[0].split(",")]


def state(sm, memory, watts, limit, celsius, mask):
    return {"sm_mhz": sm, "memory_mhz": memory, "watts": watts,
            "limit_watts": limit, "celsius": celsius,
            "held_back": None if mask is None else named(int(mask))}
