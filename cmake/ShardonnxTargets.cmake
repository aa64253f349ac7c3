# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How the project's targets are made, so that each CMakeLists.txt only lists.

option(SHARDONNX_ASSERTIONS "Keep assert() in optimised builds" OFF)
if(SHARDONNX_ASSERTIONS)
  foreach(config RELEASE RELWITHDEBINFO)
    string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_${config}
           "${CMAKE_CXX_FLAGS_${config}}")
  endforeach()
endif()

set(warnings -Wall -Wextra $<$<BOOL:${SHARDONNX_WERROR}>:-Werror>)
# As g++ has it: lambdas of C++17 may capture structured bindings, and
# std::stable_sort may use what the standard deprecates.
set(clang_warnings -Wno-c++20-extensions -Wno-deprecated-declarations)
add_library(shardonnx_warnings INTERFACE)
target_compile_options(shardonnx_warnings INTERFACE ${warnings}
  "$<$<CXX_COMPILER_ID:Clang>:${clang_warnings}>")

# Everything that includes MLIR: its headers as system headers (their warnings
# are not ours), no RTTI as libMLIR was built.
separate_arguments(llvm_definitions NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_library(shardonnx_mlir INTERFACE)
target_include_directories(shardonnx_mlir SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_include_directories(shardonnx_mlir INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include
  ${PROJECT_SOURCE_DIR}/runtime/include)
target_compile_options(shardonnx_mlir INTERFACE
  ${llvm_definitions} -fno-rtti ${warnings} ${clang_warnings}
  -Wno-unused-parameter)
target_link_libraries(shardonnx_mlir INTERFACE MLIR LLVM)

# shardonnx_use_runtime_compiler(): sources of this folder are compiled by what
# compiles the runtime: CMake's rules of a folder take its own value.
macro(shardonnx_use_runtime_compiler)
  set(CMAKE_CXX_COMPILER ${SHARDONNX_RUNTIME_CXX})
  set(CMAKE_CXX_COMPILER_ID GNU)
endmacro()

# shardonnx_no_optimisation(SOURCES…): for what takes no time where it runs, and
# much where it is compiled.
function(shardonnx_no_optimisation)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O0)
endfunction()

# shardonnx_installed_program(TARGET FOLDER): once installed it finds libraries in
# FOLDER, from its own, where a package brings them. So do these libraries of
# each other: that takes RPATH, which RUNPATH is not.
function(shardonnx_installed_program target folder)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/${folder}")
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()

# All generated headers hang on this one target.
add_custom_target(shardonnx-headers)

# Passes run once a compile, tests once: what more optimisation would gain there
# is less than it costs here.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(SHARDONNX_PASS_OPTIONS -O2)
  set(SHARDONNX_TEST_OPTIONS -O1)
endif()

foreach(header NN LLVM)
  shardonnx_precompiled(${header} TARGET shardonnx_mlir
                        OPTIONS ${SHARDONNX_PASS_OPTIONS} -fPIC)
endforeach()
shardonnx_precompiled(NNTest TARGET shardonnx_mlir
                      OPTIONS ${SHARDONNX_TEST_OPTIONS} -DGTEST_HAS_PTHREAD=1)
shardonnx_precompiled(GTest
                      OPTIONS ${SHARDONNX_TEST_OPTIONS} -DGTEST_HAS_PTHREAD=1)

# shardonnx_library(NAME sources… [PRECOMPILED header] [LINK libs…]): a library
# of passes. PRECOMPILED: a header of cmake/precompiled, by default NN.
function(shardonnx_library name)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC shardonnx_mlir ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${SHARDONNX_PASS_OPTIONS})
  add_dependencies(${name} shardonnx-headers)
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED NN)
  endif()
  shardonnx_use_precompiled(${name} ${ARG_PRECOMPILED})
endfunction()

# shardonnx_dialect(TD dialect [OPTIONS…]): the classes of <TD>.td in the
# current folder. OPTIONS go to the generator of ops (-op-shard-count=N).
function(shardonnx_dialect td dialect)
  set(LLVM_TARGET_DEFINITIONS ${td}.td)
  mlir_tablegen(${td}.h.inc -gen-op-decls ${ARGN})
  mlir_tablegen(${td}.cpp.inc -gen-op-defs ${ARGN})
  mlir_tablegen(${td}Dialect.h.inc -gen-dialect-decls -dialect=${dialect})
  mlir_tablegen(${td}Dialect.cpp.inc -gen-dialect-defs -dialect=${dialect})
  mlir_tablegen(${td}Types.h.inc -gen-typedef-decls -typedefs-dialect=${dialect})
  mlir_tablegen(${td}Types.cpp.inc -gen-typedef-defs -typedefs-dialect=${dialect})
  mlir_tablegen(${td}Attrs.h.inc -gen-attrdef-decls -attrdefs-dialect=${dialect})
  mlir_tablegen(${td}Attrs.cpp.inc -gen-attrdef-defs -attrdefs-dialect=${dialect})
  mlir_tablegen(${td}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${td}Enums.cpp.inc -gen-enum-defs)
  add_public_tablegen_target(${td}IncGen)
  add_dependencies(shardonnx-headers ${td}IncGen)
endfunction()

# shardonnx_op_shards(VARIABLE TD HEADER COUNT): appends sources, each with one of
# the shards of op classes that -op-shard-count=COUNT made of <TD>.td, which
# HEADER declares: sixty ops in one file would take a compiler a minute.
function(shardonnx_op_shards variable td header count)
  math(EXPR last "${count} - 1")
  cmake_path(GET header PARENT_PATH folder)
  foreach(shard RANGE ${last})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${td}Shard${shard}.cpp)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/OpShard.cpp.in ${file} @ONLY)
    list(APPEND ${variable} ${file})
  endforeach()
  set(${variable} ${${variable}} PARENT_SCOPE)
endfunction()

# shardonnx_op_group(TD): the classes of the ops of <TD>.td, a group of a dialect
# that has a header of its own, and of its enumerations.
function(shardonnx_op_group td)
  set(LLVM_TARGET_DEFINITIONS ${td}.td)
  mlir_tablegen(${td}.h.inc -gen-op-decls)
  mlir_tablegen(${td}.cpp.inc -gen-op-defs)
  mlir_tablegen(${td}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${td}Enums.cpp.inc -gen-enum-defs)
  add_public_tablegen_target(${td}IncGen)
  add_dependencies(shardonnx-headers ${td}IncGen)
endfunction()

# shardonnx_interfaces(TD): the op interfaces of <TD>.td.
function(shardonnx_interfaces td)
  set(LLVM_TARGET_DEFINITIONS ${td}.td)
  mlir_tablegen(${td}.h.inc -gen-op-interface-decls)
  mlir_tablegen(${td}.cpp.inc -gen-op-interface-defs)
  add_public_tablegen_target(${td}IncGen)
  add_dependencies(shardonnx-headers ${td}IncGen)
endfunction()

# shardonnx_passes(group): the passes of Passes.td in the current folder.
function(shardonnx_passes group)
  set(LLVM_TARGET_DEFINITIONS Passes.td)
  mlir_tablegen(Passes.h.inc -gen-pass-decls -name ${group})
  add_public_tablegen_target(Shardonnx${group}PassesIncGen)
  add_dependencies(shardonnx-headers Shardonnx${group}PassesIncGen)
endfunction()
