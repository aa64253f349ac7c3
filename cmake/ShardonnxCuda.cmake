# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the CUDA target needs on the machine that builds it: headers, nvcc for
# the runtime's kernels and ptxas. No library: programs load what the machine
# they run on has. Without a toolkit everything else is built. Sets
#   SHARDONNX_HAS_CUDA, SHARDONNX_CUDA_INCLUDE, SHARDONNX_NVCC, SHARDONNX_PTXAS,
#   SHARDONNX_CUPTI_INCLUDE (empty where there is none), and
#   SHARDONNX_NVCC_CACHED, which runs nvcc where its output is not kept yet,
# and, where cuDNN's headers and those of its C++ frontend are found (./setup
# puts the frontend into .deps; SHARDONNX_CUDNN_FRONTEND names another folder),
#   SHARDONNX_CUDNN_INCLUDE

set(cuda_hints $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
find_program(SHARDONNX_NVCC nvcc HINTS ${cuda_hints} PATH_SUFFIXES bin)
set(SHARDONNX_NVCC_CACHED ${PROJECT_SOURCE_DIR}/cmake/nvcc-cached)
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

if(SHARDONNX_HAS_CUDA)
  # Records of --trace; their layout is CUDA 13's.
  find_path(SHARDONNX_CUPTI_HEADERS cupti.h
            HINTS ${SHARDONNX_CUDA_INCLUDE} ${cuda_hints}
            PATH_SUFFIXES include extras/CUPTI/include)
  set(SHARDONNX_CUPTI_INCLUDE)
  if(SHARDONNX_CUPTI_HEADERS)
    file(STRINGS ${SHARDONNX_CUPTI_HEADERS}/cupti_version.h cupti_version
         REGEX "define CUPTI_API_VERSION [0-9]+")
    if(cupti_version MATCHES "VERSION ([0-9]+)" AND
       CMAKE_MATCH_1 GREATER_EQUAL 130000)
      set(SHARDONNX_CUPTI_INCLUDE ${SHARDONNX_CUPTI_HEADERS})
    endif()
  endif()
  if(NOT SHARDONNX_CUPTI_INCLUDE)
    message(STATUS "No CUPTI of CUDA 13: programs for GPUs will have no --trace")
  endif()
  find_path(SHARDONNX_CUDNN_HEADERS cudnn.h
            HINTS ${SHARDONNX_CUDA_INCLUDE} ${cuda_hints}
            PATH_SUFFIXES include)
  find_path(SHARDONNX_CUDNN_FRONTEND_HEADERS cudnn_frontend.h
            HINTS ${SHARDONNX_CUDNN_FRONTEND} $ENV{SHARDONNX_CUDNN_FRONTEND}
                  ${PROJECT_SOURCE_DIR}/.deps/cudnn-frontend
            PATH_SUFFIXES include)
  if(SHARDONNX_CUDNN_HEADERS AND SHARDONNX_CUDNN_FRONTEND_HEADERS)
    set(SHARDONNX_CUDNN_INCLUDE ${SHARDONNX_CUDNN_HEADERS}
        ${SHARDONNX_CUDNN_FRONTEND_HEADERS})
    list(REMOVE_DUPLICATES SHARDONNX_CUDNN_INCLUDE)
  else()
    message(STATUS "No cuDNN or no frontend of it: attention on GPUs will run "
                   "on kernels of our own")
  endif()
endif()
