# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the CUDA target needs on the machine that builds it: headers, nvcc for
# the runtime's kernels and ptxas. No library: programs load what the machine
# they run on has. Without a toolkit everything else is built. Sets
#   SHARDONNX_HAS_CUDA, SHARDONNX_CUDA_INCLUDE, SHARDONNX_NVCC, SHARDONNX_PTXAS

set(cuda_hints $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
find_program(SHARDONNX_NVCC nvcc HINTS ${cuda_hints} PATH_SUFFIXES bin)
find_program(SHARDONNX_PTXAS ptxas HINTS ${cuda_hints} PATH_SUFFIXES bin)
find_path(SHARDONNX_CUDA_INCLUDE cuda.h
          HINTS ${cuda_hints} PATH_SUFFIXES include)
# NCCL's types; not every toolkit has them.
find_path(SHARDONNX_NCCL_INCLUDE nccl.h HINTS ${SHARDONNX_CUDA_INCLUDE})
if(SHARDONNX_NVCC AND SHARDONNX_PTXAS AND SHARDONNX_CUDA_INCLUDE AND
   SHARDONNX_NCCL_INCLUDE)
  set(SHARDONNX_HAS_CUDA ON)
else()
  set(SHARDONNX_HAS_CUDA OFF)
  message(STATUS "No CUDA toolkit with NCCL's header: programs for GPUs cannot be built here")
endif()
