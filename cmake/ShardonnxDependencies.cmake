# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the project is built on: LLVM/MLIR 22, protobuf, the ONNX C++ library,
# OpenMP. `./setup` installs all of it.

if(NOT DEFINED MLIR_DIR AND EXISTS /usr/lib/llvm-22/lib/cmake/mlir)
  set(MLIR_DIR /usr/lib/llvm-22/lib/cmake/mlir)
endif()
find_package(MLIR REQUIRED CONFIG)
if(LLVM_VERSION_MAJOR LESS 22)
  message(FATAL_ERROR
    "LLVM/MLIR 22 is needed, found ${LLVM_PACKAGE_VERSION}: run ./setup")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths in the key, so that checkouts share their objects; a
  # precompiled header counts by its text (cmake/ShardonnxPrecompiled.cmake).
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
endif()

# ld.lld links against libMLIR in a fraction of ld.bfd's time; compiled models
# are linked with it too.
find_program(SHARDONNX_LLD NAMES ld.lld
             HINTS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH REQUIRED)
add_link_options(-fuse-ld=lld -B${LLVM_TOOLS_BINARY_DIR})

find_package(Protobuf REQUIRED)
include(ShardonnxOnnx)

# The runtime, and what programs are linked with: g++ and its OpenMP (libgomp).
# The compiler itself is built by clang (CMakePresets.json), which takes a third
# of the time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(SHARDONNX_RUNTIME_CXX ${CMAKE_CXX_COMPILER})
else()
  find_program(SHARDONNX_RUNTIME_CXX g++ REQUIRED)
endif()
execute_process(COMMAND ${SHARDONNX_RUNTIME_CXX} -print-file-name=libgomp.so
  OUTPUT_VARIABLE SHARDONNX_GOMP OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(Threads REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)

# What carries slices between machines; Debian has it as a shared library.
find_library(SHARDONNX_GLOO gloo REQUIRED)
find_path(SHARDONNX_GLOO_INCLUDE gloo/transport/context.h REQUIRED)
