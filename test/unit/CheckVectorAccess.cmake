# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cmake -DPTX=… -DSCALAR=REGEX -DREADERS=REGEX -P this: every kernel of the file
# reads and writes global memory 16 bytes at a time (beside what its ends need),
# but for those whose names match SCALAR; those of READERS write less than they
# read: single numbers, or a byte for an element.

file(READ ${PTX} text)
# Entries end at a brace that begins a line.
string(REPLACE ";" "" text "${text}")
string(REGEX REPLACE "\n}\n" ";" entries "${text}")
set(checked 0)
foreach(entry IN LISTS entries)
  if(NOT entry MATCHES "\\.entry ([A-Za-z0-9_]+)")
    continue()
  endif()
  set(kernel ${CMAKE_MATCH_1})
  if(kernel MATCHES "^(${SCALAR})$")
    continue()
  endif()
  math(EXPR checked "${checked} + 1")
  # An asynchronous copy of 16 bytes is a load of as many.
  string(REGEX REPLACE "cp\\.async\\.cg\\.shared\\.global [^,]*,[^,]*, 16," "ld.global.v4.b32"
         entry "${entry}")
  set(accesses ld st)
  if(kernel MATCHES "^(${READERS})$")
    set(accesses ld)
  endif()
  foreach(access IN LISTS accesses)
    if(NOT entry MATCHES "${access}\\.global(\\.nc)?\\.v4\\.[a-z]32")
      message(FATAL_ERROR "${kernel}: no ${access}.global of 16 bytes")
    endif()
  endforeach()
endforeach()
if(checked EQUAL 0)
  message(FATAL_ERROR "${PTX} has no kernel to check")
endif()
message(STATUS "${checked} kernels")
