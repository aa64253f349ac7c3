# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of a bundle that its CPU twin does not reach, or can't check."""

import json
import os
import struct
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
for part in ("benchmarks", "benchmarks/cuda", "test/training"):
    sys.path.insert(0, os.path.join(ROOT, part))
sys.dont_write_bytecode = True

import gpu
import imports
import machine
import onnx_weights
import phases
import report
import speed
import thin_library

MIB = 1 << 20


def fat_binary(*entries):
    """Entries are kind, architecture and payload."""
    body = b"".join(thin_library.ENTRY.pack(kind, 0x101, 64, len(data), arch)
                    .ljust(64, b"\1") + data for kind, arch, data in entries)
    return thin_library.HEADER.pack(thin_library.FAT_BINARY, 1, 16,
                                    len(body)) + body


class ThinTest(unittest.TestCase):
    def test_keeps_one_architecture(self):
        first = fat_binary((2, 80, b"a" * 24), (2, 90, b"b" * 40),
                           (1, 90, b"c" * 16))
        second = fat_binary((2, 90, b"d" * 8), (2, 100, b"e" * 8))
        data = bytearray(b"x" * 3 + first + bytes(8) + second + b"y" * 5)
        wanted = bytearray(data)
        for letter in b"ace":
            wanted = wanted.replace(bytes([letter]), b"\0")
        kept = thin_library.keep_architecture(data, 3, len(data) - 8, 90)
        self.assertEqual(kept, 2)
        self.assertEqual(data, wanted)

    def test_unknown_layout(self):
        data = bytearray(fat_binary((2, 90, b"b" * 8)))
        struct.pack_into("<Q", data, 8, len(data))  # longer than its entry
        data += thin_library.ENTRY.pack(2, 0, 64, 1 << 40, 90) + bytes(64)
        with self.assertRaises((ValueError, struct.error)):
            thin_library.keep_architecture(data, 0, len(data), 90)


class WeightsTest(unittest.TestCase):
    def test_safetensors(self):
        """The bytes of the ONNX file, under their names, where it says."""
        graph = os.path.join(ROOT, "test", "training", "models",
                             "gpt2-18.onnx")
        found = onnx_weights.floats(graph)
        with tempfile.NamedTemporaryFile() as file:
            onnx_weights.write_safetensors(found, file.name)
            data = file.read()
        length, = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        self.assertEqual(header["transformer.wpe.weight"]["shape"], [32, 48])
        ends = [0]
        with open(graph, "rb") as file:
            model = file.read()
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            self.assertEqual(begin, ends[-1])
            ends.append(end)
            self.assertIn(data[8 + length + begin:8 + length + end], model,
                          name)
        self.assertEqual(8 + length + ends[-1], len(data))

    def test_cut_off(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"\x3a\x7fabc")  # a graph of 127 bytes, three there
            file.flush()
            with self.assertRaises(ValueError):
                onnx_weights.floats(file.name)


class MachineTest(unittest.TestCase):
    def test_versions(self):
        for name, number, text in (("libcuda.so.1", 13000, "13.0"),
                                   ("libnccl.so.2", 22809, "2.28.9"),
                                   ("libcudnn.so.9", 91900, "9.19.0"),
                                   ("libcublasLt.so.13", 130002, "13.0.2"),
                                   ("libnccl.so.2", None, "not found")):
            self.assertEqual(machine.dotted(name, number), text)

    def test_peaks(self):
        self.assertEqual(machine.peak_flops("NVIDIA H100 80GB HBM3"), 989e12)
        self.assertEqual(machine.peak_flops("NVIDIA H200"), 989e12)
        self.assertEqual(machine.peak_flops("NVIDIA H100 PCIe"), 756e12)
        self.assertIsNone(machine.peak_flops("NVIDIA A100"))
        self.assertIsNone(machine.peak_flops(None))


class GpuTest(unittest.TestCase):
    def test_nvidia_smi(self):
        """Without NVML its program tells; older ones name one field else."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "nvidia-smi")
            with open(path, "w") as file:
                file.write('''#!/bin/sh
case "$*" in
*clocks_event*) echo "Field is not a valid field to query."; exit 2 ;;
*clocks_thr*) echo "1980, 3201, 698.71, [N/A], 64, 0x0000000000000025" ;;
*) echo "NVIDIA H200" ;;
esac
''')
            os.chmod(path, 0o700)
            with mock.patch.object(gpu, "load", lambda: None), \
                    mock.patch.dict(os.environ, {"PATH": folder + ":/bin"}):
                found = gpu.Gpu()
                self.assertEqual(found.name(), "NVIDIA H200")
                self.assertEqual(found.state(), dict(
                    sm_mhz=1980, memory_mhz=3201, watts=698.71,
                    limit_watts=None, celsius=64,
                    held_back=["power cap", "heat (driver)"]))

    def test_nobody(self):
        with mock.patch.object(gpu, "load", lambda: None), \
                mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            found = gpu.Gpu()
            self.assertIsNone(found.state())
            self.assertIn("nobody", found.source())


class ImportsTest(unittest.TestCase):
    def test_closure(self):
        """Imports inside functions, and those of what is imported."""
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "a", "b"))
            for name, text in (
                    ("a/run", "import os, one\ndef f():\n  import three.x\n"),
                    ("a/one.py", "from two import x\n"),
                    ("a/b/two.py", "import numpy as n\n")):
                with open(os.path.join(root, name), "w") as file:
                    file.write(text)
            words = root, "a/run", ("a", "a/b")
            self.assertEqual(imports.needed(*words, ("numpy", "three")),
                             ["a/run", "a/one.py", "a/b/two.py"])
            with self.assertRaisesRegex(RuntimeError,
                                        "a/b/two.py imports numpy"):
                imports.needed(*words, ("three",))


class PhasesTest(unittest.TestCase):
    def trace(self, *spans, **other):
        return dict(traceEvents=[
            dict(ph="X", pid=0, cat=cat, name=name, ts=begin, dur=end - begin)
            for cat, name, begin, end in spans], **other)

    def test_every_moment_counts_once(self):
        """Work before communication, that before copies, else nothing."""
        found = phases.analyse(self.trace(
            ("steps", "step 2", 0, 10 ** 6),
            ("compute", "nvjet_tst_128x256", 1000, 4000),
            ("gather", "ncclDevKernel_AllGather_RING_LL", 2000, 6000),
            ("copy", "copy to the GPU", 5000, 7000),
            ("compute", "cudnn_generated_sdpa_sm90_flash_fprop", 9000, 10000),
            ("compute", "rows_add", 9500, 11000),
            otherData=dict(first_step=2, last_step=3)))
        self.assertEqual(found["step_ms"], 5.0)
        self.assertEqual({p: t for p, t in found["phases"].items() if t},
                         dict(GEMM=1.5, attention=0.5, elementwise=0.5,
                              collectives=1.0, copies=0.5, idle=1.0))
        self.assertEqual(found["launches"], 2.5)

    def test_names(self):
        for name, phase in (
                ("void at::native::vectorized_elementwise_kernel<4>(int)",
                 "elementwise"),
                ("void at::native::(anonymous namespace)::multi_tensor_apply_"
                 "kernel<FusedAdamMathFunctor>", "optimizer"),
                ("triton_red_fused__log_softmax_nll_loss_0", "loss"),
                ("void pytorch_flash::flash_bwd_kernel", "attention"),
                ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "GEMM"),
                ("cutlass_80_tensorop_bf16_s16816gemm", "GEMM"),
                ("shx_k_attention_keys_bf16_64", "attention"),
                ("shx_k_gemm_epilogue_bf16_bf16", "GEMM"),
                ("shx_k_grouped_grad_f32_bf16", "GEMM"),
                ("shx_k_cross_entropy_bf16", "loss"),
                ("shx_optimizer_kernel", "optimizer"),
                ("shx_k_squares_bf16", "optimizer"),
                ("shx_k_cast_slice_bf16", "collectives"),
                ("shx_k_embedding_sum_bf16_f32", "elementwise")):
            self.assertEqual(phases.phase_of(name), phase, name)

    def test_profiler_of_pytorch(self):
        found = phases.analyse(self.trace(
            ("cpu_op", "aten::mm", 0, 50), ("kernel", "void gemm(int)", 0, 3),
            ("gpu_memcpy", "Memcpy HtoD", 3, 4)), steps=2)
        self.assertEqual(found["phases"]["copies"], 0.0005)
        self.assertEqual(found["kernels"][0]["name"], "gemm")

    def test_nothing_of_the_device(self):
        with self.assertRaisesRegex(phases.Unknown, "no rows.*CUPTI"):
            phases.analyse(self.trace(("steps", "step 1", 0, 1), otherData={
                "ranks": [{"missing": "CUPTI refuses"}]}))


class ReportTest(unittest.TestCase):
    """A workload whose figures can be worked out by hand."""

    def turn(self, who, ms, peak, held, whole):
        return dict(kind="turn", who=who, ms=[ms] * 5, peak_bytes=peak * MIB,
                    held_bytes=held * MIB, process_bytes=whole * MIB)

    def setUp(self):
        self.results = [
            dict(kind="workload", title="T", batch=10, seq=100,
                 precision="bf16", recompute="none", parameters=MIB,
                 flops=989e9 * 5, planned_bytes=50 * MIB),
            self.turn("shardonnx", 10.0, 50, 51, 451),
            self.turn("eager", 20.0, 86, 100, 500),
            self.turn("compile", 12.5, 60, 70, 480),
            self.turn("fsdp2", 15.0, 70, 80, 490),
            dict(kind="turn", who="fsdp2-compile", failed="out of memory")]

    def test_workload(self):
        text = report.workload(self.results, 989e12)
        for line in ("| shardonnx | 100000 | 10.0 | 50.0% | 100% | 1 | – | – |",
                     "| fsdp2-compile | out of memory |",
                     "| shardonnx : fsdp2 | 1.50 |",
                     "| shardonnx : compile | 1.25 |",
                     "| shardonnx | 50 | 51 | 451 | 35 |",
                     "Model state: 16 MiB; beyond it, shardonnx : eager = "
                     "0.50.",
                     "measured 51 MiB (+2.0% of the peak in use), and 400 "
                     "MiB of context and modules."):
            self.assertIn(line, text)

    def test_summary(self):
        phase = dict.fromkeys(phases.PHASES, 0.0)
        phase.update(GEMM=6.0, optimizer=1.0, idle=3.0)
        self.results.append(dict(kind="phases", who="shardonnx", step_ms=10.0,
                                 phases=phase, launches=7))
        self.results[3]["loss_error"] = 0.0125
        self.assertIn("| t | 50.0% | 1.50 (fsdp2) | 1.25 (compile) | 0.50 | "
                      "1.3e-02 | idle 30%, optimizer 10%, ",
                      report.summary({"t": self.results}, 989e12))

    def test_conditions(self):
        """Extremes over the turns, and all that held the clocks back."""
        turn = self.turn("eager", 20.0, 86, 100, 500)
        idle = gpu.state(345, 3201, 75.2, 700.0, 30, 0x1)
        turn["gpu"] = dict(before=idle, after=dict(idle, sm_mhz=1980),
                           lowest_sm_mhz=1500, highest_sm_mhz=1980,
                           highest_watts=698.7, highest_celsius=64,
                           held_back=["power cap"])
        self.assertIn("| eager | 345–1980 | 1500–1980 | 75 | 699 | 30 | 64 | "
                      "power cap |",
                      report.conditions_table({"eager": [turn]}))

    def test_turns(self):
        self.assertEqual(list(speed.turns(["a", "b"], 1)),
                         ["shardonnx", "a", "shardonnx", "b", "shardonnx"])


if __name__ == "__main__":
    unittest.main()
