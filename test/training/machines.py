# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a program on "machines": processes of this one that are told so. Of its
GPUs each has its own."""

import random
import socket
import subprocess


def free_port():
    """None that connections are given."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as listener:
            try:
                listener.bind(("", port))
                return port
            except OSError:
                pass


def call_on_machines(words, ranks, machines, environment, timeout):
    """What rank 0 says of a command on so many of them, or an exception that
    says how it failed."""
    processes = []
    port, local = free_port(), ranks // machines
    for rank in range(ranks):
        first = rank - rank % local
        mine = environment | {
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(first,
                                                            first + local))),
            "RANK": str(rank), "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank % local), "LOCAL_WORLD_SIZE": str(local),
            "GROUP_RANK": str(rank // local),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": f"shardonnx-{port}",
            "SHARDONNX_NUM_THREADS": "1"}
        processes.append(subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=mine))
    try:
        said = [process.communicate(timeout=timeout)[0]
                for process in processes]
    finally:
        for process in processes:
            process.kill()  # those that have not ended
    for rank, process in enumerate(processes):
        if process.returncode != 0:
            last = said[rank].strip().split("\n")[-1]
            raise RuntimeError(f"rank {rank}: exit status "
                               f"{process.returncode}: {last}")
    return said[0]
