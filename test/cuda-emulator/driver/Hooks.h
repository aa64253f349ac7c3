// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the emulated libcuda.so.1 offers the other emulated libraries (and the
// tests) besides the driver API.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_HOOKS_H
#define SHARDONNX_TEST_CUDA_EMULATOR_HOOKS_H

#include <cstddef>
#include <cstdint>
#include <cuda.h>

extern "C" {

/// Puts work on a stream, as a kernel launch would be: it may be captured, and
/// then runs as often as the graph. `run` gets `argument` and returns a
/// CUresult; `destroy` is called once it can run no more.
CUresult shardonnxEmulatorEnqueue(CUstream stream, const char *name,
                                  CUresult (*run)(void *), void *argument,
                                  void (*destroy)(void *));

/// The bytes behind a device address, or null and a message on stderr that
/// names `who`, if they are not inside one allocation.
void *shardonnxEmulatorTranslate(CUdeviceptr address, size_t bytes,
                                 const char *who);

/// The same for memory that the current work on a stream is about to use; also
/// null for a race with other work.
void *shardonnxEmulatorAccess(CUdeviceptr address, size_t bytes, int writes,
                              const char *who);

/// Reports a mistake of the program and makes the context's error stick.
void shardonnxEmulatorFail(CUresult code, const char *message);

/// Memory that a library takes of the device for itself, for
/// shardonnxEmulatorUnreserve; null, and a message, when there is not enough.
void *shardonnxEmulatorReserve(int device, size_t bytes, const char *what);
void shardonnxEmulatorUnreserve(void *reserved);

/// The device of a stream; -1 if it is none.
int shardonnxEmulatorDevice(CUstream stream);

/// Calls run(argument, k) for every k below `count`, on all threads.
void shardonnxEmulatorParallel(uint64_t count, void (*run)(void *, uint64_t),
                               void *argument);

/// Told of each piece of work that has run: what it is, when (steady clock,
/// nanoseconds), its stream, and its node if a graph ran it, else 0.
typedef void (*ShardonnxEmulatorObserver)(const char *name, uint64_t begin,
                                          uint64_t end, uint32_t stream,
                                          uint64_t node);
/// Null: nobody is.
void shardonnxEmulatorObserve(ShardonnxEmulatorObserver call);
/// The number of a stream, from 1 on; 0 if it is none.
uint32_t shardonnxEmulatorStreamId(CUstream stream);

/// Lane-instructions run so far.
uint64_t shardonnxEmulatorInstructions(void);
}

#endif
