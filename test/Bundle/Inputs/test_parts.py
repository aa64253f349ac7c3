# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of a bundle that its CPU twin does not reach, or can't check."""

import json
import os
import struct
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
for part in ("benchmarks", "benchmarks/cuda", "test/training"):
    sys.path.insert(0, os.path.join(ROOT, part))
sys.dont_write_bytecode = True

import machine
import onnx_weights
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
        for line in ("| shardonnx | 100000 | 10.0 | 50.0% | 100% | 1 | – |",
                     "| fsdp2-compile | out of memory |",
                     "| shardonnx : fsdp2 | 1.50 |",
                     "| shardonnx : compile | 1.25 |",
                     "| shardonnx | 50 | 51 | 451 | 35 |",
                     "Model state: 16 MiB; beyond it, shardonnx : eager = "
                     "0.50.",
                     "measured 51 MiB (+2.0% of the peak in use), and 400 "
                     "MiB of context and modules."):
            self.assertIn(line, text)

    def test_turns(self):
        self.assertEqual(list(speed.turns(["a", "b"], 1)),
                         ["shardonnx", "a", "shardonnx", "b", "shardonnx"])


if __name__ == "__main__":
    unittest.main()
