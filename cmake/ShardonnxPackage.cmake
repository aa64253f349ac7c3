# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cpack makes a .deb for Debian 12, whose other packages bring what it needs,
# and a .tar.zst that has all of it inside, for machines where nothing can be
# installed.

set(CPACK_GENERATOR DEB TZST)
set(CPACK_PACKAGE_NAME shardonnx)
set(CPACK_PACKAGE_VENDOR Shardonnx)
set(CPACK_PACKAGE_CONTACT "Shardonnx authors <shardonnx@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY
    "compiler from ONNX models to executables that train them with FSDP")
set(CPACK_PACKAGE_DESCRIPTION
    "One native executable trains an exported transformer, sharded over ranks
as PyTorch FSDP2 shards it, without Python or a framework at run time.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)
# The one difference between the two: CPackOptions.cmake.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/CPackOptions.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Beside the libraries of the programs: what they link executables with.
set(CPACK_DEBIAN_PACKAGE_DEPENDS
    "g++, lld-${LLVM_VERSION_MAJOR}, zlib1g-dev")
# Executables load it where their ranks are on several machines.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libgloo0)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)

include(CPack)
