# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Precompiled headers. MLIR's headers are nine tenths of a source: one list of
# them (cmake/precompiled/<name>.h), compiled once, serves every library. CMake
# has precompiled headers of its own, but ccache must know one by its text:
# clang writes absolute paths into the file, which differ between checkouts, so
# <name>.pch.sum lies beside it (ccache's CCACHE_PCH_EXTSUM). Every source names
# what it includes all the same: SHARDONNX_PRECOMPILED=OFF builds without.

option(SHARDONNX_PRECOMPILED "Use precompiled headers (clang)" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  set(SHARDONNX_PRECOMPILED OFF)
endif()

# shardonnx_precompiled(NAME [TARGET target] [OPTIONS options…]): compiles
# cmake/precompiled/NAME.h as a source of a target that links to `target` and is
# compiled with these options would be: clang compares both.
function(shardonnx_precompiled name)
  cmake_parse_arguments(ARG "" "TARGET" "OPTIONS" ${ARGN})
  if(NOT SHARDONNX_PRECOMPILED)
    return()
  endif()
  set(header ${PROJECT_SOURCE_DIR}/cmake/precompiled/${name}.h)
  set(output ${PROJECT_BINARY_DIR}/precompiled/${name}.pch)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/precompiled)
  set(arguments)
  if(ARG_TARGET)
    get_target_property(arguments ${ARG_TARGET} INTERFACE_COMPILE_OPTIONS)
    get_target_property(includes ${ARG_TARGET} INTERFACE_INCLUDE_DIRECTORIES)
    get_target_property(system ${ARG_TARGET}
                        INTERFACE_SYSTEM_INCLUDE_DIRECTORIES)
    list(REMOVE_ITEM includes ${system})
    list(TRANSFORM includes PREPEND -I)
    list(TRANSFORM system PREPEND -isystem)
    list(APPEND arguments ${includes} ${system})
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
  separate_arguments(flags NATIVE_COMMAND
    "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}}")
  set(command ${CMAKE_CXX_COMPILER} ${flags} -std=c++${CMAKE_CXX_STANDARD}
      ${arguments} ${ARG_OPTIONS} -x c++-header ${header})
  add_custom_command(
    OUTPUT ${output} ${output}.sum
    COMMAND ${command} -Xclang -fno-pch-timestamp -fpch-instantiate-templates
            -MD -MT ${output} -MF ${output}.d -o ${output}
    COMMAND ${command} -E -dD -P -o ${output}.sum
    DEPENDS ${header} DEPFILE ${output}.d
    VERBATIM
    COMMENT "Precompiling ${name}.h")
  add_custom_target(shardonnx-precompiled-${name} DEPENDS ${output})
  add_dependencies(shardonnx-precompiled-${name} shardonnx-headers)
endfunction()

# shardonnx_use_precompiled(TARGET NAME): every source of TARGET, which lies in
# this folder, is compiled with NAME's header, but those that go without its
# optimisation (shardonnx_no_optimisation): clang refuses them.
function(shardonnx_use_precompiled target name)
  if(NOT SHARDONNX_PRECOMPILED)
    return()
  endif()
  set(pch ${PROJECT_BINARY_DIR}/precompiled/${name}.pch)
  add_dependencies(${target} shardonnx-precompiled-${name})
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.(cpp|cu)$")
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(NOT "-O0" IN_LIST options)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
        -Xclang -fno-pch-timestamp -include-pch ${pch})
      set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS ${pch})
    endif()
  endforeach()
endfunction()
