# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a package for bare machines has with it (component `toolchain`, which
# `cmake --install` leaves out): the shared libraries of the compiler, a linker,
# and all that training executables are linked with. lib/Target/Link.cpp looks
# for it in lib/shardonnx/toolchain, and needs no compiler where it is.

set(toolchain_dir ${CMAKE_INSTALL_LIBDIR}/shardonnx/toolchain)

function(shardonnx_toolchain_file path destination)
  get_filename_component(real ${path} REALPATH)
  get_filename_component(name ${path} NAME)
  install(FILES ${real} DESTINATION ${toolchain_dir}/${destination}
          RENAME ${name} COMPONENT toolchain EXCLUDE_FROM_ALL)
endfunction()

# As the driver would find them.
foreach(name Scrt1.o crti.o crtbeginS.o crtendS.o crtn.o libc_nonshared.a
             libgcc.a libgcc_eh.a libstdc++.a libgomp.a libz.a
             libc.so.6 libm.so.6 libmvec.so.1 ld-linux-x86-64.so.2)
  execute_process(COMMAND ${SHARDONNX_RUNTIME_CXX} -print-file-name=${name}
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${path}")
    message(STATUS "No ${name}: a package of this build needs a compiler where "
                   "it is used")
    continue()
  endif()
  shardonnx_toolchain_file(${path} link)
  list(APPEND SHARDONNX_TOOLCHAIN_FILES ${path})
endforeach()

# The linker by the name that says which one it is, with its libraries.
get_filename_component(lld ${SHARDONNX_LLD} REALPATH)
install(PROGRAMS ${lld} DESTINATION ${toolchain_dir}/bin RENAME lld
        COMPONENT toolchain EXCLUDE_FROM_ALL)
install(PROGRAMS cmake/toolchain-ld.lld DESTINATION ${toolchain_dir}/bin
        RENAME ld.lld COMPONENT toolchain EXCLUDE_FROM_ALL)

# Shared libraries, and whose work all of this is.
set(toolchain_files ${lld} ${SHARDONNX_TOOLCHAIN_FILES})
configure_file(cmake/toolchain-libraries.cmake.in toolchain-libraries.in @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/toolchain-libraries.cmake
     INPUT ${PROJECT_BINARY_DIR}/toolchain-libraries.in)
install(SCRIPT ${PROJECT_BINARY_DIR}/toolchain-libraries.cmake
        COMPONENT toolchain EXCLUDE_FROM_ALL)
