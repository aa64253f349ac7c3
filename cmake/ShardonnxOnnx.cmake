# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The ONNX C++ library: checker, shape inference, version converter, inliner.
# ./setup unpacks its source release into .deps/onnx-source, and it is built
# beside our own sources, several of its files at once and without optimisation:
# it reads a graph once. A finished library serves, too
# (SHARDONNX_ONNX_ROOT in the environment names its prefix).

set(SHARDONNX_ONNX_SOURCE ${PROJECT_SOURCE_DIR}/.deps/onnx-source CACHE PATH
    "The unpacked source release of ONNX")

# In a scope of its own: ONNX changes compiler flags, and is changed by ours.
function(shardonnx_add_onnx)
  set(ONNX_BUILD_PYTHON OFF)
  set(ONNX_USE_PROTOBUF_SHARED_LIBS ON)
  set(ONNX_USE_UNITY_BUILD ON)
  set(ONNX_INSTALL OFF)
  set(ONNX_ML ON)
  set(CMAKE_EXPORT_COMPILE_COMMANDS OFF)
  foreach(config RELEASE DEBUG)
    set(CMAKE_CXX_FLAGS_${config} "-O0 -DNDEBUG -w")
  endforeach()
  set(CMAKE_CXX_FLAGS_FUZZ "-O1 -DNDEBUG -w") # reads many graphs
  add_subdirectory(${SHARDONNX_ONNX_SOURCE} ${PROJECT_BINARY_DIR}/onnx
                   EXCLUDE_FROM_ALL SYSTEM)
  # What each start runs: a registry of five hundred schemas.
  target_compile_options(onnx_proto PRIVATE -O1)
  foreach(file data_type_utils schema)
    set_source_files_properties(${SHARDONNX_ONNX_SOURCE}/onnx/defs/${file}.cc
      TARGET_DIRECTORY onnx
      PROPERTIES COMPILE_OPTIONS -O1 SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  add_library(ONNX::onnx ALIAS onnx)
endfunction()

if(DEFINED ENV{SHARDONNX_ONNX_ROOT})
  list(APPEND CMAKE_PREFIX_PATH $ENV{SHARDONNX_ONNX_ROOT})
  find_package(ONNX REQUIRED CONFIG)
elseif(EXISTS ${SHARDONNX_ONNX_SOURCE}/CMakeLists.txt)
  shardonnx_add_onnx()
else()
  message(FATAL_ERROR "ONNX's source is not in ${SHARDONNX_ONNX_SOURCE}: "
    "run ./setup build, or name a finished library by SHARDONNX_ONNX_ROOT")
endif()
